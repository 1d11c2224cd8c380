//! `bundle`: builds an installable package. On Debian that is a `.deb` with the app and the program `cairn`. Packages
//! for other systems are configured in `src-tauri/tauri.conf.json` and must be built on those systems. A package contains
//! the licence texts of all third-party code; `bundle notices` writes only those. Packages for Linux also contain manual
//! pages and completion scripts, which `cairn` prints.

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use anyhow::{Context, bail};
use serde_json::{Map, Value};

use super::Verb;
use crate::needs::{For, ensure};
use crate::{Repo, notices, process, ui, workspace};

/// Definition of this command.
pub const VERB: Verb = Verb {
    name: "bundle",
    about: "Build an installable package: `deb` (default), `rpm`, `appimage`, `dmg`, `msi`, or only its `notices`",
    run,
};

/// Tauri's bundler, a prebuilt program from npm.
const TOOL: &str = "@tauri-apps/cli@2.12.5";

fn run(repo: &Repo, args: &[String]) -> anyhow::Result<ExitCode> {
    let kind = match args {
        [] => "deb",
        [kind] => kind,
        [_, other, ..] => bail!("unexpected argument {other:?}"),
    };
    ensure(if kind == "notices" { For::Page } else { For::Desktop })?;
    let notices = notices::write(repo)?;
    if kind == "notices" {
        println!("{}", notices.display());
        return Ok(ExitCode::SUCCESS);
    }
    ui::build(repo)?;
    let words = ["build", "--release", "--package", "cairn-cli", "--package", "cairn-desktop", "--bins"];
    process::run(&mut process::cargo(repo, &words))?;
    let target = workspace::target_folder(repo)?;
    let sidecar = sidecar(&target)?;
    let mut tool = tool(repo, &target)?;
    let resources = serde_json::json!({notices.display().to_string(): notices::NAME});
    let files = documents(&target)?;
    let linux = serde_json::json!({"deb": {"files": files}, "rpm": {"files": files}});
    let bundle = serde_json::json!({"externalBin": [sidecar], "resources": resources, "linux": linux});
    let config = serde_json::json!({"bundle": bundle}).to_string();
    tool.args(["bundle", "--bundles", kind, "--config", &config]).env("CARGO_TARGET_DIR", &target);
    process::run(tool.current_dir(repo.root()))?;
    for package in files_in(&target.join("release/bundle").join(kind))? {
        let bytes = package.metadata().context("the bundler just created it")?.len();
        println!("{} ({:.1} MB)", package.display(), bytes as f64 / 1e6);
    }
    Ok(ExitCode::SUCCESS)
}

/// Copies `cairn` to where the bundler expects an extra program: under a name that ends with the target triple.
fn sidecar(target: &Path) -> anyhow::Result<PathBuf> {
    let host = process::output(Command::new("rustc").args(["--print", "host-tuple"]))?;
    let exe = std::env::consts::EXE_SUFFIX;
    let folder = target.join("sidecar");
    std::fs::create_dir_all(&folder).with_context(|| format!("cannot create {}", folder.display()))?;
    let copy = folder.join(format!("cairn-{}{exe}", host.trim()));
    std::fs::copy(target.join("release").join(format!("cairn{exe}")), &copy).context("cannot copy `cairn`")?;
    Ok(folder.join("cairn"))
}

/// Shells with the path of their completion script in a package.
const COMPLETIONS: &[(&str, &str)] = &[
    ("bash", "/usr/share/bash-completion/completions/cairn"),
    ("fish", "/usr/share/fish/vendor_completions.d/cairn.fish"),
    ("zsh", "/usr/share/zsh/vendor-completions/_cairn"),
];

/// Writes manual pages and completion scripts. Returns the files by their paths in a package.
fn documents(target: &Path) -> anyhow::Result<Map<String, Value>> {
    let cairn = target.join("release").join(format!("cairn{}", std::env::consts::EXE_SUFFIX));
    let (pages, scripts) = (target.join("documents/man1"), target.join("documents/completions"));
    if pages.exists() {
        std::fs::remove_dir_all(&pages).with_context(|| format!("cannot empty {}", pages.display()))?;
    }
    std::fs::create_dir_all(&scripts).with_context(|| format!("cannot create {}", scripts.display()))?;
    process::run(Command::new(&cairn).arg("man").arg("--dir").arg(&pages))?;
    let mut files = Map::new();
    for page in files_in(&pages)? {
        let name = page.file_name().context("a page has a name")?.to_string_lossy();
        files.insert(format!("/usr/share/man/man1/{name}"), page.display().to_string().into());
    }
    for (shell, place) in COMPLETIONS {
        let script = scripts.join(shell);
        let text = process::output(Command::new(&cairn).args(["completions", shell]))?;
        std::fs::write(&script, text).with_context(|| format!("cannot write {}", script.display()))?;
        files.insert((*place).to_owned(), script.display().to_string().into());
    }
    Ok(files)
}

/// The bundler, installed once in the build folder.
fn tool(repo: &Repo, target: &Path) -> anyhow::Result<Command> {
    let folder = target.join("bundler");
    let program = folder.join("node_modules/.bin/tauri");
    let stamp = folder.join("cairn-packages");
    if !std::fs::read_to_string(&stamp).is_ok_and(|installed| installed == TOOL) {
        std::fs::create_dir_all(&folder).with_context(|| format!("cannot create {}", folder.display()))?;
        let words = ["install", "--no-save", "--no-package-lock", "--ignore-scripts", "--no-audit", "--no-fund"];
        process::run(ui::npm(repo)?.args(words).args(["--loglevel=error", "--prefix"]).arg(&folder).arg(TOOL))?;
        std::fs::write(&stamp, TOOL).with_context(|| format!("cannot write {}", stamp.display()))?;
    }
    let mut exec = ui::npm(repo)?;
    exec.args(["exec", "--offline", "--prefix"]).arg(&folder).arg("--").arg(program);
    Ok(exec)
}

/// The files in a folder.
fn files_in(folder: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let entries = std::fs::read_dir(folder).with_context(|| format!("cannot read {}", folder.display()))?;
    let files = entries.flatten().map(|entry| entry.path()).filter(|path| path.is_file());
    Ok(files.collect())
}
