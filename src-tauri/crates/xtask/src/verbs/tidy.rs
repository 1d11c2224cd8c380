//! `tidy`: checks the project rules; see [`crate::tidy`].

use std::process::ExitCode;

use anyhow::bail;

use super::{Verb, no_arguments};
use crate::Repo;
use crate::tidy::{self, Tree};

/// Definition of this command.
pub const VERB: Verb = Verb {
    name: "tidy",
    about: "Check the project rules: file length, words, paths in documents and more; `tidy --words WORD` lists the places of a counted word",
    run: |repo, args| {
        if let [flag, word] = args
            && flag == "--words"
        {
            tidy::words::places(&Tree::read(repo)?, word).iter().for_each(|place| println!("{place}"));
            return Ok(ExitCode::SUCCESS);
        }
        no_arguments(args)?;
        check(repo)?;
        Ok(ExitCode::SUCCESS)
    },
};

/// Fails with one line for each breach. Prints the counts of words.
pub(super) fn check(repo: &Repo) -> anyhow::Result<()> {
    let tree = Tree::read(repo)?;
    let list = |counts: Vec<(&str, usize)>| {
        counts.iter().map(|(name, count)| format!("{name} {count}")).collect::<Vec<_>>().join(", ")
    };
    println!("words: {}", list(tidy::words::counts(&tree)));
    let breaches = tidy::breaches_of(repo, &tree)?;
    if !breaches.is_empty() {
        bail!("{} breaches of the project rules:\n{}", breaches.len(), breaches.join("\n"));
    }
    Ok(())
}
