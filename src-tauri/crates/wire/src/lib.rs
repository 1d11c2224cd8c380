//! Requests and responses as serde types: the APIs of Ollama, OpenAI and Anthropic, and Cairn's own API for its own clients.
//!
//! The order of fields is the order in the JSON, and a field that is omitted in the JSON is omitted here. Rules of a
//! value (`keep_alive`, `think`, `options`) are next to its type. Chats, messages, presets and usage are stored and sent
//! as they are; for other types `cairn-http` converts between these and the types of `cairn-app`.
#![forbid(unsafe_code)]

pub mod anthropic;
pub mod app;
mod count;
mod error;
mod excerpt;
pub mod go_duration;
pub mod headers;
mod keep_alive;
pub mod ollama;
pub mod openai;
mod options;
mod text_or_list;
mod think;
mod timestamp;
mod usage;

pub use count::{human_count, thousands};
pub use error::{ErrorBody, ErrorCode};
pub use excerpt::{beginning, excerpt};
pub use keep_alive::KeepAlive;
pub use options::{OptionError, OptionKind, Options};
pub use think::{Level, Think};
pub use timestamp::Timestamp;
pub use usage::{Overflow, Truncated, Usage};

/// Whether a count is omitted in the JSON.
fn is_zero<N: Default + PartialEq>(number: &N) -> bool {
    *number == N::default()
}
