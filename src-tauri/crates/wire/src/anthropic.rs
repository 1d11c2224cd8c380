//! The Anthropic API, `/v1/messages`. Unknown fields are ignored.
//!
//! Source: the Anthropic API reference, <https://docs.anthropic.com/en/api/messages>.

mod errors;
mod events;
mod messages;

pub use errors::{ErrorDetail, ErrorResponse};
pub use events::{BlockDelta, MessageDelta, StreamEvent};
pub use messages::{
    Block, Blocks, ImageSource, Message, MessageResponse, MessagesRequest, OutputConfig, OutputFormat, ResponseBlock,
    Role, StopReason, Thinking, TokenCount, Tool, Usage,
};
