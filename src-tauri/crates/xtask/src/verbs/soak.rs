//! `soak`: runs the soak and chaos test of the daemon for any time. Continuous integration runs the same test for three minutes.

use std::process::ExitCode;

use anyhow::{Context, bail};

use super::Verb;
use crate::needs::{For, ensure};
use crate::{Repo, process};

/// Definition of this command.
pub const VERB: Verb = Verb {
    name: "soak",
    about: "Run the daemon under mixed load with kills, a full disk, clock jumps and little memory: `soak [--minutes N]`",
    run,
};

fn run(repo: &Repo, args: &[String]) -> anyhow::Result<ExitCode> {
    let minutes = minutes(args)?;
    ensure(For::Tests)?;
    process::run(&mut process::cargo(repo, &["build", "--release", "--workspace", "--bins", "--quiet"]))?;
    let words = ["test", "--release", "--package", "it", "--test", "it", "--", "--nocapture", "soak::"];
    process::run(process::cargo(repo, &words).env("CAIRN_SOAK_MINUTES", minutes.to_string()))?;
    Ok(ExitCode::SUCCESS)
}

fn minutes(args: &[String]) -> anyhow::Result<u64> {
    match args {
        [] => Ok(3),
        [flag, minutes] if flag == "--minutes" => {
            let number = minutes.parse().ok().filter(|minutes| *minutes > 0);
            number.with_context(|| format!("--minutes needs a positive number, not {minutes:?}"))
        }
        other => bail!("unexpected arguments {other:?}: usage: `soak [--minutes N]`"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn minutes_are_parsed() {
        let check = |words: &str, expected: Option<u64>| {
            let words: Vec<String> = words.split_whitespace().map(str::to_owned).collect();
            assert_eq!(minutes(&words).ok(), expected, "{words:?}");
        };
        check("", Some(3));
        check("--minutes 120", Some(120));
        check("--minutes 0", None);
        check("--minutes x", None);
        check("--hours 2", None);
    }
}
