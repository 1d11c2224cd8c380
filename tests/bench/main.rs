//! Speed against llama.cpp, in one run: `cargo xtask bench decode [--rounds 7] [--tokens 64]`.
//!
//! Cairn and llama.cpp's own bench take turns on the same files with the same number of threads, because a shared machine
//! changes its speed from minute to minute and only ratios of one run mean anything. Prints each ratio's minimum, median
//! and maximum, and writes them with the machine's name to `target/bench/decode.json`.

mod engine;
mod peer;

use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use cairn_testkit::{ModelSpec, Types};

/// One model of the comparison.
struct Shape {
    name: &'static str,
    spec: ModelSpec,
}

fn main() -> anyhow::Result<()> {
    let mut rounds = 5;
    let mut tokens = 64;
    let mut folder = PathBuf::from("target/bench");
    let mut peer = None;
    let mut args = std::env::args().skip(1);
    match args.next().as_deref() {
        Some("decode") => {}
        other => bail!("no bench is named {other:?}; there is: decode"),
    }
    while let Some(flag) = args.next() {
        let value = args.next().with_context(|| format!("{flag} needs a value"))?;
        match flag.as_str() {
            "--rounds" => rounds = value.parse()?,
            "--tokens" => tokens = value.parse()?,
            "--folder" => folder = value.into(),
            "--llama-bench" => peer = Some(PathBuf::from(value)),
            _ => bail!("{flag} is not known; there are --rounds, --tokens, --folder, --llama-bench"),
        }
    }
    let peer = peer.context("--llama-bench PATH is needed; `cargo xtask bench` builds it and passes it")?;
    std::fs::create_dir_all(&folder)?;
    decode(&folder, &peer, rounds, tokens)
}

/// Tokens per second of one stream, at the context's start.
fn decode(folder: &Path, peer: &Path, rounds: usize, tokens: usize) -> anyhow::Result<()> {
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
    let machine = cairn_hardware::Machine::probe();
    let report = serde_json::json!({ "machine": machine.cpu.brand, "bench": "decode", "results": report });
    std::fs::write(folder.join("decode.json"), serde_json::to_string_pretty(&report)?)?;
    Ok(())
}

fn shapes() -> Vec<Shape> {
    let of = |name, types| Shape { name, spec: cairn_testkit::llama1b_shape(types) };
    vec![of("1b-q8_0", Types::All(cairn_gguf::DType::Q8_0)), of("1b-q4_k_m", Types::Q4KM)]
}

fn sorted(values: impl Iterator<Item = f64>) -> Vec<f64> {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values
}
