//! What clients send and what they get back, as serde types: the Ollama interface, and our own for our own clients.
//!
//! The types follow the wire and nothing else: the order of fields is the order in the JSON, a field that clients see
//! left out is left out here, and a value's rules (`keep_alive`, `think`, `options`) live beside its type. What the
//! daemon does with them is the business of `cairn-app`; `cairn-http` converts by hand.
#![forbid(unsafe_code)]

pub mod app;
mod count;
mod error;
pub mod go_duration;
mod keep_alive;
pub mod ollama;
mod options;
mod think;
mod timestamp;

pub use count::human_count;
pub use error::{ErrorBody, ErrorCode};
pub use keep_alive::KeepAlive;
pub use options::{OptionError, OptionKind, Options};
pub use think::{Level, Think};
pub use timestamp::Timestamp;
