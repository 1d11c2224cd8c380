//! The JSON Schema Test Suite, draft 2020-12: https://github.com/json-schema-org/JSON-Schema-Test-Suite.
//!
//! It is not part of this repository. The test looks in the folder `CAIRN_JSON_SCHEMA_TESTS`, which has `draft2020-12`, and is skipped
//! with a message without it. It prints which schemas are refused, and why:
//!
//! `CAIRN_JSON_SCHEMA_TESTS=.../tests cargo test -p cairn-grammar --test suite test_suite -- --nocapture`
//!
//! A refused schema is no fault. An invalid instance that is accepted always is. Of the valid instances of the required tests, most
//! must be possible answers.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

use cairn_grammar::{Constraint, Error};
use serde_json::Value;

use crate::common::{Verdict, matcher, verdict};

/// Share of the valid instances of required tests that must be possible answers, in percent.
const LEAST_PERCENT: usize = 80;

/// Results of one file, or of all.
#[derive(Debug, Default)]
struct Counts {
    supported_schemas: usize,
    refused_schemas: usize,
    right: usize,
    /// Valid instances that cannot be generated.
    narrowed: usize,
    /// Valid instances, and those that are possible answers; also in refused schemas.
    valid: usize,
    possible: usize,
    /// Invalid instances that can be generated.
    wrong: Vec<String>,
}

#[expect(clippy::disallowed_methods, reason = "the environment names the folder of data outside the repository")]
fn files() -> Vec<PathBuf> {
    let Some(folder) = std::env::var_os("CAIRN_JSON_SCHEMA_TESTS").map(PathBuf::from) else {
        eprintln!("SKIPPED: no data for CAIRN_JSON_SCHEMA_TESTS");
        return Vec::new();
    };
    let folders = ["draft2020-12", "draft2020-12/optional/format"].map(|name| folder.join(name));
    let entries = folders.iter().flat_map(|folder| fs::read_dir(folder).expect("the folder is readable")).flatten();
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.path()).filter(|path| path.is_file()).collect();
    paths.sort();
    paths
}

/// The keyword for which a schema is refused.
fn reason(error: &Error) -> String {
    match error {
        Error::UnsupportedKeyword { keyword, .. } => keyword.clone(),
        Error::InvalidKeyword { keyword, .. } => format!("invalid {keyword}"),
        Error::Unsatisfiable(_) => "unsatisfiable".to_owned(),
        other => other.to_string(),
    }
}

#[test]
fn no_invalid_instance_is_accepted() {
    let mut refused: BTreeMap<String, usize> = BTreeMap::new();
    let mut total = Counts::default();
    let (mut valid, mut possible) = (0, 0);
    for path in files() {
        let name = path.file_stem().expect("a file has a name").to_string_lossy().into_owned();
        let groups = fs::read_to_string(&path).expect("the file is readable");
        let groups: Vec<Value> = serde_json::from_str(&groups).expect("a list of groups");
        let mut counts = Counts::default();
        for group in &groups {
            let tests = group["tests"].as_array().expect("a list of tests");
            counts.valid += tests.iter().filter(|test| test["valid"] == true).count();
            let matcher = match matcher(&Constraint::JsonSchema(group["schema"].clone())) {
                Ok(matcher) => matcher,
                Err(error) => {
                    println!("{name}: {}: refused: {error}", group["description"]);
                    *refused.entry(reason(&error)).or_default() += 1;
                    counts.refused_schemas += 1;
                    continue;
                }
            };
            counts.supported_schemas += 1;
            for test in tests {
                let accepts = verdict(&matcher, &test["data"].to_string()) == Verdict::Accepted;
                match (accepts, test["valid"].as_bool().expect("a boolean")) {
                    (true, false) => {
                        counts.wrong.push(format!("{name}: {}: {}", group["description"], test["description"]))
                    }
                    (false, true) => {
                        println!("{name}: {}: no answer: {}", group["description"], test["data"]);
                        counts.narrowed += 1;
                    }
                    (true, true) => (counts.right, counts.possible) = (counts.right + 1, counts.possible + 1),
                    _ => counts.right += 1,
                }
            }
        }
        if path.parent().is_some_and(|folder| folder.ends_with("draft2020-12")) {
            (valid, possible) = (valid + counts.valid, possible + counts.possible);
        }
        let Counts { supported_schemas, refused_schemas, right, narrowed, wrong, .. } = counts;
        println!(
            "{name:28} {supported_schemas:4} supported {refused_schemas:4} refused {right:4} right {narrowed:4} narrowed {:4} wrong",
            wrong.len()
        );
        total.supported_schemas += supported_schemas;
        total.refused_schemas += refused_schemas;
        total.right += right;
        total.narrowed += narrowed;
        total.wrong.extend(wrong);
    }
    println!("refused: {refused:#?}");
    println!("all: {total:#?}");
    println!("required tests: {possible} of {valid} valid instances are possible answers");
    assert!(possible * 100 >= valid * LEAST_PERCENT, "{possible} of {valid} valid instances are possible answers");
    assert!(total.wrong.is_empty(), "invalid instances are accepted: {:#?}", total.wrong);
}
