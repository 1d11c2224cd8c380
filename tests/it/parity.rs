//! Compares the engine's logits with recorded ones of llama.cpp: llama on every kernel variant that this machine can run, and
//! other families on the fastest.
//!
//! `cargo xtask parity --record` measures llama.cpp's distance from the exact result and records some of its logits.
//! The models are written again from their seeds. If both are equally near to the exact result, their distance is
//! bounded.

use std::collections::BTreeSet;

use cairn_models::ModelFile;
use it::cases::{self, Case};
use it::evaluate::{self, Evaluator, likeliest};
use it::fixture::{self, Fixture};

/// Maximum distance from llama.cpp's logits, in units of llama.cpp's distance from the exact ones. Two independent
/// errors, one of which may be 10 % larger, are sqrt(1 + 1.1^2) = 1.49 apart. The rest is a margin for the few
/// positions.
const MAX_DISTANCE: f64 = 1.6;

/// Compares the variants with the recording of one case; returns a line for each breach.
fn breaches(case: &Case, folder: &std::path::Path) -> anyhow::Result<Vec<String>> {
    let path = folder.join(format!("{}.gguf", case.file_stem()));
    cairn_testkit::write_file(&case.spec, &path)?;
    let file = ModelFile::open(&path)?;
    let recorded = Fixture::read(&fixture::folder(), case)?;
    let mut breaches = Vec::new();
    let mut variants = cairn_kernels::usable(&cairn_hardware::Machine::probe().cpu.features);
    if case.spec.family.name != "llama" {
        // The others differ in steps, which have tests for each variant. `cargo xtask parity` computes all of them.
        variants.truncate(1);
    }
    for variant in variants {
        let mut evaluator = Evaluator::new(&file, evaluate::cpu(variant, 2)?)?;
        let ours = evaluator.recorded(&recorded.facts.prompts)?;
        assert_eq!(ours.len(), recorded.logits.len(), "{}: the number of recorded logits", case.name);
        let squares = ours.iter().zip(&recorded.logits).map(|(a, b)| f64::from(a - b).powi(2));
        let distance = (squares.sum::<f64>() / ours.len() as f64).sqrt() / recorded.facts.rmse;
        // NaN is a breach too.
        if distance.is_nan() || distance > MAX_DISTANCE {
            breaches.push(format!("{} on {}: a distance of {distance:.2}", case.name, variant.name));
        }
        for (at, (row, clear)) in ours.chunks_exact(evaluator.vocabulary).zip(&recorded.facts.greedy).enumerate() {
            let token = likeliest(row).0;
            if clear.is_some_and(|clear| clear != token) {
                breaches.push(format!("{} on {}: token {token}, not {clear:?}, at row {at}", case.name, variant.name));
            }
        }
    }
    Ok(breaches)
}

#[test]
fn every_family_agrees_with_llama_cpp() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let cases: Vec<Case> = cases::all().into_iter().filter(|case| case.recorded).collect();
    let breaches =
        |case: &Case| breaches(case, folder.path()).unwrap_or_else(|error| vec![format!("{}: {error:#}", case.name)]);
    let found: Vec<String> = cases.iter().flat_map(breaches).collect();
    assert!(found.is_empty(), "{}", found.join("\n"));
    let encoder_decoders = cairn_models::ENCODER_DECODERS.iter().flat_map(|family| family.names());
    for family in cairn_models::ARCHITECTURES.iter().flat_map(|family| family.names()).chain(encoder_decoders) {
        let shown = cases.iter().filter(|case| case.spec.family.name == *family).count();
        let common = if cases::TWINS.contains(family) { 5 } else { 8 };
        assert!(shown >= common, "{family}: {shown} cases are recorded, and every common type should be");
    }
}

#[test]
fn recordings_match_the_cases_and_are_mostly_clear() {
    let names = |case: &Case| [format!("{}.f32", case.file_stem()), format!("{}.json", case.file_stem())];
    let cases: Vec<Case> = cases::all().into_iter().filter(|case| case.recorded).collect();
    let expected: BTreeSet<String> = cases.iter().flat_map(names).collect();
    let entries = std::fs::read_dir(fixture::folder()).expect("the recordings exist");
    let name = |entry: std::io::Result<std::fs::DirEntry>| entry.map(|entry| entry.file_name().into_string());
    let found: Result<BTreeSet<String>, _> =
        entries.map(|entry| name(entry).expect("the folder can be listed")).collect();
    assert_eq!(found, Ok(expected), "`cargo xtask parity --record` writes two files to a case");
    let (mut all_positions, mut all_clear) = (0, 0);
    for case in cases {
        let Fixture { facts, logits } = Fixture::read(&fixture::folder(), &case).expect("the recording can be read");
        let positions = fixture::positions(&facts.prompts).len();
        assert_eq!(facts.greedy.len(), positions, "{}: an entry for each recorded position", case.name);
        assert_eq!(
            logits.len() as u64,
            positions as u64 * case.spec.vocab,
            "{}: a row of logits for each position",
            case.name
        );
        let clear = facts.greedy.iter().flatten().count();
        assert!(clear * 2 >= positions, "{}: only {clear} of {positions} positions are clear", case.name);
        (all_positions, all_clear) = (all_positions + positions, all_clear + clear);
    }
    assert!(all_clear * 10 >= all_positions * 9, "only {all_clear} of all {all_positions} positions are clear");
}

#[test]
fn recorded_positions_are_the_last_and_every_64th() {
    let prompts = [vec![0; 1], vec![0; 7], vec![0; 64], vec![0; 130]];
    // Counted over all prompts, the third begins at 8 and the fourth at 72.
    assert_eq!(fixture::positions(&prompts), [0, 7, 71, 135, 199, 201], "ends of prompts and of pages");
}
