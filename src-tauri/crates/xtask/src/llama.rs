//! Programs of llama.cpp, built for this machine from the source in the PyPI package llama-cpp-python.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Context;

use crate::{Repo, process, python, workspace};

/// Environment variable with the path of `llama-server`, for the tests that start it.
pub(crate) const SERVER_VARIABLE: &str = "CAIRN_LLAMA_SERVER";
/// Name of that program.
pub(crate) const SERVER: &str = "llama-server";

/// The package with the source.
const PACKAGE: &str = python::LLAMA.packages[0];

/// Returns the path of a program of llama.cpp, such as `llama-bench`. Builds it if it is missing.
pub(crate) fn program(repo: &Repo, name: &str) -> anyhow::Result<PathBuf> {
    if let Some(program) = built(repo, name)? {
        return Ok(program);
    }
    let (folder, build) = (folder(repo)?, build(repo)?);
    let python = python::CMAKE.python(repo)?;
    let tools = python::CMAKE.folder(repo)?.join("bin");
    let source = unpack(&python, &folder)?;
    let ninja = tools.join("ninja");
    let mut configure = Command::new(tools.join("cmake"));
    configure.args(["-G", "Ninja", "-DCMAKE_BUILD_TYPE=Release", "-DBUILD_SHARED_LIBS=OFF", "-DLLAMA_CURL=OFF"]);
    configure.args(["-DLLAMA_OPENSSL=OFF", "-DLLAMA_BUILD_TESTS=OFF", "-DLLAMA_BUILD_EXAMPLES=OFF"]);
    // Otherwise the build of the server downloads its interface.
    configure.args(["-DLLAMA_BUILD_UI=OFF", "-DLLAMA_USE_PREBUILT_UI=OFF"]);
    configure.arg(format!("-DCMAKE_MAKE_PROGRAM={}", ninja.display()));
    process::run(configure.arg("-S").arg(source).arg("-B").arg(&build))?;
    process::run(Command::new(ninja).arg("-C").arg(&build).arg(name))?;
    Ok(program_in(&build, name))
}

/// Returns the folder with the source of llama.cpp. Downloads it if it is missing.
pub(crate) fn source(repo: &Repo) -> anyhow::Result<PathBuf> {
    unpack(&python::CONVERTER.python(repo)?, &folder(repo)?)
}

fn unpack(python: &Path, folder: &Path) -> anyhow::Result<PathBuf> {
    Ok(python::source(python, PACKAGE, folder)?.join("vendor/llama.cpp"))
}

/// Returns the path of a program of llama.cpp, if it has been built.
pub(crate) fn built(repo: &Repo, name: &str) -> anyhow::Result<Option<PathBuf>> {
    Ok(Some(program_in(&build(repo)?, name)).filter(|program| program.exists()))
}

fn program_in(build: &Path, name: &str) -> PathBuf {
    build.join("bin").join(name)
}

fn folder(repo: &Repo) -> anyhow::Result<PathBuf> {
    Ok(workspace::target_folder(repo)?.join("llama.cpp"))
}

/// The folder of the build. Another version has another one.
fn build(repo: &Repo) -> anyhow::Result<PathBuf> {
    let (_, version) = PACKAGE.split_once("==").context("a package needs a version: NAME==VERSION")?;
    Ok(folder(repo)?.join(format!("build-{version}")))
}
