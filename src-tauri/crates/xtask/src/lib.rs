//! The workshop: what `cargo xtask VERB` does for whoever works on this repository.
//!
//! A verb is one file under `verbs/` and one row in [`verbs::ALL`]. It is a library as well as a program so that the
//! journeys under `tests/` run the same rules that the verbs do. It compiles before anything else on a new machine and
//! therefore has next to no dependencies: `cargo metadata` is read as plain JSON in [`workspace`]. `syn`, which serde's derive
//! brings anyway, reads the wire's types for [`verbs::generate`].
#![forbid(unsafe_code)]

pub mod licence;
mod page;
pub mod process;
mod python;
pub mod tidy;
pub mod verbs;
pub mod workspace;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::bail;

/// The checkout that this program was built from.
#[derive(Debug, Clone)]
pub struct Repo {
    root: PathBuf,
}

impl Repo {
    /// Finds it from where this crate's manifest was at build time; cargo builds anew where a checkout was moved.
    #[must_use]
    pub fn here() -> Self {
        let crate_folder = Path::new(env!("CARGO_MANIFEST_DIR"));
        let root = crate_folder.ancestors().nth(3).expect("this crate lies in src-tauri/crates/xtask");
        Self { root: root.to_owned() }
    }

    /// The folder with the workspace's `Cargo.toml`.
    #[must_use]
    pub fn root(&self) -> &Path {
        &self.root
    }
}

/// Runs the verb that `args` begins with.
///
/// # Errors
/// An unknown verb, or whatever stops the verb.
pub fn run(args: &[String]) -> anyhow::Result<ExitCode> {
    let Some((name, args)) = args.split_first() else {
        print!("{}", help());
        return Ok(ExitCode::SUCCESS);
    };
    if matches!(name.as_str(), "help" | "--help" | "-h") {
        print!("{}", help());
        return Ok(ExitCode::SUCCESS);
    }
    match verbs::ALL.iter().find(|verb| verb.name == name) {
        Some(verb) => (verb.run)(&Repo::here(), args),
        None => bail!("there is no verb {name:?}\n\n{}", help()),
    }
}

fn help() -> String {
    let lines: String = verbs::ALL.iter().map(|verb| format!("  {:9} {}\n", verb.name, verb.about)).collect();
    format!("Usage: cargo xtask VERB\n\n{lines}")
}
