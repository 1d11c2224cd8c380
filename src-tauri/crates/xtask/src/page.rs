//! The page: what Node.js builds from `ui/` into `ui/dist`, which the daemon serves and the window shows.
//!
//! Nothing is done where the page is newer than all that it is made of.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::SystemTime;

use anyhow::Context;

use crate::{Repo, process, python};

/// Folders below `ui/` that hold no sources.
const NO_SOURCES: &[&str] = &["node_modules", "dist", "e2e"];

/// Succeeds where Node.js is new enough for the page's tools.
const NODE_FITS: &[&str] = &[
    "node",
    "-e",
    "const [major, minor] = process.versions.node.split('.'); process.exit(major > 20 || (major == 20 && minor >= 19) ? 0 : 1)",
];

/// Builds it, where it is not there or older than its sources.
///
/// # Errors
/// What the page's tools say, or why there are none.
pub(crate) fn build(repo: &Repo) -> anyhow::Result<()> {
    let folder = repo.root().join("ui");
    let built = changed(&folder.join("dist/index.html"));
    if built.is_some() && built >= newest(&folder)? {
        return Ok(());
    }
    script(repo, "build").and_then(|mut build| process::run(&mut build))
}

/// Checks the types of the page, templates included.
///
/// # Errors
/// What is wrong.
pub(crate) fn types(repo: &Repo) -> anyhow::Result<()> {
    process::run(&mut script(repo, "check")?)
}

/// Runs the page's tests that need no browser.
///
/// # Errors
/// What failed.
pub(crate) fn units(repo: &Repo) -> anyhow::Result<()> {
    process::run(&mut script(repo, "test")?)
}

/// Runs the page's journeys in a real browser against a real daemon, which is this program.
///
/// # Errors
/// What went wrong.
pub(crate) fn journeys(repo: &Repo, cairn: &Path) -> anyhow::Result<()> {
    process::run(script(repo, "e2e")?.env("CAIRN_BIN", cairn))
}

/// One of the scripts in `package.json`, once its packages are there.
fn script(repo: &Repo, name: &str) -> anyhow::Result<Command> {
    let folder = repo.root().join("ui");
    let installed = changed(&folder.join("node_modules/.package-lock.json"));
    if installed.is_none() || installed < changed(&folder.join("package-lock.json")) {
        // Nothing of a package runs while it is installed.
        let words = ["ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"];
        process::run(npm(repo)?.args(words).current_dir(&folder))?;
    }
    let mut script = npm(repo)?;
    script.args(["run", "--silent", name]).current_dir(&folder);
    Ok(script)
}

/// The program `npm`, with its Node.js: this machine's own, where that is new enough.
///
/// # Errors
/// There is none, and none can be brought.
pub(crate) fn npm(repo: &Repo) -> anyhow::Result<Command> {
    if process::succeeds(NODE_FITS) && process::succeeds(&["npm", "--version"]) {
        return Ok(Command::new("npm"));
    }
    python::NODE.python(repo)?;
    let programs = python::NODE.folder(repo)?.join("bin");
    let mut npm = Command::new(programs.join("npm"));
    // What npm starts looks for `node` by its name.
    #[expect(clippy::disallowed_methods, reason = "programs are found by it")]
    let path = std::env::var_os("PATH").unwrap_or_default();
    let paths = std::iter::once(programs).chain(std::env::split_paths(&path));
    npm.env("PATH", std::env::join_paths(paths).context("the path of programs has a name that cannot be in it")?);
    Ok(npm)
}

/// When the last of the sources below a folder changed.
fn newest(folder: &Path) -> anyhow::Result<Option<SystemTime>> {
    let mut newest = None;
    let mut open: Vec<PathBuf> = vec![folder.to_owned()];
    while let Some(folder) = open.pop() {
        let entries = std::fs::read_dir(&folder).with_context(|| format!("could not read {}", folder.display()))?;
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

fn changed(path: &Path) -> Option<SystemTime> {
    path.metadata().and_then(|metadata| metadata.modified()).ok()
}

#[cfg(test)]
mod tests {
    use std::fs::{self, File};
    use std::time::Duration;

    use super::*;

    #[test]
    fn the_newest_source_counts_and_nothing_that_was_made() {
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
        assert_eq!(found.unwrap(), Some(deep), "folders are looked through, but not what npm has put there");
    }
}
