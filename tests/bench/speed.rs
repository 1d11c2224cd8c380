//! Speed compared with llama.cpp: `cargo xtask bench decode [--rounds 7] [--tokens 64] [--shape NAME]`, and `bench prefill` with 512
//! tokens.
//!
//! Cairn and llama-bench alternate on the same files with the same number of threads.

use std::path::Path;

use anyhow::ensure;
use cairn_gguf::DType;
use cairn_testkit::{ModelSpec, Types};

use crate::peer::{self, Work};
use crate::{engine, kv, sorted, write_report};

/// One model of the comparison.
struct Shape {
    name: &'static str,
    spec: ModelSpec,
}

/// Compares the tokens per second of one sequence in an empty context.
pub(crate) fn run(folder: &Path, peer: &Path, rounds: usize, work: Work, options: &kv::Options) -> anyhow::Result<()> {
    let (threads, tokens) = (engine::threads(), options.tokens.unwrap_or(work.default_tokens()));
    let is_chosen = |shape: &Shape| options.shape.as_ref().is_none_or(|name| shape.name.starts_with(name));
    let shapes: Vec<Shape> = shapes().into_iter().filter(is_chosen).collect();
    ensure!(!shapes.is_empty(), "no shape begins with this name; shapes: {}", names().join(", "));
    println!("{} of {tokens} tokens, {threads} threads, {rounds} rounds, in turns", work.name());
    let mut report = Vec::new();
    for Shape { name, spec } in shapes {
        let path = folder.join(format!("{name}.gguf"));
        if !path.exists() {
            cairn_testkit::write_file(&spec, &path)?;
        }
        let mut model = engine::Loaded::open(&path)?;
        model.run(work, 8)?;
        let mut pairs = Vec::new();
        for _ in 0..rounds {
            let theirs = peer::run(peer, &path, threads, work, tokens)?;
            let ours = model.run(work, tokens)?;
            pairs.push((ours, theirs));
        }
        let ratios = sorted(pairs.iter().map(|(ours, theirs)| ours / theirs));
        let (ours, theirs) = (sorted(pairs.iter().map(|p| p.0)), sorted(pairs.iter().map(|p| p.1)));
        let middle = |values: &[f64]| values[values.len() / 2];
        println!(
            "{name:<20} cairn {:6.1} t/s   llama.cpp {:6.1} t/s   ratio {:.2} / {:.2} / {:.2} (min / median / max)",
            middle(&ours),
            middle(&theirs),
            ratios[0],
            middle(&ratios),
            ratios[ratios.len() - 1]
        );
        report.push(serde_json::json!({
            "model": name, "tokens": tokens, "threads": threads, "variant": model.variant(),
            "cairn_tokens_per_s": ours, "llama_cpp_tokens_per_s": theirs, "ratios": ratios,
        }));
    }
    write_report(folder, work.name(), &report)
}

fn shapes() -> Vec<Shape> {
    let q8_0 = Types::All(DType::Q8_0);
    let dense = |name, types| Shape { name, spec: cairn_testkit::llama1b_shape(types) };
    let hybrid = |name, types| Shape { name, spec: cairn_testkit::qwen35_08b_shape(types) };
    vec![
        dense("1b-q8_0", q8_0),
        dense("1b-q4_k_m", Types::Q4KM),
        hybrid("hybrid-0.8b-q8_0", q8_0),
        hybrid("hybrid-0.8b-q4_k_m", Types::Q4KM),
    ]
}

fn names() -> Vec<&'static str> {
    shapes().iter().map(|shape| shape.name).collect()
}
