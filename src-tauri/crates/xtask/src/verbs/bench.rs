//! `bench`: Cairn's speed as a ratio to another program's, or to doing without, both measured in one run.

use std::path::PathBuf;
use std::process::{Command, ExitCode};

use super::Verb;
use crate::{Repo, process, python, workspace};

/// The row of this verb.
pub const VERB: Verb = Verb {
    name: "bench",
    about: "Measure in turns: `bench decode [--rounds N] [--tokens N]` with llama.cpp, `bench pull [--rounds N] [--mib N]` with curl, \
            `bench kv-overhead|kv-bandwidth|kv-ttft|kv-cold|kv-far|kv-policy [--shape NAME] [--tokens N]` with and without the tiers",
    run,
};

/// The tests of what the tiers decide are measures too: traces and machines that are made from a seed, replayed in no time.
const POLICY: [&str; 11] = [
    "test",
    "--release",
    "--package",
    "cairn-tier",
    "--lib",
    "--",
    "--nocapture",
    "--test-threads=1",
    "cost::",
    "policy::",
    "--quiet",
];

fn run(repo: &Repo, args: &[String]) -> anyhow::Result<ExitCode> {
    if args.first().is_some_and(|name| name == "kv-policy") {
        process::run(&mut process::cargo(repo, &POLICY))?;
        return Ok(ExitCode::SUCCESS);
    }
    let target = workspace::target_folder(repo)?;
    let mut bench = process::cargo(repo, &["run", "--release", "--package", "it", "--bin", "bench", "--"]);
    if args.is_empty() {
        bench.arg("decode");
    }
    bench.args(args).arg("--folder").arg(target.join("bench"));
    match args.first().map_or("decode", String::as_str) {
        "pull" | "kv-cold" => {
            process::run(&mut process::cargo(repo, &["build", "--release", "--package", "cairn-cli", "--quiet"]))?;
            bench.arg("--cairn").arg(target.join("release/cairn"));
        }
        "decode" => {
            bench.arg("--llama-bench").arg(llama_bench(repo)?);
        }
        _ => {}
    }
    process::run(&mut bench)?;
    Ok(ExitCode::SUCCESS)
}

/// llama.cpp's own bench program, built for this machine out of the source that the PyPI package carries.
fn llama_bench(repo: &Repo) -> anyhow::Result<PathBuf> {
    let python = python::LLAMA.python(repo)?;
    let folder = workspace::target_folder(repo)?.join("llama-bench");
    let program = folder.join("build/bin/llama-bench");
    if program.exists() {
        return Ok(program);
    }
    let source = python::source(&python, python::LLAMA.packages[0], &folder)?.join("vendor/llama.cpp");
    let tools = python::LLAMA.folder(repo)?.join("bin");
    let (build, ninja) = (folder.join("build"), tools.join("ninja"));
    let mut configure = Command::new(tools.join("cmake"));
    configure.args(["-G", "Ninja", "-DCMAKE_BUILD_TYPE=Release", "-DBUILD_SHARED_LIBS=OFF", "-DLLAMA_CURL=OFF"]);
    configure.args(["-DLLAMA_OPENSSL=OFF", "-DLLAMA_BUILD_TESTS=OFF", "-DLLAMA_BUILD_EXAMPLES=OFF"]);
    configure.arg(format!("-DCMAKE_MAKE_PROGRAM={}", ninja.display()));
    process::run(configure.arg("-S").arg(source).arg("-B").arg(&build))?;
    process::run(Command::new(ninja).arg("-C").arg(&build).arg("llama-bench"))?;
    Ok(program)
}
