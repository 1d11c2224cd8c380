//! Sources of `create`: a [`Modelfile`] describes a model, and [`quantise`] quantises its weights, and
//! [`checkpoint`] converts published checkpoints.
//!
//! This crate uses no library and no network. It parses and formats text, reads weights from files and writes them to any
//! [`Write`](std::io::Write).
#![forbid(unsafe_code)]

pub mod checkpoint;
pub mod file_type;
pub mod importance;
pub mod modelfile;
pub mod quantise;

pub use checkpoint::{CheckpointFile, Conversion, ConvertError};
pub use file_type::FileType;
pub use importance::{Importance, ImportanceError};
pub use modelfile::{Modelfile, Recipe};
pub use quantise::{Quantisation, QuantiseError};
