//! Estimated speeds compared with measured ones: `cargo xtask bench estimates [--shape NAME] [--rounds 5]`.
//!
//! A daemon without models that ran measures the kernels and estimates five shapes. Then each is measured, as `cairn bench`
//! does. At most [`MAX_ERROR`] of the measured speed may be missing or too much. The second estimate of each shape has the
//! correction by the other four: the median of measured / estimated.

use std::path::{Path, PathBuf};

use anyhow::{Context, ensure};
use cairn_gguf::DType;
use cairn_testkit::{ModelSpec, Types};
use it::daemon::Daemon;
use serde_json::{Value, json};

use crate::{kv, sorted, write_report};

/// Largest error of an estimate, as a share of the measured speed.
const MAX_ERROR: f64 = 0.25;
/// Tokens of the prompt: enough for three steps of many rows.
const PROMPT_TOKENS: &str = "512";
const ANSWER_TOKENS: &str = "64";

/// Tokens in a second, of an answer and of a prompt.
type Speeds = [f64; 2];
const PHASES: [&str; 2] = ["answer", "prompt"];

pub(crate) fn run(folder: &Path, cairn: &Path, rounds: usize, options: &kv::Options) -> anyhow::Result<()> {
    let is_chosen = |(name, _): &(&str, ModelSpec)| options.shape.as_ref().is_none_or(|shape| name.starts_with(shape));
    let shapes: Vec<_> = shapes().into_iter().filter(is_chosen).collect();
    ensure!(!shapes.is_empty(), "no shape begins with this name");
    let daemon = Daemon::start(cairn, &folder.join("estimates-home"))?;
    for (name, spec) in &shapes {
        let file = file(folder, name, spec)?;
        daemon.run(&["import", &file.to_string_lossy(), name])?;
    }
    daemon.app("POST", "/app/hardware/measure").context("the kernels are not measured")?;
    let mut rows = Vec::new();
    for (name, _) in &shapes {
        let estimated = speeds(&daemon, name)?;
        rows.push((*name, estimated, [0.0; 2]));
    }
    for (name, _, measured) in &mut rows {
        let runs = rounds.to_string();
        let words =
            ["bench", name, "--prompt-tokens", PROMPT_TOKENS, "--tokens", ANSWER_TOKENS, "--runs", &runs, "--json"];
        let report: Value = serde_json::from_str(&daemon.output(&words)?)?;
        *measured = speeds_of(|phase| report[phase]["tokens_per_second"].as_f64())?;
    }
    let mut report = Vec::new();
    let mut worst: f64 = 0.0;
    for (at, (name, estimated, measured)) in rows.iter().enumerate() {
        for (phase, label) in PHASES.iter().enumerate() {
            let others = rows.iter().enumerate().filter(|(other, _)| *other != at);
            let ratios = sorted(others.map(|(_, (_, estimated, measured))| measured[phase] / estimated[phase]));
            let corrected = estimated[phase] * ratios.get(ratios.len() / 2).copied().unwrap_or(1.0);
            let error = |estimate: f64| estimate / measured[phase] - 1.0;
            println!(
                "{name:<20} {label}: measured {:7.1} t/s, estimated {:7.1} ({:+.0} %), with the correction of the others {corrected:7.1} ({:+.0} %)",
                measured[phase],
                estimated[phase],
                100.0 * error(estimated[phase]),
                100.0 * error(corrected),
            );
            // The bar is for answers: a prompt's speed also depends on its length.
            if phase == 0 {
                worst = worst.max(error(estimated[phase]).abs());
            }
            report.push(json!({
                "model": name, "phase": label, "measured": measured[phase], "estimated": estimated[phase], "corrected": corrected,
            }));
        }
    }
    write_report(folder, "estimates", &report)?;
    println!("largest error of an answer's estimate: {:.0} %, at most {:.0} %", 100.0 * worst, 100.0 * MAX_ERROR);
    ensure!(worst <= MAX_ERROR, "an estimate differs from the measured speed by more than {:.0} %", 100.0 * MAX_ERROR);
    Ok(())
}

/// Two types of a dense model, a wide vocabulary, linear attention, and experts.
fn shapes() -> Vec<(&'static str, ModelSpec)> {
    let q8_0 = Types::All(DType::Q8_0);
    vec![
        ("1b-q4_k_m", cairn_testkit::llama1b_shape(Types::Q4KM)),
        ("1b-q8_0", cairn_testkit::llama1b_shape(q8_0)),
        ("0.6b-q8_0", cairn_testkit::qwen06b_shape(q8_0)),
        ("hybrid-0.8b-q4_k_m", cairn_testkit::qwen35_08b_shape(Types::Q4KM)),
        ("experts-2b-q4_0", cairn_testkit::qwen3moe_2b_shape(Types::All(DType::Q4_0))),
    ]
}

/// The model's file, created at the first call.
fn file(folder: &Path, name: &str, spec: &ModelSpec) -> anyhow::Result<PathBuf> {
    let path = folder.join(format!("{name}.gguf"));
    if !path.exists() {
        eprintln!("writing {}", path.display());
        let draft = path.with_extension("part");
        cairn_testkit::write_file(spec, &draft)?;
        std::fs::rename(draft, &path)?;
    }
    Ok(path)
}

/// The estimates of a model.
fn speeds(daemon: &Daemon, name: &str) -> anyhow::Result<Speeds> {
    let listed = daemon.app("GET", "/app/speeds")?;
    let models = listed["models"].as_array().context("no list of speeds")?;
    let of = |model: &&Value| model["model"].as_str().is_some_and(|model| model.starts_with(&format!("{name}:")));
    let speed = &models.iter().find(of).with_context(|| format!("{name} has no speed: {listed}"))?["speed"];
    ensure!(speed["answer"]["measured"] == false, "{name} ran before: {speed}");
    speeds_of(|phase| speed[phase]["tokens_per_second"].as_f64())
}

fn speeds_of(of: impl Fn(&str) -> Option<f64>) -> anyhow::Result<Speeds> {
    let [answer, prompt] = PHASES.map(|phase| of(phase).with_context(|| format!("no speed of the {phase}")));
    Ok([answer?, prompt?])
}
