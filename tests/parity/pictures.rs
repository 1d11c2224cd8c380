//! Compares the rows of pictures, and the logits behind them, with llama.cpp's.

use std::path::{Path, PathBuf};

use anyhow::{Context, ensure};
use cairn_tensor::Reference;
use it::evaluate;
use it::peer::Peer;
use it::pictures::{self, Case, MAX_DEVIATION, Output, deviation};
use serde_json::json;

/// Compares all cases with names that begin with `only`, and prints a table. Returns the number of failed cases.
pub(crate) fn compare_all(python: &Path, folder: &Path, only: &str, record: Option<&Path>) -> anyhow::Result<usize> {
    let cases: Vec<Case> = pictures::all().into_iter().filter(|case| case.name.starts_with(only)).collect();
    if cases.is_empty() {
        return Ok(0);
    }
    let mut peer = Peer::start(python, "parity/pictures.py")?;
    let variants = cairn_kernels::usable(&cairn_hardware::Machine::probe().cpu.features);
    println!(
        "\n| pictures | rows | rows, exact | logits, exact | rows, {0} | logits, {0} |\n|---|---|---|---|---|---|",
        variants[0].name
    );
    let mut failed = 0;
    for case in &cases {
        let row = compare(case, folder, &mut peer, variants[0], record);
        failed += usize::from(!row.with_context(|| format!("the case {}", case.name))?);
    }
    Ok(failed)
}

/// Compares a case and prints its row. Returns whether it passes.
fn compare(
    case: &Case,
    folder: &Path,
    peer: &mut Peer,
    variant: &'static cairn_kernels::Variant,
    record: Option<&Path>,
) -> anyhow::Result<bool> {
    let paths = case.write(folder)?;
    let theirs = their_output(case, &paths, peer)?;
    let exact = case.evaluate(&paths, || Ok(Box::new(Reference::new())))?;
    let fast = case.evaluate(&paths, || evaluate::cpu(variant, 2))?;
    let mut found = Vec::new();
    for ours in [&exact, &fast] {
        found.push(deviation(&ours.rows, &theirs.rows)?);
        found.push(deviation(&ours.logits, &theirs.logits)?);
    }
    let passes = found.iter().all(|&deviation| deviation <= MAX_DEVIATION);
    let cells: Vec<String> = found.iter().map(|deviation| format!("{deviation:.1e}")).collect();
    let count = theirs.rows.len() / case.model.width as usize;
    println!("| {} | {count} | {} |{}", case.name, cells.join(" | "), if passes { "" } else { " FAILS" });
    if let Some(folder) = record {
        std::fs::create_dir_all(folder)?;
        let bytes: Vec<u8> = theirs.logits.iter().flat_map(|logit| logit.to_le_bytes()).collect();
        std::fs::write(folder.join(format!("{}.f32", case.file_stem())), bytes)?;
    }
    Ok(passes)
}

/// Computes a case with llama.cpp.
fn their_output(case: &Case, [model, tower]: &[PathBuf; 2], peer: &mut Peer) -> anyhow::Result<Output> {
    let [before, after] = case.tokens();
    let rgb = model.with_extension("rgb");
    std::fs::write(&rgb, case.picture().rgb())?;
    let [width, height] = case.size;
    let job = json!({
        "model": model, "tower": tower, "before": before, "after": after, "width": width, "height": height, "rgb": rgb,
    });
    let (answer, bytes) = peer.ask_for_file(job, &model.with_extension("values"))?;
    let count = |key: &str| answer[key].as_u64().map(|count| count as usize).context("llama.cpp counts rows");
    let (rows, width, vocabulary) = (count("rows")?, count("width")?, count("vocabulary")?);
    let mut values = pictures::values(&bytes);
    ensure!(values.len() == rows * width + after.len() * vocabulary, "llama.cpp returned {} values", values.len());
    let logits = values.split_off(rows * width);
    Ok(Output { rows: values, logits })
}
