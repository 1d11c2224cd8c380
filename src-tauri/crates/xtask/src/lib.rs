//! Developer tools: `cargo xtask VERB` sets up, runs, tests and checks this repository.
//!
//! A verb is one file under `verbs/` and one row in [`verbs::ALL`]. The crate is a library too, so that the integration
//! tests run the same rules as the verbs. It is the first crate that a new machine compiles, so it has few
//! dependencies: [`workspace`] reads `cargo metadata` as plain JSON, and `syn`, which serde's derive needs anyway,
//! parses the wire types for [`verbs::generate`].
#![forbid(unsafe_code)]

mod cargo_tool;
mod imports;
pub mod licence;
mod llama;
mod needs;
mod notices;
pub mod process;
mod python;
mod source;
pub mod tidy;
mod toolchain;
mod ui;
pub mod verbs;
pub mod workspace;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::bail;

/// A checkout of this repository.
#[derive(Debug, Clone)]
pub struct Repo {
    root: PathBuf,
}

impl Repo {
    /// The checkout that this program was built from. Cargo rebuilds the program if the checkout moves.
    #[must_use]
    pub fn here() -> Self {
        let crate_folder = Path::new(env!("CARGO_MANIFEST_DIR"));
        let root = crate_folder.ancestors().nth(3).expect("this crate is in src-tauri/crates/xtask");
        Self { root: root.to_owned() }
    }

    /// The checkout in a folder.
    #[must_use]
    pub fn at(root: PathBuf) -> Self {
        Self { root }
    }

    /// Folder of the workspace's `Cargo.toml`.
    #[must_use]
    pub fn root(&self) -> &Path {
        &self.root
    }
}

/// Runs the verb that `args` begins with.
///
/// # Errors
/// The verb is unknown or fails.
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
        None => bail!("unknown verb {name:?}\n\n{}", help()),
    }
}

fn help() -> String {
    let lines: String = verbs::ALL.iter().map(|verb| format!("  {:9} {}\n", verb.name, verb.about)).collect();
    format!("Usage: cargo xtask VERB\n\n{lines}")
}
