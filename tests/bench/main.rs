//! Relative speed, measured in one run: `cargo xtask bench decode` and `prefill` compare with llama.cpp, `bench pull` with `curl`,
//! `bench kv-...`, `stutter` and `two-models` with Cairn without the feature or the load, and `bench estimates` with estimates.
//!
//! Both sides alternate: the speed of a shared machine varies by the minute, so only ratios within one run are
//! meaningful. Prints the minimum, median and maximum of each ratio, and writes them with the machine's name to
//! `target/bench/NAME.json`.

mod engine;
mod estimates;
mod idle;
mod kv;
mod peer;
mod pull;
mod sharing;
mod speed;

use std::path::{Path, PathBuf};

use anyhow::{Context, bail};

use crate::peer::Work;

fn main() -> anyhow::Result<()> {
    let mut rounds = 5;
    let mut options = kv::Options::default();
    let mut mib = 2048;
    let mut folder = PathBuf::from("target/bench");
    let (mut peer, mut cairn) = (None, None);
    let mut args = std::env::args().skip(1);
    let bench = args.next().unwrap_or_default();
    while let Some(flag) = args.next() {
        let value = args.next().with_context(|| format!("{flag} needs a value"))?;
        match flag.as_str() {
            "--rounds" => rounds = value.parse()?,
            "--tokens" => options.tokens = Some(value.parse()?),
            "--shape" => options.shape = Some(value),
            "--pairs" => options.pairs = Some(value.parse()?),
            "--mib" => mib = value.parse()?,
            "--folder" => folder = value.into(),
            "--llama-bench" => peer = Some(PathBuf::from(value)),
            "--cairn" => cairn = Some(PathBuf::from(value)),
            _ => bail!(
                "unknown option {flag}; options: --rounds, --tokens, --mib, --shape, --pairs, --folder, --llama-bench, --cairn"
            ),
        }
    }
    std::fs::create_dir_all(&folder)?;
    match bench.as_str() {
        "decode" | "prefill" => {
            let peer = peer.context("--llama-bench PATH is needed; `cargo xtask bench` builds it and passes it")?;
            let work = if bench == "decode" { Work::Decode } else { Work::Prefill };
            speed::run(&folder, &peer, rounds, work, &options)
        }
        "pull" => {
            let cairn = cairn.context("--cairn PATH is needed; `cargo xtask bench` builds it and passes it")?;
            pull::run(&folder, &cairn, rounds, mib)
        }
        "idle" => {
            let cairn = cairn.context("--cairn PATH is needed; `cargo xtask bench` builds it and passes it")?;
            idle::run(&folder, &cairn)
        }
        "estimates" => {
            let cairn = cairn.context("--cairn PATH is needed; `cargo xtask bench` builds it and passes it")?;
            estimates::run(&folder, &cairn, rounds, &options)
        }
        "kv-cold" => {
            let cairn = cairn.context("--cairn PATH is needed; `cargo xtask bench` builds it and passes it")?;
            kv::cold::run(&folder, &cairn, &options)
        }
        "kv-far" => kv::far::run(&folder, &options),
        "kv-overhead" => kv::overhead::run(&folder, &options),
        "kv-bandwidth" => kv::bandwidth::run(&folder, &options),
        "kv-ttft" => kv::ttft::run(&folder, &options),
        "stutter" => sharing::stutter(&folder, &options, rounds),
        "two-models" => sharing::two_models(&folder, &options, rounds),
        other => {
            bail!(
                "unknown benchmark {other:?}; benchmarks: decode, prefill, pull, idle, estimates, kv-overhead, kv-bandwidth, kv-ttft, kv-cold, kv-far, stutter, two-models"
            )
        }
    }
}

/// Writes the results with the machine's name.
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
