//! The engine's logits against recorded ones of llama.cpp, for every kernel variant that this machine can run.
//!
//! `cargo xtask parity --record` has measured how far llama.cpp is from the exact result and kept some of its logits; here the
//! same models are written again from their seeds. That ours are as near to the exact result as llama.cpp's bounds how far the
//! two can be apart.

use std::collections::BTreeSet;

use cairn_models::ModelFile;
use it::cases::{self, Case};
use it::evaluate::{self, Evaluator, likeliest};
use it::fixture::{self, Fixture};

/// Distance from llama.cpp's logits, in units of their own distance from the exact ones. Two independent errors, of which
/// ours may be a tenth larger, are sqrt(1 + 1.1^2) = 1.49 apart; the rest is room for so few positions.
const MAX_DISTANCE: f64 = 1.6;

/// Holds every variant against the recording of one case; a line for each breach.
fn breaches(case: &Case, folder: &std::path::Path) -> anyhow::Result<Vec<String>> {
    let path = folder.join(format!("{}.gguf", case.file_stem()));
    cairn_testkit::write_file(&case.spec, &path)?;
    let file = ModelFile::open(&path)?;
    let recorded = Fixture::read(&fixture::folder(), case)?;
    let mut breaches = Vec::new();
    for variant in cairn_kernels::usable(&cairn_hardware::Machine::probe().cpu.features) {
        let mut evaluator = Evaluator::new(&file, evaluate::cpu(variant, 2)?)?;
        let ours = evaluator.recorded(&recorded.facts.prompts)?;
        assert_eq!(ours.len(), recorded.logits.len(), "{}: as many logits as were recorded", case.name);
        let squares = ours.iter().zip(&recorded.logits).map(|(a, b)| f64::from(a - b).powi(2));
        let distance = (squares.sum::<f64>() / ours.len() as f64).sqrt() / recorded.facts.rmse;
        // Not a number is a breach too.
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
    for family in cairn_models::ARCHITECTURES.iter().flat_map(|family| family.names()) {
        let shown = cases.iter().filter(|case| case.spec.family.name == *family).count();
        assert!(shown >= 8, "{family}: {shown} cases are recorded, and every common type should be");
    }
}

#[test]
fn recordings_are_those_of_the_cases_and_mostly_clear() {
    let names = |case: &Case| [format!("{}.f32", case.file_stem()), format!("{}.json", case.file_stem())];
    let cases: Vec<Case> = cases::all().into_iter().filter(|case| case.recorded).collect();
    let expected: BTreeSet<String> = cases.iter().flat_map(names).collect();
    let entries = std::fs::read_dir(fixture::folder()).expect("the recordings are there");
    let name = |entry: std::io::Result<std::fs::DirEntry>| entry.map(|entry| entry.file_name().into_string());
    let found: Result<BTreeSet<String>, _> = entries.map(|entry| name(entry).expect("it can be listed")).collect();
    assert_eq!(found, Ok(expected), "`cargo xtask parity --record` writes two files to a case");
    let (mut all_kept, mut all_clear) = (0, 0);
    for case in cases {
        let Fixture { facts, logits } = Fixture::read(&fixture::folder(), &case).expect("it is read");
        let kept = fixture::positions(&facts.prompts).len();
        assert_eq!(facts.greedy.len(), kept, "{}: an entry for each kept position", case.name);
        assert_eq!(logits.len() as u64, kept as u64 * case.spec.vocab, "{}: and a row of logits", case.name);
        let clear = facts.greedy.iter().flatten().count();
        assert!(clear * 2 >= kept, "{}: only {clear} of {kept} positions are clear", case.name);
        (all_kept, all_clear) = (all_kept + kept, all_clear + clear);
    }
    assert!(all_clear * 10 >= all_kept * 9, "only {all_clear} of all {all_kept} positions are clear");
}

#[test]
fn kept_positions_are_the_last_and_every_64th() {
    let prompts = [vec![0; 1], vec![0; 7], vec![0; 64], vec![0; 130]];
    // Counted through all prompts, the third begins at 8 and the fourth at 72.
    assert_eq!(fixture::positions(&prompts), [0, 7, 71, 135, 199, 201], "ends of prompts and of pages");
}
