//! Events of a streamed response. The name of an event is its `type`.

use serde::{Deserialize, Serialize};

use super::{ErrorDetail, MessageResponse, ResponseBlock, StopReason, Usage};

/// An event.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum StreamEvent {
    /// The response begins.
    MessageStart {
        /// The response without its content.
        message: MessageResponse,
    },
    /// A block begins.
    ContentBlockStart {
        /// Place of the block in the response.
        index: u64,
        /// The block without its content.
        content_block: ResponseBlock,
    },
    /// A part of a block.
    ContentBlockDelta {
        /// Place of the block in the response.
        index: u64,
        /// The part.
        delta: BlockDelta,
    },
    /// A block is complete.
    ContentBlockStop {
        /// Place of the block in the response.
        index: u64,
    },
    /// The message is complete.
    MessageDelta {
        /// How it ended.
        delta: MessageDelta,
        /// Token counts of the request.
        usage: Usage,
    },
    /// The response is complete.
    MessageStop,
    /// The answer failed.
    Error {
        /// The error.
        error: ErrorDetail,
    },
}

impl StreamEvent {
    /// Returns the name of the event.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::MessageStart { .. } => "message_start",
            Self::ContentBlockStart { .. } => "content_block_start",
            Self::ContentBlockDelta { .. } => "content_block_delta",
            Self::ContentBlockStop { .. } => "content_block_stop",
            Self::MessageDelta { .. } => "message_delta",
            Self::MessageStop => "message_stop",
            Self::Error { .. } => "error",
        }
    }
}

/// A part of a block.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum BlockDelta {
    /// A part of a text.
    TextDelta {
        /// The part.
        text: String,
    },
    /// A part of the reasoning.
    ThinkingDelta {
        /// The part.
        thinking: String,
    },
    /// A part of a tool call's arguments, as a part of their JSON.
    InputJsonDelta {
        /// The part.
        partial_json: String,
    },
}

/// How a message ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MessageDelta {
    /// Why it ended.
    pub stop_reason: Option<StopReason>,
    /// The stop sequence that occurred.
    pub stop_sequence: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn event_name_is_its_type() {
        let usage = Usage::default();
        let delta = MessageDelta { stop_reason: None, stop_sequence: None };
        let block = ResponseBlock::Text { text: String::new() };
        let events = [
            StreamEvent::ContentBlockStart { index: 0, content_block: block },
            StreamEvent::ContentBlockDelta { index: 0, delta: BlockDelta::TextDelta { text: String::new() } },
            StreamEvent::ContentBlockStop { index: 0 },
            StreamEvent::MessageDelta { delta, usage },
            StreamEvent::MessageStop,
        ];
        for event in events {
            assert_eq!(serde_json::to_value(&event).unwrap()["type"], event.name(), "{event:?}");
        }
    }
}
