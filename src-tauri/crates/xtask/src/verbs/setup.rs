//! `setup`: installs the packages that running and testing need; see [`crate::needs`].

use std::process::ExitCode;

use super::{Verb, no_arguments};
use crate::needs::{For, ensure};
use crate::python;

/// Definition of this command.
pub const VERB: Verb = Verb {
    name: "setup",
    about: "Install the packages that running and testing Cairn needs (Debian, Ubuntu), or list them",
    run: |repo, args| {
        no_arguments(args)?;
        ensure(For::Tests)?;
        python::for_tests(repo)?;
        println!("Everything that building, running and testing Cairn needs is installed.");
        Ok(ExitCode::SUCCESS)
    },
};
