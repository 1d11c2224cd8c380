//! The GGUF file format: bytes to metadata, tensor table and typed blocks, and back.
#![forbid(unsafe_code)]

pub mod dtype;

pub use dtype::DType;
