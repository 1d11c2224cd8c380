//! Constraints on the text of an answer: JSON, JSON Schema, regular expressions and Lark grammars.
//!
//! A [`Matcher`] follows one answer. Before each token it computes the [`Mask`] of tokens that may come next; the sampler ignores
//! all others. So every finished answer matches its [`Constraint`]. `llguidance` parses grammars and computes masks; this crate
//! decides what it may be asked for:
//!
//! - `schema` rewrites a JSON Schema to the part that is enforced exactly. It refuses any other keyword with its position, because
//!   an ignored keyword would be a wrong answer.
//! - `limits` bounds sizes, nesting, work and memory. A hostile schema ends in an error.
//! - [`Vocabulary`] holds the bytes of a model's tokens, indexed. It is built once for each model.
//!
//! **Invariant:** no constraint causes a panic, an endless loop or unbounded memory.
#![forbid(unsafe_code)]
#![cfg_attr(not(test), warn(clippy::indexing_slicing, clippy::unwrap_used))]

mod constraint;
mod error;
mod json;
mod limits;
mod mask;
mod matcher;
mod part;
mod regex;
mod schema;
mod vocabulary;

pub use constraint::Constraint;
pub use error::{Error, MatchError};
pub use limits::{MAX_GRAMMAR_BYTES, MAX_REGEX_BYTES, MAX_SCHEMA_BYTES};
pub use mask::Mask;
pub use matcher::Matcher;
pub use part::Part;
pub use vocabulary::Vocabulary;
