//! llama.cpp's side of a benchmark: `llama-bench` with one repetition per call.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, ensure};

/// Tokens per second that llama-bench reports for generating `tokens`.
pub(crate) fn decode(llama_bench: &Path, model: &Path, threads: usize, tokens: usize) -> anyhow::Result<f64> {
    let out = Command::new(llama_bench)
        .arg("-m")
        .arg(model)
        .args(["-t", &threads.to_string(), "-p", "0", "-n", &tokens.to_string(), "-r", "1", "-o", "json"])
        .output()
        .with_context(|| format!("{} does not start", llama_bench.display()))?;
    ensure!(out.status.success(), "llama-bench failed: {}", String::from_utf8_lossy(&out.stderr));
    let rows: serde_json::Value = serde_json::from_slice(&out.stdout).context("llama-bench printed no JSON")?;
    rows[0]["avg_ts"].as_f64().context("llama-bench reported no rate")
}
