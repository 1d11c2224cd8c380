//! Builds and tests the interface: Node.js builds `ui/` into `ui/dist`, which the daemon serves and the window shows.
//!
//! A build newer than all its sources is reused.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::SystemTime;

use anyhow::Context;

use crate::{Repo, process, python};

/// Folders below `ui/` without sources.
const NO_SOURCES: &[&str] = &["node_modules", "dist", "e2e"];

/// Command that succeeds if Node.js is new enough for the build tools.
const NODE_FITS: &[&str] = &[
    "node",
    "-e",
    "const [major, minor] = process.versions.node.split('.'); process.exit(major > 20 || (major == 20 && minor >= 19) ? 0 : 1)",
];

/// Builds the interface if the build is missing or older than its sources.
///
/// # Errors
/// Node.js cannot be installed, or the build fails.
pub(crate) fn build(repo: &Repo) -> anyhow::Result<()> {
    let folder = repo.root().join("ui");
    let built = changed(&folder.join("dist/index.html"));
    if built.is_some() && built >= newest(&folder)? {
        return Ok(());
    }
    script(repo, "build").and_then(|mut build| process::run(&mut build))
}

/// Checks the types of the interface, templates included.
///
/// # Errors
/// A type is wrong.
pub(crate) fn types(repo: &Repo) -> anyhow::Result<()> {
    process::run(&mut script(repo, "check")?)
}

/// Runs the unit tests, which need no browser.
///
/// # Errors
/// A test fails.
pub(crate) fn units(repo: &Repo) -> anyhow::Result<()> {
    process::run(&mut script(repo, "test")?)
}

/// Runs the end-to-end tests in a browser. `cairn` is the daemon's program.
///
/// # Errors
/// A test fails.
pub(crate) fn journeys(repo: &Repo, cairn: &Path) -> anyhow::Result<()> {
    process::run(script(repo, "e2e")?.env("CAIRN_BIN", cairn))
}

/// Installs the packages of `package.json`, if they are not installed.
///
/// # Errors
/// Node.js or a package cannot be installed.
pub(crate) fn install(repo: &Repo) -> anyhow::Result<()> {
    let folder = repo.root().join("ui");
    let installed = changed(&folder.join("node_modules/.package-lock.json"));
    if installed.is_none() || installed < changed(&folder.join("package-lock.json")) {
        // Packages may not run scripts while they are installed.
        let words = ["ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"];
        process::run(npm(repo)?.args(words).current_dir(&folder))?;
    }
    Ok(())
}

/// Command for a script of `package.json`. Installs its packages first.
fn script(repo: &Repo, name: &str) -> anyhow::Result<Command> {
    install(repo)?;
    let mut script = npm(repo)?;
    script.args(["run", "--silent", name]).current_dir(repo.root().join("ui"));
    Ok(script)
}

/// The program `npm`: the system's if its Node.js is new enough, else one from PyPI.
///
/// # Errors
/// Node.js cannot be installed.
pub(crate) fn npm(repo: &Repo) -> anyhow::Result<Command> {
    if process::succeeds(NODE_FITS) && process::succeeds(&["npm", "--version"]) {
        return Ok(Command::new("npm"));
    }
    python::NODE.python(repo)?;
    let programs = python::NODE.folder(repo)?.join("bin");
    let mut npm = Command::new(programs.join("npm"));
    // Programs that npm starts look up `node` in PATH.
    #[expect(clippy::disallowed_methods, reason = "PATH is extended for a child process")]
    let path = std::env::var_os("PATH").unwrap_or_default();
    let paths = std::iter::once(programs).chain(std::env::split_paths(&path));
    npm.env(
        "PATH",
        std::env::join_paths(paths).context("PATH cannot be extended: a folder name contains its separator")?,
    );
    Ok(npm)
}

/// The latest modification time of the sources below a folder.
fn newest(folder: &Path) -> anyhow::Result<Option<SystemTime>> {
    let mut newest = None;
    let mut open: Vec<PathBuf> = vec![folder.to_owned()];
    while let Some(folder) = open.pop() {
        let entries = std::fs::read_dir(&folder).with_context(|| format!("cannot read {}", folder.display()))?;
        for entry in entries {
            let entry = entry?;
            if !entry.file_type()?.is_dir() {
                newest = newest.max(changed(&entry.path()));
            } else if !NO_SOURCES.iter().any(|name| entry.file_name() == *name) {
                open.push(entry.path());
            }
        }
    }
    Ok(newest)
}

/// Modification time of a file, if it exists.
fn changed(path: &Path) -> Option<SystemTime> {
    path.metadata().and_then(|metadata| metadata.modified()).ok()
}

#[cfg(test)]
mod tests {
    use std::fs::{self, File};
    use std::time::Duration;

    use super::*;

    #[test]
    fn newest_ignores_generated_folders() {
        let folder = std::env::temp_dir().join(format!("cairn-page-{}", std::process::id()));
        fs::create_dir_all(folder.join("src/deep")).unwrap();
        fs::create_dir_all(folder.join("node_modules")).unwrap();
        let at = |name: &str, seconds| {
            let file = File::create(folder.join(name)).unwrap();
            let time = SystemTime::UNIX_EPOCH + Duration::from_secs(seconds);
            file.set_modified(time).unwrap();
            time
        };
        at("index.html", 100);
        let deep = at("src/deep/a.ts", 200);
        at("node_modules/b.js", 300);
        let found = newest(&folder);
        fs::remove_dir_all(&folder).unwrap();
        assert_eq!(found.unwrap(), Some(deep), "subfolders count, node_modules does not");
    }
}
