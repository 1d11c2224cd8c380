//! Project rules that the compiler does not check (`src-tauri/ARCHITECTURE.md`, "Rules").
//!
//! A rule is a function from the [`Tree`] to error lines, and a row in [`RULES`]. Tests run each rule on trees in
//! memory.

pub(crate) mod cycles;
mod docs;
mod layout;
mod rust;
pub(crate) mod words;

use std::process::Command;

use anyhow::Context;

use crate::{Repo, licence, process};

/// A rule that needs only the files.
type Rule = fn(&Tree) -> Vec<String>;

const RULES: &[Rule] = &[
    layout::top_level,
    layout::crates,
    layout::toolchain,
    cycles::no_import_cycles,
    rust::length,
    rust::opening,
    rust::no_mod_rs,
    rust::unsafe_is_forbidden,
    rust::attributes,
    rust::nothing_left_open,
    docs::paths_exist,
    docs::verbs_exist,
    words::forbidden,
    words::type_names,
    words::test_names,
    words::counted,
];

/// Checks all rules. Returns one line for each breach: `path:line: error`.
///
/// # Errors
/// The files or the dependencies cannot be listed.
pub fn breaches(repo: &Repo) -> anyhow::Result<Vec<String>> {
    breaches_of(repo, &Tree::read(repo)?)
}

/// As [`breaches`], with files that were already read.
pub(crate) fn breaches_of(repo: &Repo, tree: &Tree) -> anyhow::Result<Vec<String>> {
    let mut breaches: Vec<String> = RULES.iter().flat_map(|rule| rule(tree)).collect();
    breaches.extend(licence::breaches(repo)?);
    Ok(breaches)
}

/// The files of a checkout: tracked files, and new files that git does not ignore.
#[derive(Debug, Default)]
pub(crate) struct Tree {
    files: Vec<File>,
}

#[derive(Debug)]
pub(crate) struct File {
    /// Path from the root of the repository, with `/`.
    pub(crate) path: String,
    /// Content, empty if it is not UTF-8.
    pub(crate) text: String,
}

impl Tree {
    /// Reads the files of a checkout.
    pub(crate) fn read(repo: &Repo) -> anyhow::Result<Self> {
        let listed = process::output(
            Command::new("git")
                .args(["ls-files", "-z", "--cached", "--others", "--exclude-standard", "--deduplicate"])
                .current_dir(repo.root()),
        )?;
        let mut files = Vec::new();
        for path in listed.split_terminator('\0') {
            let full = repo.root().join(path);
            // A deleted file is listed until the deletion is committed. The target of a link is listed itself.
            if !full.symlink_metadata().is_ok_and(|meta| meta.is_file()) {
                continue;
            }
            let bytes = std::fs::read(&full).with_context(|| format!("cannot read {path}"))?;
            files.push(File { path: path.to_owned(), text: String::from_utf8(bytes).unwrap_or_default() });
        }
        Ok(Self { files })
    }

    /// Files with one of these endings.
    pub(crate) fn with_ending(&self, endings: &'static [&'static str]) -> impl Iterator<Item = &File> {
        self.files.iter().filter(move |file| endings.iter().any(|ending| file.path.ends_with(ending)))
    }

    /// The file with this path.
    pub(crate) fn get(&self, path: &str) -> Option<&File> {
        self.files.iter().find(|file| file.path == path)
    }

    /// A tree that is only in memory.
    #[cfg(test)]
    pub(crate) fn made_up(files: &[(&str, &str)]) -> Self {
        let files = files.iter().map(|(path, text)| File { path: (*path).into(), text: (*text).into() }).collect();
        Self { files }
    }

    fn rust(&self) -> impl Iterator<Item = &File> {
        self.with_ending(&[".rs"])
    }

    /// Whether a file has this path, or a folder with files.
    fn has(&self, path: &str) -> bool {
        let folder = format!("{path}/");
        self.files.iter().any(|file| file.path == path || file.path.starts_with(&folder))
    }
}

impl File {
    /// Lines with their numbers, from 1.
    pub(crate) fn lines(&self) -> impl Iterator<Item = (usize, &str)> {
        self.text.lines().enumerate().map(|(at, line)| (at + 1, line))
    }
}

/// Runs a rule on a made-up tree and expects one breach for each of `expected`, which contains it.
#[cfg(test)]
fn check(rule: Rule, files: &[(&str, &str)], expected: &[&str]) {
    let breaches = rule(&Tree::made_up(files));
    assert_eq!(breaches.len(), expected.len(), "breaches: {breaches:?}, expected: {expected:?}");
    for (breach, expected) in breaches.iter().zip(expected) {
        assert!(breach.contains(expected), "{expected:?} is not in {breach:?}");
    }
}
