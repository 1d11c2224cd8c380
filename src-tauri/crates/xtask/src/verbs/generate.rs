//! `gen`: writes generated files. They are committed, so that readers find them and diffs show the effect of a change.
//! A test fails when one is stale.

mod typescript;

use std::fs;
use std::process::ExitCode;

use anyhow::{Context, bail};

use super::{Verb, no_arguments};
use crate::{Repo, licence, process};

/// Definition of this command.
pub const VERB: Verb = Verb { name: "gen", about: "Write the generated files", run };

struct Generated {
    path: &'static str,
    make: fn(&Repo) -> anyhow::Result<String>,
}

const ALL: &[Generated] = &[
    Generated { path: "src-tauri/THIRD-PARTY.md", make: licence::third_party },
    Generated { path: "src-tauri/SETTINGS.md", make: settings },
    Generated { path: "ui/src/api/types.ts", make: typescript::types },
];

fn run(repo: &Repo, args: &[String]) -> anyhow::Result<ExitCode> {
    no_arguments(args)?;
    for generated in ALL {
        let text = (generated.make)(repo)?;
        if current(repo, generated) != text {
            let path = repo.root().join(generated.path);
            let folder = path.parent().expect("a generated file is in a folder");
            fs::create_dir_all(folder).with_context(|| format!("cannot create {}", folder.display()))?;
            fs::write(path, text).with_context(|| format!("cannot write {}", generated.path))?;
            println!("updated {}", generated.path);
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Checks that the generated files are up to date.
///
/// # Errors
/// A file is stale or cannot be generated.
pub fn check(repo: &Repo) -> anyhow::Result<()> {
    for generated in ALL {
        if current(repo, generated) != (generated.make)(repo)? {
            bail!("{} is stale: run `cargo xtask gen`", generated.path);
        }
    }
    Ok(())
}

/// The table of settings, printed by an example of `cairn-app`.
fn settings(repo: &Repo) -> anyhow::Result<String> {
    process::output(&mut process::cargo(repo, &["run", "--quiet", "--package", "cairn-app", "--example", "settings"]))
}

/// Current content of the file, empty if it is missing.
fn current(repo: &Repo, generated: &Generated) -> String {
    fs::read_to_string(repo.root().join(generated.path)).unwrap_or_default()
}
