//! The output of a response: builds its items from the events of an answer, and the events of a stream.

use axum::http::StatusCode;
use cairn_app::inference::{self, Answer, Delta, Event, Finish, Logprob, ToolCall};
use cairn_wire::ErrorBody;
use cairn_wire::openai::{
    IncompleteDetails, ItemPlace, ItemStatus, OutputItem, OutputPart, OutputTokensDetails, PartPlace,
    PromptTokensDetails, ResponseError, ResponseEvent, ResponseObject, ResponseStatus, ResponseUsage, SequencedEvent,
};

use super::tools::Namespaces;
use crate::error::openai_error;
use crate::openai::logprobs;
use crate::request_log::LogHandle;
use crate::sse;
use crate::streaming::Encoder;

/// Builder of a response's output, and encoder of its stream.
pub(super) struct Output {
    log: LogHandle,
    response: ResponseObject,
    namespaces: Namespaces,
    /// Whether the last item grows.
    is_open: bool,
    events: u64,
    warnings: Vec<String>,
}

impl Output {
    pub(super) fn new(log: LogHandle, response: ResponseObject, namespaces: Namespaces, warnings: Vec<String>) -> Self {
        Self { log, response, namespaces, is_open: false, events: 0, warnings }
    }

    /// Returns the events that begin the stream.
    pub(super) fn begin(&mut self) -> Vec<u8> {
        let response = self.response.clone();
        self.encode_all(vec![
            ResponseEvent::Created { response: response.clone() },
            ResponseEvent::InProgress { response },
        ])
    }

    /// Collects the events of an answer until its end. Returns an error if the answer fails.
    pub(super) async fn collect(mut self, mut answer: Answer) -> Result<ResponseObject, cairn_app::Error> {
        while let Some(event) = answer.next().await {
            match event {
                Event::Delta(delta, logprobs) => _ = self.delta(delta, logprobs),
                Event::Finish(finish) => {
                    self.finish(&finish);
                    return Ok(self.response);
                }
                Event::Failed(error) => return Err(error.into()),
            }
        }
        Err(inference::Error::EngineGone.into())
    }

    /// Adds a part of the answer.
    fn delta(&mut self, delta: Delta, tokens: Vec<Logprob>) -> Vec<ResponseEvent> {
        self.log.record_first_token();
        let mut events = Vec::new();
        match delta {
            Delta::Text(text) => {
                let logprobs = logprobs(tokens).map(|logprobs| logprobs.content).unwrap_or_default();
                if !matches!(self.open_item(), Some(OutputItem::Message { .. })) {
                    events.extend(self.close(ItemStatus::Completed));
                    events.extend(self.open(OutputItem::Message {
                        id: self.item_id("msg"),
                        status: ItemStatus::InProgress,
                        role: "assistant".to_owned(),
                        content: Vec::new(),
                    }));
                }
                events.push(ResponseEvent::TextDelta {
                    place: self.part_place(),
                    delta: text.clone(),
                    logprobs: logprobs.clone(),
                });
                if let Some(OutputPart::OutputText { text: all, logprobs: tokens, .. }) = self.open_part() {
                    all.push_str(&text);
                    tokens.extend(logprobs);
                }
            }
            Delta::Thinking(text) => {
                if !matches!(self.open_item(), Some(OutputItem::Reasoning { .. })) {
                    events.extend(self.close(ItemStatus::Completed));
                    events.extend(self.open(OutputItem::Reasoning {
                        id: self.item_id("rs"),
                        status: ItemStatus::InProgress,
                        summary: Vec::new(),
                        content: Vec::new(),
                    }));
                }
                events.push(ResponseEvent::ReasoningDelta { place: self.part_place(), delta: text.clone() });
                if let Some(OutputPart::ReasoningText { text: all }) = self.open_part() {
                    all.push_str(&text);
                }
            }
            Delta::ToolCall(call) => {
                events.extend(self.close(ItemStatus::Completed));
                events.extend(self.call(call));
            }
        }
        events
    }

    /// Adds a call. Its arguments are complete.
    fn call(&mut self, call: ToolCall) -> Vec<ResponseEvent> {
        let ToolCall { id, name, arguments } = call;
        let (namespace, name) = self.namespaces.split(name);
        let (place, arguments) = (self.next_place("fc"), arguments.to_string());
        let item = |status, arguments: String| OutputItem::FunctionCall {
            id: place.item_id.clone(),
            status,
            call_id: id.clone().unwrap_or_default(),
            namespace: namespace.clone(),
            name: name.clone(),
            arguments,
        };
        let done = item(ItemStatus::Completed, arguments.clone());
        self.response.output.push(done.clone());
        let output_index = place.output_index;
        let added = item(ItemStatus::InProgress, String::new());
        vec![
            ResponseEvent::ItemAdded { output_index, item: added },
            ResponseEvent::ArgumentsDelta { place: place.clone(), delta: arguments.clone() },
            ResponseEvent::ArgumentsDone { place: place.clone(), name: name.clone(), arguments },
            ResponseEvent::ItemDone { output_index, item: done },
        ]
    }

    /// Begins an item with one part.
    fn open(&mut self, item: OutputItem) -> [ResponseEvent; 2] {
        let output_index = self.response.output.len() as u64;
        let part = match &item {
            OutputItem::Reasoning { .. } => OutputPart::ReasoningText { text: String::new() },
            _ => OutputPart::OutputText { text: String::new(), annotations: Vec::new(), logprobs: Vec::new() },
        };
        let added = ResponseEvent::ItemAdded { output_index, item: item.clone() };
        self.response.output.push(item);
        self.is_open = true;
        if let Some(OutputItem::Message { content, .. } | OutputItem::Reasoning { content, .. }) = self.open_item() {
            content.push(part.clone());
        }
        [added, ResponseEvent::PartAdded { place: self.part_place(), part }]
    }

    /// Ends the open item.
    fn close(&mut self, end: ItemStatus) -> Vec<ResponseEvent> {
        if !self.is_open {
            return Vec::new();
        }
        let place = self.part_place();
        let mut events = Vec::new();
        if let Some(part) = self.open_part() {
            let part = part.clone();
            events.push(match part.clone() {
                OutputPart::OutputText { text, logprobs, .. } => {
                    ResponseEvent::TextDone { place: place.clone(), text, logprobs }
                }
                OutputPart::ReasoningText { text } => ResponseEvent::ReasoningDone { place: place.clone(), text },
            });
            events.push(ResponseEvent::PartDone { place: place.clone(), part });
        }
        if let Some(item) = self.open_item() {
            if let OutputItem::Message { status, .. } | OutputItem::Reasoning { status, .. } = item {
                *status = end;
            }
            events.push(ResponseEvent::ItemDone { output_index: place.item.output_index, item: item.clone() });
        }
        self.is_open = false;
        events
    }

    /// Ends the response.
    fn finish(&mut self, finish: &Finish) -> Vec<ResponseEvent> {
        let is_incomplete = finish.usage.length_reached;
        let mut events = self.close(if is_incomplete { ItemStatus::Incomplete } else { ItemStatus::Completed });
        self.log.set_usage(&finish.usage);
        self.response.usage = Some(usage(finish));
        self.response.warnings = std::mem::take(&mut self.warnings);
        self.response.warnings.extend(crate::warnings::of_answer(finish));
        events.push(if is_incomplete {
            self.response.status = ResponseStatus::Incomplete;
            self.response.incomplete_details = Some(IncompleteDetails { reason: "max_output_tokens".to_owned() });
            ResponseEvent::Incomplete { response: self.response.clone() }
        } else {
            self.response.status = ResponseStatus::Completed;
            ResponseEvent::Completed { response: self.response.clone() }
        });
        events
    }

    fn open_item(&mut self) -> Option<&mut OutputItem> {
        self.response.output.last_mut().filter(|_| self.is_open)
    }

    fn open_part(&mut self) -> Option<&mut OutputPart> {
        match self.open_item() {
            Some(OutputItem::Message { content, .. } | OutputItem::Reasoning { content, .. }) => content.last_mut(),
            _ => None,
        }
    }

    /// Returns the place of the open item's part.
    fn part_place(&self) -> PartPlace {
        let item_id = match self.response.output.last() {
            Some(
                OutputItem::Message { id, .. } | OutputItem::Reasoning { id, .. } | OutputItem::FunctionCall { id, .. },
            ) => id.clone(),
            None => String::new(),
        };
        let output_index = self.response.output.len().saturating_sub(1) as u64;
        PartPlace { item: ItemPlace { item_id, output_index }, content_index: 0 }
    }

    fn next_place(&self, prefix: &str) -> ItemPlace {
        ItemPlace { item_id: self.item_id(prefix), output_index: self.response.output.len() as u64 }
    }

    /// Returns the id of the next item, which is unique because that of the response is.
    fn item_id(&self, prefix: &str) -> String {
        let id = self.response.id.trim_start_matches("resp_");
        format!("{prefix}_{id}{:02x}", self.response.output.len())
    }

    fn encode_all(&mut self, events: Vec<ResponseEvent>) -> Vec<u8> {
        let mut stream = Vec::new();
        for event in events {
            let (name, sequence_number) = (event.name(), self.events);
            sse::push_event(&mut stream, name, &SequencedEvent { event, sequence_number });
            self.events += 1;
        }
        stream
    }
}

fn usage(finish: &Finish) -> ResponseUsage {
    let usage = &finish.usage;
    ResponseUsage {
        input_tokens: usage.prompt_tokens,
        input_tokens_details: PromptTokensDetails { cached_tokens: usage.cached_tokens },
        output_tokens: usage.answer_tokens,
        output_tokens_details: OutputTokensDetails { reasoning_tokens: finish.thinking_tokens },
        total_tokens: usage.prompt_tokens + usage.answer_tokens,
    }
}

impl Encoder<Event> for Output {
    const CONTENT_TYPE: &'static str = sse::CONTENT_TYPE;

    fn encode(&mut self, event: Event) -> Result<Vec<u8>, cairn_app::Error> {
        let events = match event {
            Event::Delta(delta, logprobs) => self.delta(delta, logprobs),
            Event::Finish(finish) => self.finish(&finish),
            Event::Failed(error) => return Err(error.into()),
        };
        Ok(self.encode_all(events))
    }

    fn fail(&mut self, error: &ErrorBody) -> Vec<u8> {
        let mut events = self.close(ItemStatus::Incomplete);
        self.response.status = ResponseStatus::Failed;
        self.response.error = Some(ResponseError { code: "server_error".to_owned(), message: error.error.clone() });
        events.push(ResponseEvent::Failed { response: self.response.clone() });
        self.encode_all(events)
    }

    fn encode_error(error: &ErrorBody) -> Vec<u8> {
        let openai = openai_error(StatusCode::INTERNAL_SERVER_ERROR, error).error;
        let event = ResponseEvent::Error { code: openai.code, message: openai.message, param: openai.param };
        let mut stream = Vec::new();
        sse::push_event(&mut stream, event.name(), &event);
        stream
    }
}
