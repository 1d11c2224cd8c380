//! llama.cpp's side of a benchmark: `llama-bench` with one repetition per call.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, ensure};

/// The kind of computation to measure.
#[derive(Clone, Copy)]
pub(crate) enum Work {
    /// Tokens are generated one by one.
    Decode,
    /// A prompt is computed.
    Prefill,
}

impl Work {
    /// Name of the benchmark.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Decode => "decode",
            Self::Prefill => "prefill",
        }
    }

    pub(crate) fn default_tokens(self) -> usize {
        match self {
            Self::Decode => 64,
            Self::Prefill => 512,
        }
    }
}

/// Tokens per second that llama-bench reports for one sequence in an empty context.
pub(crate) fn run(llama_bench: &Path, model: &Path, threads: usize, work: Work, tokens: usize) -> anyhow::Result<f64> {
    let tokens = tokens.to_string();
    let [prompt, answer] = match work {
        Work::Decode => ["0", &tokens],
        Work::Prefill => [&tokens, "0"],
    };
    let out = Command::new(llama_bench)
        .arg("-m")
        .arg(model)
        .args(["-t", &threads.to_string(), "-p", prompt, "-n", answer, "-r", "1", "-o", "json"])
        .output()
        .with_context(|| format!("{} does not start", llama_bench.display()))?;
    ensure!(out.status.success(), "llama-bench failed: {}", String::from_utf8_lossy(&out.stderr));
    let rows: serde_json::Value = serde_json::from_slice(&out.stdout).context("llama-bench printed no JSON")?;
    rows[0]["avg_ts"].as_f64().context("llama-bench reported no rate")
}
