//! The events of a streamed response: the text, the reasoning and each tool call are blocks, which follow one another.

use axum::http::StatusCode;
use cairn_app::inference::{Delta, Event, Finish, ToolCall};
use cairn_wire::ErrorBody;
use cairn_wire::anthropic::{BlockDelta, MessageDelta, MessageResponse, ResponseBlock, StreamEvent};
use serde_json::{Map, Value};

use super::ending;
use crate::error::anthropic_error;
use crate::request_log::LogHandle;
use crate::sse;
use crate::streaming::Encoder;

/// Encoder of a streamed response.
pub(super) struct MessageStream {
    log: LogHandle,
    /// The open block.
    open: Option<Kind>,
    /// Number of blocks before the open one.
    complete_blocks: u64,
    has_tool_calls: bool,
}

/// The kind of a block that grows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Thinking,
    Text,
}

impl MessageStream {
    /// Creates the encoder and the event that begins the stream.
    pub(super) fn new(log: LogHandle, message: MessageResponse) -> (Self, Vec<u8>) {
        let mut stream = Vec::new();
        push(&mut stream, &StreamEvent::MessageStart { message });
        (Self { log, open: None, complete_blocks: 0, has_tool_calls: false }, stream)
    }

    /// Adds a part to the open block, or begins one.
    fn add(&mut self, stream: &mut Vec<u8>, kind: Kind, delta: BlockDelta) {
        if self.open != Some(kind) {
            self.close(stream);
            let content_block = match kind {
                Kind::Thinking => ResponseBlock::Thinking { thinking: String::new(), signature: String::new() },
                Kind::Text => ResponseBlock::Text { text: String::new() },
            };
            push(stream, &StreamEvent::ContentBlockStart { index: self.complete_blocks, content_block });
            self.open = Some(kind);
        }
        push(stream, &StreamEvent::ContentBlockDelta { index: self.complete_blocks, delta });
    }

    /// Closes the open block.
    fn close(&mut self, stream: &mut Vec<u8>) {
        if self.open.take().is_some() {
            push(stream, &StreamEvent::ContentBlockStop { index: self.complete_blocks });
            self.complete_blocks += 1;
        }
    }

    /// Adds a block with a tool call. Its arguments are complete.
    fn add_call(&mut self, stream: &mut Vec<u8>, call: ToolCall) {
        self.close(stream);
        self.has_tool_calls = true;
        let index = self.complete_blocks;
        let input = Value::Object(Map::new());
        let content_block = ResponseBlock::ToolUse { id: call.id.unwrap_or_default(), name: call.name, input };
        push(stream, &StreamEvent::ContentBlockStart { index, content_block });
        let delta = BlockDelta::InputJsonDelta { partial_json: call.arguments.to_string() };
        push(stream, &StreamEvent::ContentBlockDelta { index, delta });
        push(stream, &StreamEvent::ContentBlockStop { index });
        self.complete_blocks += 1;
    }

    fn finish(&mut self, stream: &mut Vec<u8>, finish: Finish) {
        self.close(stream);
        self.log.set_usage(&finish.usage);
        let usage = ending::usage(&finish);
        let (stop_reason, stop_sequence) = ending::stop(finish, self.has_tool_calls);
        let delta = MessageDelta { stop_reason: Some(stop_reason), stop_sequence };
        push(stream, &StreamEvent::MessageDelta { delta, usage });
        push(stream, &StreamEvent::MessageStop);
    }
}

fn push(stream: &mut Vec<u8>, event: &StreamEvent) {
    sse::push_event(stream, event.name(), event);
}

impl Encoder<Event> for MessageStream {
    const CONTENT_TYPE: &'static str = sse::CONTENT_TYPE;

    fn encode(&mut self, event: Event) -> Result<Vec<u8>, cairn_app::Error> {
        let mut stream = Vec::new();
        match event {
            Event::Delta(delta, _) => {
                self.log.record_first_token();
                match delta {
                    Delta::Text(text) => self.add(&mut stream, Kind::Text, BlockDelta::TextDelta { text }),
                    Delta::Thinking(thinking) => {
                        self.add(&mut stream, Kind::Thinking, BlockDelta::ThinkingDelta { thinking });
                    }
                    Delta::ToolCall(call) => self.add_call(&mut stream, call),
                }
            }
            Event::Finish(finish) => self.finish(&mut stream, finish),
            Event::Failed(error) => return Err(error.into()),
        }
        Ok(stream)
    }

    fn encode_error(error: &ErrorBody) -> Vec<u8> {
        let mut stream = Vec::new();
        let error = anthropic_error(StatusCode::INTERNAL_SERVER_ERROR, error).error;
        push(&mut stream, &StreamEvent::Error { error });
        stream
    }
}
