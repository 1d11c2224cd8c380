//! `bundle`: what people install. On Debian that is a `.deb` with the app, the daemon and the command `cairn`; the configuration for
//! other systems' packages is in `src-tauri/tauri.conf.json`, and each is made on its own system.

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use anyhow::{Context, bail};

use super::Verb;
use super::setup::{For, ensure};
use crate::{Repo, page, process, workspace};

/// The row of this verb.
pub const VERB: Verb = Verb {
    name: "bundle",
    about: "Make a package to install: `deb`, or whichever of `rpm`, `appimage`, `dmg`, `msi` is named",
    run,
};

/// Tauri's tool for packages, from npm, where it is a finished program.
const TOOL: &str = "@tauri-apps/cli@2.12.5";

fn run(repo: &Repo, args: &[String]) -> anyhow::Result<ExitCode> {
    let kind = match args {
        [] => "deb",
        [kind] => kind,
        [_, other, ..] => bail!("unexpected argument {other:?}"),
    };
    ensure(For::Desktop)?;
    page::build(repo)?;
    let words = ["build", "--release", "--package", "cairn-cli", "--package", "cairn-desktop", "--bins"];
    process::run(&mut process::cargo(repo, &words))?;
    let target = workspace::target_folder(repo)?;
    let sidecar = sidecar(&target)?;
    strip(&target.join("release").join(format!("cairn-desktop{}", std::env::consts::EXE_SUFFIX)))?;
    let mut tool = tool(repo, &target)?;
    let config = serde_json::json!({"bundle": {"externalBin": [sidecar]}}).to_string();
    tool.args(["bundle", "--bundles", kind, "--config", &config]).env("CARGO_TARGET_DIR", &target);
    process::run(tool.current_dir(repo.root()))?;
    for package in made(&target.join("release/bundle").join(kind))? {
        let bytes = package.metadata().context("it was just made")?.len();
        println!("{} ({:.1} MB)", package.display(), bytes as f64 / 1e6);
    }
    Ok(ExitCode::SUCCESS)
}

/// Puts `cairn` where the tool looks for a program that goes along: under a name that ends with this machine's kind.
fn sidecar(target: &Path) -> anyhow::Result<PathBuf> {
    let host = process::output(Command::new("rustc").args(["--print", "host-tuple"]))?;
    let exe = std::env::consts::EXE_SUFFIX;
    let folder = target.join("sidecar");
    std::fs::create_dir_all(&folder).with_context(|| format!("could not make {}", folder.display()))?;
    let copy = folder.join(format!("cairn-{}{exe}", host.trim()));
    std::fs::copy(target.join("release").join(format!("cairn{exe}")), &copy).context("could not copy `cairn`")?;
    strip(&copy)?;
    Ok(folder.join("cairn"))
}

/// Takes out what only a debugger reads. The tables for it are larger than the programs.
fn strip(program: &Path) -> anyhow::Result<()> {
    if cfg!(windows) {
        // There they are in files of their own.
        return Ok(());
    }
    process::run(Command::new("strip").arg(program))
}

/// The tool, brought once into the build folder.
fn tool(repo: &Repo, target: &Path) -> anyhow::Result<Command> {
    let folder = target.join("bundler");
    let program = folder.join("node_modules/.bin/tauri");
    let stamp = folder.join("cairn-packages");
    if !std::fs::read_to_string(&stamp).is_ok_and(|installed| installed == TOOL) {
        std::fs::create_dir_all(&folder).with_context(|| format!("could not make {}", folder.display()))?;
        let words = ["install", "--no-save", "--no-package-lock", "--ignore-scripts", "--no-audit", "--no-fund"];
        process::run(page::npm(repo)?.args(words).args(["--loglevel=error", "--prefix"]).arg(&folder).arg(TOOL))?;
        std::fs::write(&stamp, TOOL).with_context(|| format!("could not write {}", stamp.display()))?;
    }
    let mut exec = page::npm(repo)?;
    exec.args(["exec", "--offline", "--prefix"]).arg(&folder).arg("--").arg(program);
    Ok(exec)
}

/// The packages in a folder.
fn made(folder: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let entries = std::fs::read_dir(folder).with_context(|| format!("nothing is in {}", folder.display()))?;
    let files = entries.flatten().map(|entry| entry.path()).filter(|path| path.is_file());
    Ok(files.collect())
}
