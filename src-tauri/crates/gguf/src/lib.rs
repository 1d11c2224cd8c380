//! The GGUF file format: bytes to metadata, tensor table and typed blocks, and back.
//!
//! A GGUF file is a header (magic, version, counts), metadata as key and value pairs, a table of tensors, padding, and
//! the tensors' bytes. This crate takes bytes and opens nothing, so that the same code reads a mapping, a download's
//! first megabyte and a fuzzer's input.
//!
//! **Invariant:** no input causes a panic, allocations of more than [`reader::MAX_MEMORY_BYTES`], or a tensor that reaches
//! outside the file. Every error names the key or tensor, the byte offset, the expected value and the value found.
//!
//! Specification: <https://github.com/ggml-org/ggml/blob/master/docs/gguf.md>.
#![forbid(unsafe_code)]
#![warn(clippy::indexing_slicing, clippy::unwrap_used)]

pub mod describe;
pub mod dtype;
pub mod error;
pub mod metadata;
pub mod pooling;
pub mod reader;
pub mod split;
pub mod strings;
pub mod value;
pub mod write;

pub use dtype::{DType, EncodeError};
pub use error::Error;
pub use metadata::Metadata;
pub use pooling::Pooling;
pub use reader::{Gguf, Tensor};
pub use strings::Strings;
pub use value::{Array, Value};
pub use write::{WriteError, Writer};
