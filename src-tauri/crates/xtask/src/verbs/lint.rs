//! `lint`: what can be checked without running a test: the lock file, format, clippy, generated files, the rules of the house.

use std::process::ExitCode;

use super::{Verb, generate, no_arguments, tidy};
use crate::{Repo, process};

/// The row of this verb.
pub const VERB: Verb = Verb {
    name: "lint",
    about: "Check format, clippy, generated files and the rules of the house",
    run: |repo, args| {
        no_arguments(args)?;
        check(repo)?;
        Ok(ExitCode::SUCCESS)
    },
};

/// Checks them all, the quickest first. Fetching comes before, so that a lock file that does not fit the manifests is an
/// error here instead of being rewritten in passing.
pub(super) fn check(repo: &Repo) -> anyhow::Result<()> {
    process::run(&mut process::cargo(repo, &["fetch", "--locked", "--quiet"]))?;
    process::run(&mut process::cargo(repo, &["fmt", "--all", "--check"]))?;
    tidy::check(repo)?;
    generate::check(repo)?;
    let clippy = ["clippy", "--workspace", "--all-targets", "--quiet", "--", "-D", "warnings"];
    process::run(&mut process::cargo(repo, &clippy))
}
