//! Fuzz targets: each converts arbitrary bytes to untrusted input and panics if a guarantee does not hold.
//!
//! A target is one module with a function from bytes, one row in [`TARGETS`] and one program for libFuzzer. `cargo
//! xtask fuzz TARGET` builds and runs the program with coverage. `corpus/TARGET` has the inputs with the most coverage
//! and regression inputs; a test runs all of them.
#![forbid(unsafe_code)]

pub mod checkpoint;
pub mod chunk;
pub mod document;
pub mod gguf;
pub mod grammar;
pub mod image;
pub mod modelfile;
pub mod template;
pub mod tokenizer;

/// A fuzz target.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    /// The name of its folder under `corpus/`.
    pub name: &'static str,
    /// Runs it on one input.
    pub run: fn(&[u8]),
}

/// All targets.
pub const TARGETS: &[Target] = &[
    Target { name: "checkpoint", run: checkpoint::run },
    Target { name: "chunk", run: chunk::run },
    Target { name: "document", run: document::run },
    Target { name: "gguf", run: gguf::run },
    Target { name: "grammar", run: grammar::run },
    Target { name: "image", run: image::run },
    Target { name: "modelfile", run: modelfile::run },
    Target { name: "template", run: template::run },
    Target { name: "tokenizer", run: tokenizer::run },
];
