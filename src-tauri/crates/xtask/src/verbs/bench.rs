//! `bench`: Cairn's speed relative to another program, or to Cairn without the feature, both measured in one run.

use std::process::ExitCode;

use anyhow::Context;

use super::Verb;
use crate::needs::{For, ensure};
use crate::{Repo, llama, process, ui, workspace};

/// Definition of this command.
pub const VERB: Verb = Verb {
    name: "bench",
    about: "Measure in turns: `bench decode|prefill [--rounds N] [--tokens N] [--shape NAME]` with llama.cpp, `bench pull [--rounds N] [--mib N]` with curl, \
            `bench kernels [VARIANT]` rates of each kernel, `bench idle` wake-ups of an idle daemon, `bench estimates [--shape NAME]` estimated speeds with measured ones, \
            `bench kv-overhead|kv-bandwidth|kv-ttft|kv-cold|kv-far|kv-policy [--shape NAME] [--tokens N]` with and without the tiers; \
            `bench stutter|two-models [--shape NAME] [--rounds N]` answers beside another client or model; `bench desktop [--rounds N] [--programs DIR] [--package DEB]` \
            the app's start, memory and size",
    run,
};

/// The example that measures each kernel.
const KERNELS: [&str; 7] = ["run", "--release", "--package", "cairn-kernels", "--example", "rates", "--"];

/// The tests of the tier policy are simulations that also print measurements: seeded traces, replayed without real
/// time.
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
    if let [name, variant @ ..] = args
        && name == "kernels"
    {
        process::run(process::cargo(repo, &KERNELS).args(variant))?;
        return Ok(ExitCode::SUCCESS);
    }
    if let [name, flags @ ..] = args
        && name == "desktop"
    {
        return desktop(repo, flags);
    }
    let target = workspace::target_folder(repo)?;
    let mut bench = process::cargo(repo, &["run", "--release", "--package", "it", "--bin", "bench", "--"]);
    if args.is_empty() {
        bench.arg("decode");
    }
    bench.args(args).arg("--folder").arg(target.join("bench"));
    match args.first().map_or("decode", String::as_str) {
        "pull" | "idle" | "estimates" | "kv-cold" => {
            process::run(&mut process::cargo(repo, &["build", "--release", "--package", "cairn-cli", "--quiet"]))?;
            bench.arg("--cairn").arg(target.join("release/cairn"));
        }
        "decode" | "prefill" => {
            bench.arg("--llama-bench").arg(llama::program(repo, "llama-bench")?);
        }
        _ => {}
    }
    process::run(&mut bench)?;
    Ok(ExitCode::SUCCESS)
}

/// Measures the desktop app: the given programs, or a release build with its package if one exists.
fn desktop(repo: &Repo, flags: &[String]) -> anyhow::Result<ExitCode> {
    ensure(For::Tests)?;
    // The driver of the window need not be optimised.
    let words = ["bench", "--profile", "dev", "--package", "it", "--bench", "figures", "--"];
    let mut bench = process::cargo(repo, &words);
    for pair in flags.chunks(2) {
        match pair {
            // Cargo runs it in another folder.
            [flag, path] if flag == "--programs" || flag == "--package" => {
                bench.arg(flag).arg(std::path::absolute(path).context("an empty path")?)
            }
            other => bench.args(other),
        };
    }
    let has = |name: &str| flags.iter().any(|flag| flag == name);
    if !has("--programs") {
        ui::build(repo)?;
        let words = ["build", "--release", "--package", "cairn-cli", "--package", "cairn-desktop", "--bins", "--quiet"];
        process::run(&mut process::cargo(repo, &words))?;
        let release = workspace::target_folder(repo)?.join("release");
        bench.arg("--programs").arg(&release);
        let entries = std::fs::read_dir(release.join("bundle/deb")).into_iter().flatten().flatten();
        let package = entries.map(|entry| entry.path()).find(|path| path.extension().is_some_and(|kind| kind == "deb"));
        if let Some(package) = package.filter(|_| !has("--package")) {
            bench.arg("--package").arg(package);
        }
    }
    process::run(&mut bench)?;
    Ok(ExitCode::SUCCESS)
}
