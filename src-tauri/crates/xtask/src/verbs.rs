//! The verbs of `cargo xtask`: a file and a row for each.

pub mod bench;
pub mod bundle;
pub mod check_os;
pub mod ci;
pub mod convert;
pub mod count;
pub mod fuzz;
pub mod generate;
pub mod lint;
pub mod parity;
pub mod prove;
pub mod quantise;
pub mod run;
pub mod setup;
pub mod soak;
pub mod test;
pub mod test_arm;
pub mod tidy;

use std::process::ExitCode;

use crate::Repo;

/// A command of `cargo xtask`.
#[derive(Debug)]
pub struct Verb {
    /// Name on the command line.
    pub name: &'static str,
    /// Help text of one line.
    pub about: &'static str,
    /// Runs it with the arguments after the verb.
    pub run: fn(&Repo, &[String]) -> anyhow::Result<ExitCode>,
}

/// The verbs, in the order in which `--help` lists them.
pub const ALL: &[Verb] = &[
    setup::VERB,
    run::VERB,
    bundle::VERB,
    test::VERB,
    lint::VERB,
    ci::VERB,
    generate::VERB,
    tidy::VERB,
    count::VERB,
    parity::VERB,
    convert::VERB,
    quantise::VERB,
    bench::VERB,
    fuzz::VERB,
    prove::VERB,
    soak::VERB,
    check_os::VERB,
    test_arm::VERB,
];

/// Fails if there are arguments.
fn no_arguments(args: &[String]) -> anyhow::Result<()> {
    match args.first() {
        Some(arg) => anyhow::bail!("unexpected argument {arg:?}"),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_verb_file_has_a_row() {
        let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("src/verbs");
        let entries = std::fs::read_dir(folder).expect("the folder exists");
        let files = entries
            .filter(|entry| entry.as_ref().is_ok_and(|entry| entry.path().extension() == Some("rs".as_ref())))
            .count();
        assert_eq!(files, ALL.len(), "each file in src/verbs/ needs its row in `ALL`");
        for (at, verb) in ALL.iter().enumerate() {
            assert!(ALL[..at].iter().all(|other| other.name != verb.name), "{} has two rows", verb.name);
        }
    }

    #[test]
    fn unknown_verb_error_lists_all_verbs() {
        let error = crate::run(&["dance".into()]).expect_err("no such verb").to_string();
        assert!(error.contains("\"dance\"") && error.contains("check-os"), "{error}");
    }
}
