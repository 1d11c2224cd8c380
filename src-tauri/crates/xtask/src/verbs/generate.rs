//! `gen`: writes the files that are made from others. They are committed, so that a reader finds them and a diff shows
//! what a change did to them; a test fails when one is stale.

mod typescript;

use std::fs;
use std::process::ExitCode;

use anyhow::{Context, bail};

use super::{Verb, no_arguments};
use crate::{Repo, licence};

/// The row of this verb.
pub const VERB: Verb = Verb { name: "gen", about: "Write the files that are generated from others", run };

struct Generated {
    path: &'static str,
    make: fn(&Repo) -> anyhow::Result<String>,
}

const ALL: &[Generated] = &[
    Generated { path: "src-tauri/THIRD-PARTY.md", make: licence::third_party },
    Generated { path: "ui/src/api/types.ts", make: typescript::types },
];

fn run(repo: &Repo, args: &[String]) -> anyhow::Result<ExitCode> {
    no_arguments(args)?;
    for generated in ALL {
        let text = (generated.make)(repo)?;
        if current(repo, generated) != text {
            let path = repo.root().join(generated.path);
            let folder = path.parent().expect("a generated file lies in a folder");
            fs::create_dir_all(folder).with_context(|| format!("could not make {}", folder.display()))?;
            fs::write(path, text).with_context(|| format!("could not write {}", generated.path))?;
            println!("{} is new", generated.path);
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Fails when a generated file is not what `gen` would write.
///
/// # Errors
/// The stale file, or why it could not be made.
pub fn check(repo: &Repo) -> anyhow::Result<()> {
    for generated in ALL {
        if current(repo, generated) != (generated.make)(repo)? {
            bail!("{} is stale: run cargo xtask gen", generated.path);
        }
    }
    Ok(())
}

/// The file as it is; a missing one is as stale as an empty one.
fn current(repo: &Repo, generated: &Generated) -> String {
    fs::read_to_string(repo.root().join(generated.path)).unwrap_or_default()
}
