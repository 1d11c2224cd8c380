//! Runs other programs in the foreground, mostly cargo.

use std::ffi::OsStr;
use std::process::{Command, Stdio};

use anyhow::{Context, bail};

use crate::Repo;

/// Whether a command exits with success. Its output is discarded.
#[must_use]
pub fn succeeds(words: &[&str]) -> bool {
    let Some((program, args)) = words.split_first() else { return false };
    let mut command = Command::new(program);
    command.args(args).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

/// A cargo command in this repository.
#[must_use]
pub fn cargo(repo: &Repo, args: &[&str]) -> Command {
    let mut command = Command::new("cargo");
    command.args(args).current_dir(repo.root());
    // `cargo run` and `cargo test` describe the package of this process in variables. A build script that watches one of
    // them would run again, and all that depends on it would be compiled again.
    for (name, _) in std::env::vars_os() {
        if describes_package(&name) {
            command.env_remove(name);
        }
    }
    command
}

fn describes_package(variable: &OsStr) -> bool {
    let name = variable.as_encoded_bytes();
    name.starts_with(b"CARGO_PKG_") || name.starts_with(b"CARGO_MANIFEST_")
}

/// Prints a command, runs it, and fails unless it exits with success.
///
/// # Errors
/// The program is missing or reports failure.
pub fn run(command: &mut Command) -> anyhow::Result<()> {
    let shown = show(command);
    eprintln!("$ {shown}");
    let status = command.status().with_context(|| format!("cannot start `{shown}`"))?;
    if status.success() { Ok(()) } else { bail!("`{shown}` failed ({status})") }
}

/// Runs a command and returns its standard output.
///
/// # Errors
/// The program is missing or fails. The error contains its standard error.
pub fn output(command: &mut Command) -> anyhow::Result<String> {
    let shown = show(command);
    let output = command.output().with_context(|| format!("cannot start `{shown}`"))?;
    if !output.status.success() {
        bail!("`{shown}` failed ({}): {}", output.status, String::from_utf8_lossy(&output.stderr).trim());
    }
    String::from_utf8(output.stdout).with_context(|| format!("`{shown}` printed bytes that are not UTF-8"))
}

/// A command line as a user would type it.
#[must_use]
pub fn show(command: &Command) -> String {
    let words: Vec<_> =
        std::iter::once(command.get_program()).chain(command.get_args()).map(OsStr::to_string_lossy).collect();
    words.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn succeeds_follows_the_exit_status() {
        assert!(succeeds(&["true"]), "exit status 0");
        assert!(!succeeds(&["false"]), "exit status 1");
        assert!(!succeeds(&["there-is-no-such-program"]), "missing program");
    }

    #[test]
    fn error_contains_command_and_standard_error() {
        let error = run(Command::new("false").arg("x")).expect_err("false fails").to_string();
        assert!(error.contains("`false x` failed"), "{error}");
        let error =
            output(Command::new("sh").args(["-c", "echo why >&2; exit 3"])).expect_err("it exits 3").to_string();
        assert!(error.contains("why") && error.contains('3'), "{error}");
    }

    #[test]
    fn cargo_command_does_not_inherit_the_package_of_this_process() {
        for (name, expected) in
            [("CARGO_MANIFEST_DIR", true), ("CARGO_PKG_NAME", true), ("CARGO_HOME", false), ("PATH", false)]
        {
            assert_eq!(describes_package(OsStr::new(name)), expected, "{name}");
        }
        // `cargo test` sets some; a program that is started without cargo has none.
        let command = cargo(&Repo::here(), &["check"]);
        let removed: Vec<_> = command.get_envs().filter(|(_, value)| value.is_none()).map(|(name, _)| name).collect();
        for (name, _) in std::env::vars_os().filter(|(name, _)| describes_package(name)) {
            assert!(removed.contains(&name.as_os_str()), "{name:?} is removed: {removed:?}");
        }
    }
}
