//! `ci`: what continuous integration runs, no more and no less: `lint`, then `test`. `.ci/run` runs the same two.

use std::process::ExitCode;

use super::{Verb, lint, no_arguments, test};

/// The row of this verb.
pub const VERB: Verb = Verb {
    name: "ci",
    about: "Run what continuous integration runs: lint, then test",
    run: |repo, args| {
        no_arguments(args)?;
        lint::check(repo)?;
        test::run_all(repo)?;
        Ok(ExitCode::SUCCESS)
    },
};
