//! Compares the logits behind pictures with recorded ones of llama.cpp, for every kind of vision towers.
//!
//! `cargo xtask parity --record --only picture` records them. Models, towers and pictures are made again from their seeds.

use std::collections::BTreeSet;

use anyhow::ensure;
use it::evaluate;
use it::pictures::{self, Case, MAX_DEVIATION, deviation};

/// Compares the fastest variant with the recording of a case.
fn compare(case: &Case, folder: &std::path::Path) -> anyhow::Result<()> {
    let variants = cairn_kernels::usable(&cairn_hardware::Machine::probe().cpu.features);
    let paths = case.write(folder)?;
    let ours = case.evaluate(&paths, || evaluate::cpu(variants[0], 2))?;
    let found = deviation(&ours.logits, &pictures::read(case)?)?;
    // NaN is a breach too.
    ensure!(found <= MAX_DEVIATION, "a deviation of {found:.1e} on {}", variants[0].name);
    Ok(())
}

#[test]
fn logits_behind_pictures_agree_with_llama_cpp() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let breach = |case: Case| compare(&case, folder.path()).err().map(|error| format!("{}: {error:#}", case.name));
    let found: Vec<String> = pictures::all().into_iter().filter_map(breach).collect();
    assert!(found.is_empty(), "{}", found.join("\n"));
}

#[test]
fn recorded_pictures_match_the_cases() {
    let expected: BTreeSet<String> = pictures::all().iter().map(|case| format!("{}.f32", case.file_stem())).collect();
    let entries = std::fs::read_dir(pictures::folder()).expect("the recordings exist");
    let name = |entry: std::io::Result<std::fs::DirEntry>| entry.map(|entry| entry.file_name().into_string());
    let found: Result<BTreeSet<String>, _> =
        entries.map(|entry| name(entry).expect("the folder can be listed")).collect();
    assert_eq!(found, Ok(expected), "`cargo xtask parity --record --only picture` writes a file to a case");
}
