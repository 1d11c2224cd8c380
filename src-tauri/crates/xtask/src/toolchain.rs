//! The Rust toolchain. `rust-version` in the workspace's `Cargo.toml` pins it: older ones cannot build the workspace,
//! and other ones format and lint it differently.

use std::process::Command;

use anyhow::{Context, bail};

use crate::{Repo, process};

/// Fails unless the compiler is the pinned one.
///
/// # Errors
/// The compiler has another version or cannot be started.
pub(crate) fn check(repo: &Repo) -> anyhow::Result<()> {
    let manifest = repo.root().join("Cargo.toml");
    let manifest = std::fs::read_to_string(&manifest).with_context(|| format!("cannot read {}", manifest.display()))?;
    let pinned = pinned(&manifest).context("Cargo.toml has no rust-version")?;
    compare(pinned, &process::output(Command::new("rustc").arg("--version"))?)
}

/// The version in the workspace's manifest.
pub(crate) fn pinned(manifest: &str) -> Option<&str> {
    manifest.lines().find_map(|line| line.strip_prefix("rust-version = \"")?.strip_suffix('"'))
}

/// Compares the pinned version with the output of `rustc --version`: `rustc 1.95.0 (59807616e 2026-04-14)`.
fn compare(pinned: &str, output: &str) -> anyhow::Result<()> {
    let installed = output.split_whitespace().nth(1).unwrap_or_default();
    if installed == pinned || installed.strip_prefix(pinned).is_some_and(|rest| rest.starts_with('.')) {
        return Ok(());
    }
    bail!(
        "this repository is checked with Rust {pinned} (rust-version in Cargo.toml), but `rustc --version` is {installed:?}: run \
         `rustup toolchain install {pinned} --component clippy,rustfmt && rustup override set {pinned}`"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn compiler_must_have_the_pinned_version() {
        let check = |installed: &str, expected: bool| {
            assert_eq!(compare("1.95", &format!("rustc {installed} (59807616e)")).is_ok(), expected, "{installed}");
        };
        check("1.95.0", true);
        check("1.95.3-nightly", true);
        check("1.950.0", false);
        check("1.96.0", false);
        assert!(compare("1.95", "").is_err(), "no version at all");
    }
}
