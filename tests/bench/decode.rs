//! Decode speed compared with llama.cpp: `cargo xtask bench decode [--rounds 7] [--tokens 64]`.
//!
//! Cairn and llama-bench alternate on the same files with the same number of threads.

use std::path::Path;

use cairn_testkit::{ModelSpec, Types};

use crate::{engine, peer, sorted, write_report};

/// One model of the comparison.
struct Shape {
    name: &'static str,
    spec: ModelSpec,
}

/// Compares the tokens per second of one sequence in an empty context.
pub(crate) fn run(folder: &Path, peer: &Path, rounds: usize, tokens: usize) -> anyhow::Result<()> {
    let threads = engine::threads();
    println!("decode of {tokens} tokens, {threads} threads, {rounds} rounds, in turns");
    let mut report = Vec::new();
    for Shape { name, spec } in shapes() {
        let path = folder.join(format!("{name}.gguf"));
        if !path.exists() {
            cairn_testkit::write_file(&spec, &path)?;
        }
        let mut model = engine::Loaded::open(&path)?;
        model.decode(8)?;
        let mut pairs = Vec::new();
        for _ in 0..rounds {
            let theirs = peer::decode(peer, &path, threads, tokens)?;
            let ours = model.decode(tokens)?;
            pairs.push((ours, theirs));
        }
        let ratios = sorted(pairs.iter().map(|(ours, theirs)| ours / theirs));
        let (ours, theirs) = (sorted(pairs.iter().map(|p| p.0)), sorted(pairs.iter().map(|p| p.1)));
        let middle = |values: &[f64]| values[values.len() / 2];
        println!(
            "{name:<12} cairn {:6.1} t/s   llama.cpp {:6.1} t/s   ratio {:.2} / {:.2} / {:.2} (min / median / max)",
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
    write_report(folder, "decode", &report)
}

fn shapes() -> Vec<Shape> {
    let of = |name, types| Shape { name, spec: cairn_testkit::llama1b_shape(types) };
    vec![of("1b-q8_0", Types::All(cairn_gguf::DType::Q8_0)), of("1b-q4_k_m", Types::Q4KM)]
}
