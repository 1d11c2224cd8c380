//! Vectors of models with random weights, compared with recorded ones of llama.cpp (`cargo xtask parity --record`).

use std::collections::BTreeSet;

use anyhow::{Context, ensure};
use it::embeddings::{self, Case, Vectors};

use crate::cairn::{Daemon, Home, text};

/// Compares a daemon's vectors with the recording of one case.
fn compare(case: &Case, home: &Home, daemon: &Daemon<'_>, texts: &[String]) -> anyhow::Result<()> {
    let model = case.file_stem();
    let path = home.folder.path().join("model.gguf");
    cairn_testkit::write_file(&case.spec, &path)?;
    let imported = home.run(&["import", &path.to_string_lossy(), &model]);
    ensure!(imported.status.success(), "{}", text(&imported.stderr));
    let ours = Vectors::of_daemon(&model, texts, |request| {
        let response = daemon.post("/api/embed", request).context("no response")?;
        Ok(serde_json::from_str(&response)?)
    })?;
    let (cosine, at) = ours.smallest_cosine(&Vectors::read(&embeddings::folder(), case)?)?;
    ensure!(cosine >= case.min_cosine(), "a cosine of {cosine} for {:?}", texts[at]);
    Ok(())
}

#[test]
fn vectors_of_every_family_agree_with_llama_cpp() {
    let home = Home::new();
    let daemon = home.serve();
    let (texts, cases) = (embeddings::texts(), embeddings::all());
    let breach = |case: &Case| {
        let compared = compare(case, &home, &daemon, &texts);
        compared.err().map(|error| format!("{}: {error:#}", case.name))
    };
    let found: Vec<String> = cases.iter().filter_map(breach).collect();
    assert!(found.is_empty(), "{}", found.join("\n"));
    for family in cairn_testkit::families::ENCODERS {
        assert!(cases.iter().any(|case| case.spec.family.name == family.name), "{} has no case", family.name);
    }
}

#[test]
fn recorded_vectors_match_the_cases() {
    let names = |case: &Case| [format!("{}.f32", case.file_stem()), format!("{}.json", case.file_stem())];
    let (texts, cases) = (embeddings::texts(), embeddings::all());
    let expected: BTreeSet<String> = cases.iter().flat_map(names).collect();
    let entries = std::fs::read_dir(embeddings::folder()).expect("the recordings exist");
    let name = |entry: std::io::Result<std::fs::DirEntry>| entry.map(|entry| entry.file_name().into_string());
    let found: Result<BTreeSet<String>, _> =
        entries.map(|entry| name(entry).expect("the folder can be listed")).collect();
    assert_eq!(found, Ok(expected), "`cargo xtask parity --record --only embedding` writes two files to a case");
    for case in cases {
        let recorded = Vectors::read(&embeddings::folder(), &case).expect("the recording can be read");
        let elements = usize::try_from(case.spec.width).expect("a width fits");
        assert!(recorded.vectors.iter().all(|vector| vector.len() == elements), "{}: whole vectors", case.name);
        assert_eq!(recorded.tokens.len(), texts.len(), "{}: a vector for each text", case.name);
        let (least, most) = (recorded.tokens.iter().min(), recorded.tokens.iter().max());
        assert!(least <= Some(&3) && most >= Some(&500), "{}: {least:?} to {most:?} tokens", case.name);
        let (cosine, _) = recorded.smallest_cosine(&recorded).expect("the same texts");
        assert!((cosine - 1.0).abs() < 1e-9, "{}: finite vectors", case.name);
    }
}
