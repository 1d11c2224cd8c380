//! `lint`: checks the toolchain, the lock file, the format, clippy with and without cargo features, generated files, the
//! project rules and the types of the interface.

use std::process::ExitCode;

use super::{Verb, generate, no_arguments, tidy};
use crate::needs::{For, ensure};
use crate::{Repo, process, toolchain, ui};

/// Definition of this command.
pub const VERB: Verb = Verb {
    name: "lint",
    about: "Check format, clippy, generated files and the project rules",
    run: |repo, args| {
        no_arguments(args)?;
        check(repo)?;
        Ok(ExitCode::SUCCESS)
    },
};

/// Runs all checks, the fastest first. `cargo fetch --locked` comes first: later commands would silently update a lock
/// file that does not match the manifests.
pub(super) fn check(repo: &Repo) -> anyhow::Result<()> {
    toolchain::check(repo)?;
    process::run(&mut process::cargo(repo, &["fetch", "--locked", "--quiet"]))?;
    process::run(&mut process::cargo(repo, &["fmt", "--all", "--check"]))?;
    tidy::check(repo)?;
    // The desktop app needs the web view and the built interface to compile.
    ensure(For::Desktop)?;
    ui::build(repo)?;
    ui::types(repo)?;
    generate::check(repo)?;
    let clippy = ["clippy", "--workspace", "--all-targets", "--quiet", "--", "-D", "warnings"];
    process::run(&mut process::cargo(repo, &clippy))?;
    // The smallest build: stand-ins replace the optional services.
    let small = ["clippy", "--package", "cairn-cli", "--no-default-features", "--quiet", "--", "-D", "warnings"];
    process::run(&mut process::cargo(repo, &small))
}
