//! The check that the table of behaviours names tests that exist, and all tests of this folder.

use std::collections::BTreeSet;
use std::path::Path;

use cairn_xtask::Repo;

use super::table::{BEHAVIOURS, Behaviour};

/// Folder of the tests that have no other purpose.
const OWN: &str = "it/behaviours/";

/// This file is not about a behaviour.
const THIS_FILE: &str = "it/behaviours/check.rs";

/// Reads a file of a row: of this package or of a crate.
fn source(file: &str) -> Result<String, String> {
    let folder = if file.starts_with("it/") { "tests" } else { "src-tauri/crates" };
    let path = Repo::here().root().join(folder).join(file);
    std::fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))
}

/// Returns the names of the test functions of a source file. Each has its attributes in the lines before it.
fn test_functions(text: &str) -> BTreeSet<&str> {
    let mut is_test = false;
    let mut found = BTreeSet::new();
    for line in text.lines().map(str::trim_start) {
        is_test |= line.starts_with("#[test]") || line.starts_with("#[tokio::test");
        let name = line.trim_start_matches("async ").strip_prefix("fn ").and_then(|rest| rest.split('(').next());
        if let Some(name) = name
            && std::mem::take(&mut is_test)
        {
            found.insert(name);
        }
    }
    found
}

#[test]
fn behaviour_table_names_only_existing_tests() {
    let numbers: Vec<usize> = BEHAVIOURS.iter().map(|behaviour| behaviour.number).collect();
    assert_eq!(numbers, (1..=30).collect::<Vec<_>>(), "each behaviour once, in order");
    let mut errors = Vec::new();
    for Behaviour { number, summary, difference, tests } in BEHAVIOURS {
        if summary.is_empty() || difference.is_some_and(str::is_empty) || tests.is_empty() {
            errors.push(format!("{number}: an empty field"));
        }
        for (file, names) in *tests {
            let text = source(file).unwrap_or_else(|error| panic!("{number}: {error}"));
            let found = test_functions(&text);
            errors.extend(
                names.iter().filter(|name| !found.contains(*name)).map(|name| format!("{number}: no {name} in {file}")),
            );
        }
    }
    let named = |file: &str, name: &str| {
        let tests = BEHAVIOURS.iter().flat_map(|behaviour| behaviour.tests);
        tests.filter(|(of, _)| *of == file).any(|(_, names)| names.contains(&name))
    };
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join(OWN);
    for entry in std::fs::read_dir(&folder).expect("the folder of this file").flatten() {
        let file = format!("{OWN}{}", entry.file_name().to_string_lossy());
        let text = source(&file).expect("the file exists");
        let own = test_functions(&text).into_iter().filter(|_| file != THIS_FILE);
        errors.extend(own.filter(|name| !named(&file, name)).map(|name| format!("{name} of {file} is in no row")));
    }
    assert!(errors.is_empty(), "{}", errors.join("\n"));
}
