//! The rules of the house hold, so that `cargo test` alone finds a breach.

use cairn_xtask::{Repo, tidy, verbs::generate};

#[test]
fn the_rules_hold() {
    let breaches = tidy::breaches(&Repo::here()).expect("the files and dependencies can be listed");
    assert!(breaches.is_empty(), "{}", breaches.join("\n"));
}

#[test]
fn generated_files_are_up_to_date() {
    generate::check(&Repo::here()).expect("generated files are up to date");
}
