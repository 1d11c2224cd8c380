//! `lint`: what can be checked without a build: the lock file, format, clippy, generated files, the rules of the house, and the page's
//! types and units.

use std::process::ExitCode;

use super::setup::{For, ensure};
use super::{Verb, generate, no_arguments, tidy};
use crate::{Repo, page, process};

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
    // The desktop app is not compiled without the system's web view and the page that it holds.
    ensure(For::Desktop)?;
    page::build(repo)?;
    page::types(repo)?;
    let clippy = ["clippy", "--workspace", "--all-targets", "--quiet", "--", "-D", "warnings"];
    process::run(&mut process::cargo(repo, &clippy))
}
