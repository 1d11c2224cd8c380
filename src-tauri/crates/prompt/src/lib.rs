//! What is said to a model and how its answer is read: messages, chat templates that turn them into one text, and parsers that
//! split the streamed answer.
//!
//! - [`Template`] renders [`Message`]s by a model's template, in Jinja or in Go's language.
//! - [`ThinkingSplitter`] parts reasoning from the answer as both stream in.
//! - [`StopFilter`] ends an answer at a stop string and never shows a part of one.
//!
//! **Invariant:** templates, messages and answers are input from strangers; nothing here panics or loops for ever on them. Token
//! ids and HTTP are unknown here.
#![forbid(unsafe_code)]
#![cfg_attr(not(test), warn(clippy::indexing_slicing, clippy::unwrap_used))]

mod message;
mod overlap;
mod stop;
mod template;
mod thinking;

pub use message::{Image, Message, ToolCall};
pub use stop::StopFilter;
pub use template::clock::Moment;
pub use template::{Capabilities, Error, Language, Render, Template, Think};
pub use thinking::{Piece, ThinkingSplitter};
