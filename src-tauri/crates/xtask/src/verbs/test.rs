//! `test`: every test there is, in the scale for continuous integration.
//!
//! Cargo reports each test binary on its own; the last line here adds them up.

use std::io::{BufRead, BufReader, Write};
use std::process::{Command, ExitCode, Stdio};
use std::time::Instant;

use anyhow::{Context, bail};

use super::Verb;
use crate::needs::{For, ensure};
use crate::{Repo, llama, process, python, ui, workspace};

/// Definition of this command.
pub const VERB: Verb = Verb {
    name: "test",
    about: "Run all tests, those with real clients included; arguments go to `cargo test`",
    run: |repo, args| {
        if args.is_empty() {
            run_all(repo)?;
        } else {
            let args: Vec<&str> = args.iter().map(String::as_str).collect();
            run(&mut process::cargo(repo, &[&["test"], args.as_slice()].concat()))?;
        }
        Ok(ExitCode::SUCCESS)
    },
};

/// Runs all tests. Builds the programs first: integration tests start them, and cargo builds only what a test links.
pub(super) fn run_all(repo: &Repo) -> anyhow::Result<()> {
    ensure(For::Tests)?;
    let python = python::for_tests(repo)?;
    ui::build(repo)?;
    workspace::build_programs(repo)?;
    ui::units(repo)?;
    ui::journeys(repo, &workspace::program(repo, "cairn")?)?;
    let mut tests = process::cargo(repo, &["test", "--workspace", "--no-fail-fast"]);
    if let Some(server) = llama::built(repo, llama::SERVER)? {
        tests.env(llama::SERVER_VARIABLE, server);
    }
    run(tests.env("CAIRN_MOTO_PYTHON", python)).map(drop)
}

/// Runs `cargo test`, forwards its output and sums its results.
pub(super) fn run(cargo: &mut Command) -> anyhow::Result<Counts> {
    eprintln!("$ {}", process::show(cargo));
    let start = Instant::now();
    let mut cargo = cargo.stdout(Stdio::piped()).spawn().context("cannot start `cargo test`")?;
    let mut lines = BufReader::new(cargo.stdout.take().expect("it is piped"));
    let mut sum = Counts::default();
    let mut line = Vec::new();
    let mut stdout = std::io::stdout().lock();
    while lines.read_until(b'\n', &mut line).context("cannot read from `cargo test`")? > 0 {
        stdout.write_all(&line).context("cannot write to standard output")?;
        if let Some(counts) = Counts::parse(&String::from_utf8_lossy(&line)) {
            sum.add(&counts);
        }
        line.clear();
    }
    let status = cargo.wait().context("cannot wait for `cargo test`")?;
    let summary = format!(
        "{} tests passed, {} failed, {} ignored, in {} binaries and {:.1} s",
        sum.passed,
        sum.failed,
        sum.ignored,
        sum.binaries,
        start.elapsed().as_secs_f64()
    );
    if !status.success() {
        bail!("{summary}");
    }
    writeln!(stdout, "{summary}").context("cannot write to standard output")?;
    Ok(sum)
}

/// Numbers of tests by result.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Counts {
    pub(super) passed: u64,
    failed: u64,
    ignored: u64,
    binaries: u64,
}

impl Counts {
    /// Parses libtest's summary line: `test result: ok. 9 passed; 0 failed; 1 ignored; 0 measured; ...`.
    fn parse(line: &str) -> Option<Self> {
        let (_, counts) = line.strip_prefix("test result: ")?.split_once(". ")?;
        let count = |what: &str| {
            let number = counts.split(';').find_map(|part| part.trim().strip_suffix(what))?;
            number.trim().parse().ok()
        };
        Some(Self { passed: count("passed")?, failed: count("failed")?, ignored: count("ignored")?, binaries: 1 })
    }

    fn add(&mut self, other: &Self) {
        self.passed += other.passed;
        self.failed += other.failed;
        self.ignored += other.ignored;
        self.binaries += other.binaries;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_parsed_from_summary_lines() {
        let check = |line: &str, expected: Option<Counts>| assert_eq!(Counts::parse(line), expected, "{line:?}");
        check(
            "test result: ok. 9 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.08s\n",
            Some(Counts { passed: 9, failed: 0, ignored: 1, binaries: 1 }),
        );
        check(
            "test result: FAILED. 12 passed; 3 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.08s",
            Some(Counts { passed: 12, failed: 3, ignored: 0, binaries: 1 }),
        );
        check("test tests::a_test ... ok", None);
        check("running 9 tests", None);
    }
}
