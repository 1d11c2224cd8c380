//! `ci`: what continuous integration runs, no more and no less: `lint`, `test`, then `test-arm`. `.ci/run` runs the same
//! three. Where a machine has no means to run programs for ARM, this says so and leaves them out; `.ci/run` fails.

use std::process::ExitCode;

use super::{Verb, lint, no_arguments, test, test_arm};

/// The row of this verb.
pub const VERB: Verb = Verb {
    name: "ci",
    about: "Run what continuous integration runs: lint, test, test-arm",
    run: |repo, args| {
        no_arguments(args)?;
        lint::check(repo)?;
        test::run_all(repo)?;
        match test_arm::tools() {
            Ok(tools) => test_arm::run_all(repo, &tools)?,
            Err(reason) => println!("Skipped `test-arm`: {reason}"),
        }
        Ok(ExitCode::SUCCESS)
    },
};
