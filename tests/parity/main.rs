//! Compares the engine with llama.cpp: `cargo xtask parity [--record] [--only PREFIX]`.
//!
//! Logits: each case is computed exactly (`Reference`: dequantised weights, f64 sums), by llama.cpp, and by each kernel variant
//! that this machine supports. The errors of both are measured against the exact result. Ours may be at most 10 %
//! larger, and greedy tokens must agree wherever the exact lead is clear. `--record` writes llama.cpp's logits to
//! `tests/fixtures/parity`, which other tests use without Python. A table shows the worst ratio of each family and type.
//!
//! Vectors of texts: a daemon's are compared with llama.cpp's, which `--record` writes to `tests/fixtures/embeddings`.
//!
//! Pictures: the rows of vision towers, and the logits behind them, are compared with llama.cpp's. `--record` writes the logits to
//! `tests/fixtures/pictures`.

mod embeddings;
mod pictures;
mod record;
mod table;

use std::path::{Path, PathBuf};

use anyhow::{Context, bail, ensure};
use cairn_models::ModelFile;
use cairn_tensor::Reference;
use it::cases::{self, Case, GREEDY};
use it::evaluate::{self, Evaluator};
use it::peer::Peer;
use serde_json::json;

use crate::table::{Cells, Logits, Row};

fn main() -> anyhow::Result<()> {
    let mut folder = PathBuf::from("target/parity");
    let (mut python, mut cairn) = (None, None);
    let mut record = None;
    let mut only = String::new();
    let mut args = std::env::args().skip(1);
    while let Some(flag) = args.next() {
        let value = args.next().with_context(|| format!("{flag} needs a value"))?;
        match flag.as_str() {
            "--folder" => folder = value.into(),
            "--python" => python = Some(PathBuf::from(value)),
            "--cairn" => cairn = Some(PathBuf::from(value)),
            "--record" => record = Some(PathBuf::from(value)),
            "--only" => only = value,
            _ => bail!("unknown option {flag}; options: --cairn, --folder, --only, --python, --record"),
        }
    }
    let python = python.context("--python PATH is needed; `cargo xtask parity` sets it up and passes it")?;
    let cairn = cairn.context("--cairn PATH is needed; `cargo xtask parity` builds it and passes it")?;
    std::fs::create_dir_all(&folder)?;
    let mut peer = Peer::start(&python, "parity/llama.py")?;
    let features = cairn_hardware::Machine::probe().cpu.features;
    let variants = cairn_kernels::usable(&features);
    let mut failed = 0;
    let mut cells = Cells::default();
    let cases: Vec<Case> = cases::all().into_iter().filter(|case| case.name.starts_with(&only)).collect();
    if !cases.is_empty() {
        println!("{}", table::head(variants.iter().map(|variant| variant.name)));
    }
    for case in &cases {
        let record = record.as_ref().filter(|_| case.recorded).map(|folder| folder.join("parity"));
        let row = compare(case, &folder, &mut peer, &variants, record.as_deref());
        let row = row.with_context(|| format!("the case {}", case.name))?;
        println!("{row}");
        failed += usize::from(!row.holds());
        cells.add(case, &row);
    }
    if !cases.is_empty() {
        println!("\n{cells}");
    }
    failed += pictures::compare_all(
        &python,
        &folder,
        &only,
        record.as_ref().map(|folder| folder.join("pictures")).as_deref(),
    )?;
    failed += embeddings::compare_all(
        &cairn,
        &folder,
        &mut peer,
        &only,
        record.map(|folder| folder.join("embeddings")).as_deref(),
    )?;
    ensure!(failed == 0, "{failed} cases failed");
    Ok(())
}

/// Computes one case.
fn compare(
    case: &Case,
    folder: &Path,
    peer: &mut Peer,
    variants: &[&'static cairn_kernels::Variant],
    record: Option<&Path>,
) -> anyhow::Result<Row> {
    let path = folder.join(format!("{}.gguf", case.file_stem()));
    cairn_testkit::write_file(&case.spec, &path)?;
    let file = ModelFile::open(&path)?;
    let mut exact = Evaluator::new(&file, Box::new(Reference::new()))?;
    let mut prompts: Vec<_> = case.prompts.iter().map(|&tokens| cases::prompt(tokens, case.spec.vocab)).collect();
    // Generated tokens are appended, so that all three compute the same text.
    prompts[2] = exact.greedy(&prompts[2], GREEDY)?;

    let vocabulary = exact.vocabulary;
    let theirs = logits(peer, &path, &prompts, "f16", vocabulary)?;
    // llama.cpp is comparable with the exact result only with unrounded keys and values.
    let unrounded = if case.is_f32() { Some(logits(peer, &path, &prompts, "f32", vocabulary)?) } else { None };
    let exact = exact.all_logits(&prompts)?;
    let mut ours = Vec::new();
    for variant in variants {
        let mut cpu = Evaluator::new(&file, evaluate::cpu(variant, 2)?)?;
        ours.push(cpu.all_logits(&prompts)?);
    }
    let logits = Logits { vocabulary, exact, theirs, unrounded, ours };
    if let Some(folder) = record {
        record::write(folder, case, &prompts, &logits)?;
    }
    Ok(table::measure(case, &prompts, &logits))
}

/// llama.cpp's logits of all positions of all prompts, one after the other, with keys and values of the type `cache`.
fn logits(
    peer: &mut Peer,
    model: &Path,
    prompts: &[Vec<u32>],
    cache: &str,
    vocabulary: usize,
) -> anyhow::Result<Vec<f32>> {
    let mut job = json!({ "model": model, "prompts": prompts, "cache": cache });
    if ModelFile::open(model)?.gguf().tensor("enc.output_norm.weight").is_some() {
        job["inputs"] = prompts.iter().map(|prompt| cases::input(prompt)).collect();
    }
    let (answer, bytes) = peer.ask_for_file(job, &model.with_extension("logits"))?;
    ensure!(answer["vocabulary"] == vocabulary, "llama.cpp has another vocabulary size: {answer}");
    let logits: Vec<f32> = bytes.as_chunks().0.iter().map(|&bytes| f32::from_le_bytes(bytes)).collect();
    let positions: usize = prompts.iter().map(Vec::len).sum();
    ensure!(logits.len() == positions * vocabulary, "llama.cpp returned {} logits", logits.len());
    Ok(logits)
}
