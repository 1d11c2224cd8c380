//! Compares quantised models with llama.cpp's, recorded by `cargo xtask quantise --record`.

use it::quantised::{self, Record, Source};

/// Returns the differences from the recording of one source.
fn differences(source: &Source, folder: &std::path::Path, recorded: &[Record]) -> anyhow::Result<Vec<String>> {
    let path = folder.join(source.name);
    source.write(&path)?;
    let mut differences = Vec::new();
    for target in quantised::targets() {
        let ours = if source.has_weights() {
            Record::of(source, target, &quantised::quantise(&path, target)?)?
        } else {
            Record::of_head(source, &path, target)?
        };
        let theirs = recorded.iter().find(|theirs| theirs.source == ours.source && theirs.target == ours.target);
        if theirs != Some(&ours) {
            differences
                .push(format!("ours:      {ours}\nllama.cpp: {}", theirs.map_or_else(String::new, Record::to_string)));
        }
    }
    std::fs::remove_file(path)?;
    Ok(differences)
}

#[test]
fn every_file_type_equals_llama_cpp_byte_for_byte() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let recorded = quantised::recorded().expect("the recording exists");
    let sources = quantised::sources();
    assert_eq!(recorded.len(), sources.len() * quantised::targets().count(), "one record per source and target");
    for source in sources {
        let differences = differences(&source, folder.path(), &recorded);
        let differences = differences.unwrap_or_else(|error| vec![format!("{}: {error:#}", source.name)]);
        assert!(differences.is_empty(), "{}", differences.join("\n"));
    }
}
