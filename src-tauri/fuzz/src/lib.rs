//! What is fuzzed: each target takes arbitrary bytes, makes of them what a stranger could hand us, and panics where a
//! promise is broken.
//!
//! A target is one module with a function from bytes, one row in [`TARGETS`] and one program that hands it to libFuzzer.
//! `cargo xtask fuzz TARGET` builds and runs the programs, with coverage to guide them; the inputs that reach most lie in
//! `corpus/TARGET`, with those that once broke a promise, and an ordinary test runs all of them.
#![forbid(unsafe_code)]

pub mod chunk;
pub mod gguf;
pub mod modelfile;
pub mod template;
pub mod tokenizer;

/// A function that is fuzzed.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    /// The name of its folder under `corpus/`.
    pub name: &'static str,
    /// Runs it on one input.
    pub run: fn(&[u8]),
}

/// All targets.
pub const TARGETS: &[Target] = &[
    Target { name: "chunk", run: chunk::run },
    Target { name: "gguf", run: gguf::run },
    Target { name: "modelfile", run: modelfile::run },
    Target { name: "template", run: template::run },
    Target { name: "tokenizer", run: tokenizer::run },
];
