//! `quantise`: compares quantised models with llama.cpp's, tensor by tensor.

use std::process::ExitCode;

use super::Verb;
use crate::{Repo, process, python, workspace};

/// Definition of this command.
pub const VERB: Verb = Verb {
    name: "quantise",
    about: "Compare quantised models with llama.cpp's; `--record` writes fixtures, `--speed` measures both",
    run,
};

fn run(repo: &Repo, args: &[String]) -> anyhow::Result<ExitCode> {
    let python = python::LLAMA.python(repo)?;
    let folder = workspace::target_folder(repo)?.join("quantise");
    let mut quantise = process::cargo(repo, &["run", "--release", "--package", "it", "--bin", "quantise", "--"]);
    quantise.arg("--python").arg(python).arg("--folder").arg(folder);
    for arg in args {
        match arg.as_str() {
            "--record" | "--speed" => quantise.arg(arg),
            _ => anyhow::bail!("unexpected argument {arg:?}: quantise takes --record and --speed"),
        };
    }
    process::run(&mut quantise)?;
    Ok(ExitCode::SUCCESS)
}
