//! Messages, chat templates that render messages to one prompt text, and parsers for the streamed answer.
//!
//! - [`Template`] renders [`Message`]s by a model's template, in Jinja or in Go's language.
//! - [`AnswerParser`] splits an answer into reasoning, text and tool calls while it streams in.
//! - [`StopFilter`] ends an answer at a stop string and never emits a part of one.
//!
//! **Invariant:** templates, messages and answers are untrusted input. No input causes a panic or an endless loop. This
//! crate does not use token ids or HTTP.
#![forbid(unsafe_code)]
#![cfg_attr(not(test), warn(clippy::indexing_slicing, clippy::unwrap_used))]

mod answer;
mod message;
mod overlap;
mod stop;
mod template;
mod thinking;

pub use answer::{AnswerFormat, AnswerParser, CallLimits, Syntax, ThinkingStart, Tool};
pub use message::{Image, Message, ToolCall};
pub use stop::StopFilter;
pub use template::local_time::LocalTime;
pub use template::{Capabilities, Error, Language, RenderInput, Template, ThinkMode};
pub use thinking::Delta;
