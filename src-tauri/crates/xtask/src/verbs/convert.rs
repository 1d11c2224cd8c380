//! `convert`: compares converted checkpoints with those of llama.cpp's converter, tensor by tensor.

use std::process::ExitCode;

use super::Verb;
use crate::{Repo, llama, process, python, workspace};

/// Definition of this command.
pub const VERB: Verb = Verb {
    name: "convert",
    about: "Compare converted checkpoints with llama.cpp's converter; `--record` writes fixtures",
    run,
};

fn run(repo: &Repo, args: &[String]) -> anyhow::Result<ExitCode> {
    let python = python::CONVERTER.python(repo)?;
    let folder = workspace::target_folder(repo)?.join("convert");
    let source = llama::source(repo)?;
    let mut convert = process::cargo(repo, &["run", "--release", "--package", "it", "--bin", "convert", "--"]);
    convert.arg("--python").arg(python).arg("--source").arg(source).arg("--folder").arg(folder);
    for arg in args {
        match arg.as_str() {
            "--record" => convert.arg(arg),
            _ => anyhow::bail!("unexpected argument {arg:?}: convert takes --record"),
        };
    }
    process::run(&mut convert)?;
    Ok(ExitCode::SUCCESS)
}
