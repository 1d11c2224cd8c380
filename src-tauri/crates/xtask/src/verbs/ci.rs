//! `ci`: runs `lint`, `test` and `test-arm`, as continuous integration does (`.ci/run`). A machine that cannot run ARM
//! programs skips `test-arm` with a message, while `.ci/run` fails.

use std::process::ExitCode;

use super::{Verb, lint, no_arguments, test, test_arm};

/// Definition of this command.
pub const VERB: Verb = Verb {
    name: "ci",
    about: "Run lint, test and test-arm, as continuous integration does",
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
