//! `tidy`: the rules of the house that no compiler knows; see [`crate::tidy`].

use std::process::ExitCode;

use anyhow::bail;

use super::{Verb, no_arguments};
use crate::{Repo, tidy};

/// The row of this verb.
pub const VERB: Verb = Verb {
    name: "tidy",
    about: "Check the rules of the house: file length, licences, paths in documents and more",
    run: |repo, args| {
        no_arguments(args)?;
        check(repo)?;
        Ok(ExitCode::SUCCESS)
    },
};

/// Fails with a line for each breach.
pub(super) fn check(repo: &Repo) -> anyhow::Result<()> {
    let breaches = tidy::breaches(repo)?;
    if !breaches.is_empty() {
        bail!("{} breaches of the rules of the house:\n{}", breaches.len(), breaches.join("\n"));
    }
    Ok(())
}
