//! `parity`: compares the engine's logits with llama.cpp's for every family and quant type, vectors of texts, and pictures.

use std::process::ExitCode;

use super::Verb;
use crate::{Repo, process, python, workspace};

/// Definition of this command.
pub const VERB: Verb = Verb {
    name: "parity",
    about: "Compare logits, vectors and pictures with llama.cpp's (its first run builds llama.cpp); `--record` writes \
            fixtures, `--only PREFIX` selects cases",
    run,
};

fn run(repo: &Repo, args: &[String]) -> anyhow::Result<ExitCode> {
    let python = python::LLAMA.python(repo)?;
    process::run(&mut process::cargo(repo, &["build", "--release", "--package", "cairn-cli", "--quiet"]))?;
    let target = workspace::target_folder(repo)?;
    let mut parity = process::cargo(repo, &["run", "--release", "--package", "it", "--bin", "parity", "--"]);
    parity.arg("--python").arg(python).arg("--folder").arg(target.join("parity"));
    parity.arg("--cairn").arg(target.join("release/cairn"));
    let mut args = args.iter();
    while let Some(arg) = args.next() {
        match (arg.as_str(), args.clone().next()) {
            ("--record", _) => {
                parity.arg("--record").arg(repo.root().join("tests/fixtures"));
            }
            ("--only", Some(prefix)) => {
                parity.arg("--only").arg(prefix);
                args.next();
            }
            _ => anyhow::bail!("unexpected argument {arg:?}: parity takes --record and --only PREFIX"),
        }
    }
    process::run(&mut parity)?;
    Ok(ExitCode::SUCCESS)
}
