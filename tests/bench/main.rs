//! Speed against others, in one run: `cargo xtask bench decode` against llama.cpp, `bench pull` against `curl`, `bench kv-...`
//! against doing without.
//!
//! Both ways take turns, because a shared machine changes its speed from minute to minute and only ratios of one
//! run mean anything. Prints each ratio's minimum, median and maximum, and writes them with the machine's name to
//! `target/bench/NAME.json`.

mod decode;
mod engine;
mod kv;
mod peer;
mod pull;

use std::path::{Path, PathBuf};

use anyhow::{Context, bail};

fn main() -> anyhow::Result<()> {
    let mut rounds = 5;
    let mut asked = kv::Asked::default();
    let mut mib = 2048;
    let mut folder = PathBuf::from("target/bench");
    let (mut peer, mut cairn) = (None, None);
    let mut args = std::env::args().skip(1);
    let bench = args.next().unwrap_or_default();
    while let Some(flag) = args.next() {
        let value = args.next().with_context(|| format!("{flag} needs a value"))?;
        match flag.as_str() {
            "--rounds" => rounds = value.parse()?,
            "--tokens" => asked.tokens = Some(value.parse()?),
            "--shape" => asked.shape = Some(value),
            "--pairs" => asked.pairs = Some(value.parse()?),
            "--mib" => mib = value.parse()?,
            "--folder" => folder = value.into(),
            "--llama-bench" => peer = Some(PathBuf::from(value)),
            "--cairn" => cairn = Some(PathBuf::from(value)),
            _ => bail!(
                "{flag} is not known; there are --rounds, --tokens, --mib, --shape, --pairs, --folder, --llama-bench, --cairn"
            ),
        }
    }
    std::fs::create_dir_all(&folder)?;
    match bench.as_str() {
        "decode" => {
            let peer = peer.context("--llama-bench PATH is needed; `cargo xtask bench` builds it and passes it")?;
            decode::run(&folder, &peer, rounds, asked.tokens.unwrap_or(64))
        }
        "pull" => {
            let cairn = cairn.context("--cairn PATH is needed; `cargo xtask bench` builds it and passes it")?;
            pull::run(&folder, &cairn, rounds, mib)
        }
        "kv-cold" => {
            let cairn = cairn.context("--cairn PATH is needed; `cargo xtask bench` builds it and passes it")?;
            kv::cold::run(&folder, &cairn, &asked)
        }
        "kv-far" => kv::far::run(&folder, &asked),
        "kv-overhead" => kv::overhead::run(&folder, &asked),
        "kv-bandwidth" => kv::bandwidth::run(&folder, &asked),
        "kv-ttft" => kv::ttft::run(&folder, &asked),
        other => {
            bail!(
                "no bench is named {other:?}; there are: decode, pull, kv-overhead, kv-bandwidth, kv-ttft, kv-cold, kv-far"
            )
        }
    }
}

/// Keeps what was measured, with the machine's name.
fn write_report(folder: &Path, bench: &str, results: &[serde_json::Value]) -> anyhow::Result<()> {
    let machine = cairn_hardware::Machine::probe();
    let report = serde_json::json!({ "machine": machine.cpu.brand, "bench": bench, "results": results });
    std::fs::write(folder.join(format!("{bench}.json")), serde_json::to_string_pretty(&report)?)?;
    Ok(())
}

fn sorted(values: impl Iterator<Item = f64>) -> Vec<f64> {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values
}
