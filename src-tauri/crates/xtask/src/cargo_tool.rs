//! Cargo subcommands of other projects, installed once in the build folder.

use std::process::Command;

use anyhow::Context;

use crate::{Repo, process, workspace};

/// A subcommand with a pinned version.
pub(crate) struct CargoTool {
    pub(crate) name: &'static str,
    pub(crate) version: &'static str,
    /// Arguments of `cargo install` that select its features.
    pub(crate) features: &'static [&'static str],
    /// Cargo's `opt-level`. A program that runs shortly compiles fastest without optimisation.
    pub(crate) opt_level: &'static str,
}

impl CargoTool {
    /// Its program. Installs it at first use.
    ///
    /// # Errors
    /// It cannot be installed.
    pub(crate) fn command(&self, repo: &Repo) -> anyhow::Result<Command> {
        let Self { name, version, features, opt_level } = self;
        let folder = workspace::target_folder(repo)?.join("tools").join(format!("{name}-{version}"));
        let program = folder.join("bin").join(format!("{name}{}", std::env::consts::EXE_SUFFIX));
        if !program.exists() {
            let build = folder.join("build");
            let mut install = process::cargo(repo, &["install", name, "--version", version, "--locked", "--debug"]);
            install.args(*features).arg("--root").arg(&folder);
            install.env("CARGO_TARGET_DIR", &build).env("CARGO_PROFILE_DEV_DEBUG", "0");
            install.env("CARGO_PROFILE_DEV_OPT_LEVEL", opt_level);
            process::run(&mut install)?;
            std::fs::remove_dir_all(&build).with_context(|| format!("cannot remove {}", build.display()))?;
        }
        Ok(Command::new(program))
    }
}
