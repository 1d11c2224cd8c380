//! `POST /v1/chat/completions`: the next message of a conversation.

use axum::Router;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use axum::routing::post;
use cairn_app::inference::{CacheScope, Chat, Delta, Endpoint, Event, Finish, Reply};
use cairn_wire::ErrorBody;
use cairn_wire::openai::{
    ChatCompletion, ChatCompletionChunk, ChatCompletionRequest, ChatDelta, Choice, ChunkChoice, FinishReason,
    ReplyMessage, Stop, StructuredOutputs, ToolCall,
};

use super::choices::{self, Choices};
use super::{Envelope, UsageSum, finish_reason, guided, logprobs, messages, options, service_tier, think, tools};
use crate::body::{BodyLimit, JsonBytes};
use crate::client_inference::ClientInference;
use crate::error::{ApiError, json};
use crate::relay::{RelayOutcome, RelayRequest, relay};
use crate::request_log::LogHandle;
use crate::sampling::Sampling;
use crate::streaming::{self, Encoder};
use crate::{Server, sse};

pub(super) fn routes() -> Router<Server> {
    Router::new().route("/v1/chat/completions", post(chat).layer(BodyLimit::PROMPT.layer()))
}

impl RelayRequest for ChatCompletionRequest {
    const ENDPOINT: Endpoint = Endpoint::OpenAiChat;

    fn model(&self) -> &str {
        &self.model
    }

    fn is_streamed(&self) -> bool {
        self.stream == Some(true)
    }
}

async fn chat(
    State(server): State<Server>,
    client: ClientInference,
    log: LogHandle,
    body: JsonBytes,
) -> Result<Response, ApiError> {
    let request: ChatCompletionRequest = match relay(&server, &client, &log, body).await? {
        RelayOutcome::Local(request) => request,
        RelayOutcome::Response(response) => return Ok(response),
    };
    let ClientInference { inference, scope } = client;
    if request.messages.is_empty() {
        return Err(ApiError::bad_request("[] is too short - 'messages'"));
    }
    log.set_model(&request.model);
    let count = choices::count(request.n)?;
    let (inference, tier) = service_tier::apply(request.service_tier.as_deref(), inference);
    let envelope = Envelope::new(server.app(), "chatcmpl-", &request.model, tier)?;
    let is_stream = request.is_streamed();
    let wants_usage = request.stream_options.is_some_and(|options| options.include_usage);
    let warnings = crate::warnings::of_fields(&request.ignored());
    let chat = use_case(request, scope)?;
    let mut answers = Vec::new();
    // The last answer gets the request itself: one answer copies no prompt.
    for (index, mut chat) in (0..).zip(std::iter::repeat_n(chat, count as usize)) {
        chat.options = choices::with_seed(chat.options, index);
        match inference.chat(chat).await? {
            Reply::Answer(answer) => answers.push(*answer),
            // A request with messages always gets an answer.
            Reply::Rendered(_) | Reply::Loaded | Reply::Unloaded => {}
        }
    }
    let answers = Choices::of(answers);
    let chunks = Chunks {
        envelope,
        log,
        choices: vec![ChoiceState::default(); count as usize],
        usage: UsageSum::default(),
        warnings,
    };
    if is_stream {
        let chunks = ChunkStream { chunks, wants_usage };
        return Ok(streaming::respond(Vec::new(), answers, server.activity().begin(), chunks));
    }
    let _guard = server.activity().begin();
    Ok(json(StatusCode::OK, &chunks.complete(answers.collect().await?)))
}

fn use_case(request: ChatCompletionRequest, scope: CacheScope) -> Result<Chat, ApiError> {
    let ChatCompletionRequest { max_tokens, max_completion_tokens, temperature, top_p, seed, stop, .. } = request;
    let sampling = Sampling {
        max_tokens: max_completion_tokens.or(max_tokens),
        temperature,
        top_p,
        seed,
        stop: stop.map(Stop::into_list),
        frequency_penalty: request.frequency_penalty,
        presence_penalty: request.presence_penalty,
        ..Sampling::default()
    };
    let format = request.response_format.map(|format| {
        let schema = format.json_schema.and_then(|schema| schema.schema);
        super::format("response_format", &format.kind, schema)
    });
    let guided = StructuredOutputs {
        json: request.guided_json,
        regex: request.guided_regex,
        choice: request.guided_choice,
        grammar: request.guided_grammar,
    };
    let effort = request.reasoning_effort.or(request.reasoning.and_then(|reasoning| reasoning.effort));
    let logprobs = crate::ollama::requested_logprobs(request.logprobs, request.top_logprobs);
    crate::ollama::unsupported::check_top_logprobs(request.top_logprobs)?;
    let tools = request.tools.unwrap_or_default();
    let (tools, tool_use) = tools::offered(tools, request.tool_choice.as_ref(), request.parallel_tool_calls)?;
    Ok(Chat {
        model: request.model,
        tools,
        tool_use,
        messages: messages::messages(request.messages)?,
        format: guided::format(format.transpose()?.flatten(), request.structured_outputs, guided)?,
        options: Some(options(sampling, request.options)),
        think: think(effort.as_deref())?,
        logprobs,
        scope,
        ..Chat::default()
    })
}

/// State of one answer.
#[derive(Debug, Clone, Default)]
struct ChoiceState {
    has_begun: bool,
    tool_calls: u32,
    is_done: bool,
}

/// Builder of the parts of a response.
struct Chunks {
    envelope: Envelope,
    log: LogHandle,
    choices: Vec<ChoiceState>,
    usage: UsageSum,
    warnings: Vec<String>,
}

impl Chunks {
    /// Returns new parts of an answer's message.
    fn delta(&mut self, index: u32, delta: Delta) -> ChatDelta {
        self.log.record_first_token();
        let state = &mut self.choices[index as usize];
        let role = (!std::mem::replace(&mut state.has_begun, true)).then(|| "assistant".to_owned());
        let delta = match delta {
            Delta::Text(text) => ChatDelta { content: Some(text), ..ChatDelta::default() },
            Delta::Thinking(text) => ChatDelta { reasoning: Some(text), ..ChatDelta::default() },
            Delta::ToolCall(call) => {
                let index = Some(state.tool_calls);
                state.tool_calls += 1;
                ChatDelta { tool_calls: vec![tools::call(call, index)], ..ChatDelta::default() }
            }
        };
        ChatDelta { role, ..delta }
    }

    /// Ends an answer. Returns why it ended.
    fn finish(&mut self, index: u32, finish: &Finish) -> FinishReason {
        crate::warnings::add_of_answer(&mut self.warnings, finish);
        let state = &mut self.choices[index as usize];
        state.is_done = true;
        let reason = finish_reason(&finish.usage, state.tool_calls > 0);
        self.log.set_usage(self.usage.add(0, &finish.usage));
        reason
    }

    fn is_complete(&self) -> bool {
        self.choices.iter().all(|choice| choice.is_done)
    }

    fn chunk(&self, choices: Vec<ChunkChoice>, usage: Option<cairn_wire::openai::Usage>) -> ChatCompletionChunk {
        let Envelope { id, created, model, system_fingerprint, service_tier } = self.envelope.clone();
        let object = "chat.completion.chunk".to_owned();
        let warnings = Vec::new();
        ChatCompletionChunk { id, object, created, model, system_fingerprint, service_tier, choices, usage, warnings }
    }

    /// Builds the complete response of all events.
    fn complete(mut self, events: Vec<(u32, Event)>) -> ChatCompletion {
        #[derive(Default)]
        struct Parts {
            content: String,
            reasoning: String,
            tool_calls: Vec<ToolCall>,
            logprobs: Vec<cairn_app::inference::Logprob>,
            finish_reason: Option<FinishReason>,
        }
        let mut all: Vec<Parts> = self.choices.iter().map(|_| Parts::default()).collect();
        for (index, event) in events {
            let parts = &mut all[index as usize];
            match event {
                Event::Delta(delta, logprobs) => {
                    let ChatDelta { content, reasoning, tool_calls, .. } = self.delta(index, delta);
                    parts.content += &content.unwrap_or_default();
                    parts.reasoning += &reasoning.unwrap_or_default();
                    parts.tool_calls.extend(tool_calls.into_iter().map(|call| ToolCall { index: None, ..call }));
                    parts.logprobs.extend(logprobs);
                }
                Event::Finish(mut finish) => {
                    parts.finish_reason = Some(self.finish(index, &finish));
                    parts.logprobs.append(&mut finish.logprobs);
                }
                Event::Failed(_) => {}
            }
        }
        let choice = |(index, parts): (u32, Parts)| {
            let Parts { content, reasoning, tool_calls, logprobs: tokens, finish_reason } = parts;
            let content = (!content.is_empty() || tool_calls.is_empty()).then_some(content);
            Choice {
                index,
                message: ReplyMessage { role: "assistant".to_owned(), content, reasoning, tool_calls },
                logprobs: logprobs(tokens),
                finish_reason: finish_reason.unwrap_or(FinishReason::Stop),
            }
        };
        let choices = (0..).zip(all).map(choice).collect();
        let Envelope { id, created, model, system_fingerprint, service_tier } = self.envelope;
        let object = "chat.completion".to_owned();
        let (usage, warnings) = (self.usage.total(), self.warnings);
        ChatCompletion { id, object, created, model, system_fingerprint, service_tier, choices, usage, warnings }
    }
}

/// Encoder of a streamed response.
struct ChunkStream {
    chunks: Chunks,
    wants_usage: bool,
}

impl Encoder<(u32, Event)> for ChunkStream {
    const CONTENT_TYPE: &'static str = sse::CONTENT_TYPE;

    fn encode(&mut self, (index, event): (u32, Event)) -> Result<Vec<u8>, cairn_app::Error> {
        let mut stream = Vec::new();
        let chunks = &mut self.chunks;
        match event {
            Event::Delta(delta, tokens) => {
                let delta = chunks.delta(index, delta);
                let choice = ChunkChoice { index, delta, logprobs: logprobs(tokens), finish_reason: None };
                sse::push_data(&mut stream, &chunks.chunk(vec![choice], None));
            }
            Event::Finish(mut finish) => {
                let tokens = std::mem::take(&mut finish.logprobs);
                let role = (!chunks.choices[index as usize].has_begun).then(|| "assistant".to_owned());
                let delta = ChatDelta { role, ..ChatDelta::default() };
                let finish_reason = Some(chunks.finish(index, &finish));
                let choice = ChunkChoice { index, delta, logprobs: logprobs(tokens), finish_reason };
                let mut last = chunks.chunk(vec![choice], None);
                if chunks.is_complete() {
                    if self.wants_usage {
                        sse::push_data(&mut stream, &last);
                        last = chunks.chunk(Vec::new(), Some(chunks.usage.total()));
                    }
                    last.warnings = std::mem::take(&mut chunks.warnings);
                }
                sse::push_data(&mut stream, &last);
                if chunks.is_complete() {
                    stream.extend_from_slice(sse::DONE);
                }
            }
            Event::Failed(error) => return Err(error.into()),
        }
        Ok(stream)
    }

    fn encode_error(error: &ErrorBody) -> Vec<u8> {
        super::encode_error(error)
    }
}
