//! `gen`: writes generated files. They are committed, so that readers find them and diffs show the effect of a change.
//! A test fails when one is stale.

mod attributes;
mod openapi;
mod typescript;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use anyhow::{Context, bail};

use super::{Verb, no_arguments};
use crate::needs::{For, ensure};
use crate::{Repo, licence, process, ui, workspace};

/// Definition of this command.
pub const VERB: Verb = Verb { name: "gen", about: "Write the generated files", run };

struct Generated {
    path: &'static str,
    make: fn(&Repo) -> anyhow::Result<String>,
}

/// The source of the types of the HTTP interfaces.
const WIRE: &str = "src-tauri/crates/wire/src";
const SECURITY: &str = ".github/SECURITY.md";
/// Lines before and after the access table in `SECURITY.md`.
const TABLE_START: &str = "<!-- access table: `cargo xtask gen` writes it -->\n";
const TABLE_END: &str = "<!-- end of the access table -->\n";

const ALL: &[Generated] = &[
    Generated { path: "src-tauri/THIRD-PARTY.md", make: licence::third_party },
    Generated { path: "src-tauri/SETTINGS.md", make: settings },
    Generated { path: SECURITY, make: security },
    Generated { path: "src-tauri/openapi.json", make: openapi::document },
    Generated { path: "src-tauri/API.md", make: openapi::table },
    Generated { path: "ui/src/api/types.ts", make: typescript::types },
];

fn run(repo: &Repo, args: &[String]) -> anyhow::Result<ExitCode> {
    no_arguments(args)?;
    // Examples print tables, and one build makes all programs.
    ensure(For::Desktop)?;
    ui::build(repo)?;
    workspace::build_programs(repo)?;
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

/// Checks that the generated files are up to date. Builds the programs, so the interface must be built.
///
/// # Errors
/// A file is stale or cannot be generated.
pub fn check(repo: &Repo) -> anyhow::Result<()> {
    workspace::build_programs(repo)?;
    for generated in ALL {
        if current(repo, generated) != (generated.make)(repo)? {
            bail!("{} is stale: run `cargo xtask gen`", generated.path);
        }
    }
    Ok(())
}

/// The table of settings, printed by an example of `cairn-app`.
fn settings(repo: &Repo) -> anyhow::Result<String> {
    example(repo, "settings")
}

/// Runs an example that [`workspace::build_programs`] built, and returns its output.
fn example(repo: &Repo, name: &str) -> anyhow::Result<String> {
    process::output(&mut Command::new(workspace::program(repo, &format!("examples/{name}"))?))
}

/// Rust files below a folder, in the order of their paths.
fn files(folder: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).with_context(|| format!("cannot list {}", folder.display()))? {
        let path = entry?.path();
        if path.is_dir() {
            found.extend(files(&path)?);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
    found.sort();
    Ok(found)
}

/// `SECURITY.md` with the access table, printed by an example of `cairn-http`.
fn security(repo: &Repo) -> anyhow::Result<String> {
    let table = example(repo, "access")?;
    let text = fs::read_to_string(repo.root().join(SECURITY)).with_context(|| format!("cannot read {SECURITY}"))?;
    let (before, rest) = text.split_once(TABLE_START).with_context(|| format!("{SECURITY} has no {TABLE_START:?}"))?;
    let (_, after) = rest.split_once(TABLE_END).with_context(|| format!("{SECURITY} has no {TABLE_END:?}"))?;
    Ok(format!("{before}{TABLE_START}{table}{TABLE_END}{after}"))
}

/// Current content of the file, empty if it is missing.
fn current(repo: &Repo, generated: &Generated) -> String {
    fs::read_to_string(repo.root().join(generated.path)).unwrap_or_default()
}
