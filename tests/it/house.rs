//! Runs the repository checks, so that `cargo test` alone finds a breach.

use cairn_xtask::{Repo, tidy, verbs::generate};

#[test]
fn repository_rules_are_kept() {
    let breaches = tidy::breaches(&Repo::here()).expect("the files and dependencies can be listed");
    assert!(breaches.is_empty(), "{}", breaches.join("\n"));
}

#[test]
fn generated_files_are_up_to_date() {
    generate::check(&Repo::here()).expect("generated files are up to date");
}
