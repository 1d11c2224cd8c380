//! The rules of the house that no compiler knows (`src-tauri/ARCHITECTURE.md`, "Rules").
//!
//! A rule is a function from the [`Tree`] to the lines it complains with, and a row in [`RULES`]. Trees can be made up,
//! so each rule is seen to fail in a test.

mod docs;
mod layout;
mod rust;

use std::process::Command;

use anyhow::Context;

use crate::{Repo, licence, process};

/// A rule that looks at the files alone.
type Rule = fn(&Tree) -> Vec<String>;

const RULES: &[Rule] = &[
    layout::top_level,
    layout::crates,
    rust::length,
    rust::opening,
    rust::no_mod_rs,
    rust::unsafe_is_forbidden,
    rust::attributes,
    rust::nothing_left_open,
    docs::paths_exist,
    docs::verbs_exist,
];

/// Every breach of every rule, a line each: `path:line: what is wrong`.
///
/// # Errors
/// The files or their dependencies cannot be listed.
pub fn breaches(repo: &Repo) -> anyhow::Result<Vec<String>> {
    let tree = Tree::read(repo)?;
    let mut breaches: Vec<String> = RULES.iter().flat_map(|rule| rule(&tree)).collect();
    breaches.extend(licence::breaches(repo)?);
    Ok(breaches)
}

/// The files of a checkout: those that git knows, and new ones that it does not ignore.
#[derive(Debug, Default)]
struct Tree {
    files: Vec<File>,
}

#[derive(Debug)]
struct File {
    /// From the top of the repository, with `/`.
    path: String,
    /// Its text; empty for what is not text.
    text: String,
}

impl Tree {
    fn read(repo: &Repo) -> anyhow::Result<Self> {
        let listed = process::output(
            Command::new("git")
                .args(["ls-files", "-z", "--cached", "--others", "--exclude-standard", "--deduplicate"])
                .current_dir(repo.root()),
        )?;
        let mut files = Vec::new();
        for path in listed.split_terminator('\0') {
            let full = repo.root().join(path);
            // A file that was deleted is listed until the deletion is committed; a link is looked at where it leads.
            if !full.symlink_metadata().is_ok_and(|meta| meta.is_file()) {
                continue;
            }
            let bytes = std::fs::read(&full).with_context(|| format!("could not read {path}"))?;
            files.push(File { path: path.to_owned(), text: String::from_utf8(bytes).unwrap_or_default() });
        }
        Ok(Self { files })
    }

    /// Files with one of these endings.
    fn with_ending(&self, endings: &'static [&'static str]) -> impl Iterator<Item = &File> {
        self.files.iter().filter(move |file| endings.iter().any(|ending| file.path.ends_with(ending)))
    }

    fn rust(&self) -> impl Iterator<Item = &File> {
        self.with_ending(&[".rs"])
    }

    /// Whether there is such a file, or a folder with files.
    fn has(&self, path: &str) -> bool {
        let folder = format!("{path}/");
        self.files.iter().any(|file| file.path == path || file.path.starts_with(&folder))
    }
}

impl File {
    /// Lines with their numbers, from 1.
    fn lines(&self) -> impl Iterator<Item = (usize, &str)> {
        self.text.lines().enumerate().map(|(at, line)| (at + 1, line))
    }
}

/// Holds a rule against a made-up tree: each of `expected` stands in one complaint, and there are no others.
#[cfg(test)]
fn check(rule: Rule, files: &[(&str, &str)], expected: &[&str]) {
    let files = files.iter().map(|(path, text)| File { path: (*path).into(), text: (*text).into() }).collect();
    let said = rule(&Tree { files });
    assert_eq!(said.len(), expected.len(), "complaints: {said:?}, expected: {expected:?}");
    for (said, expected) in said.iter().zip(expected) {
        assert!(said.contains(expected), "{expected:?} is not in {said:?}");
    }
}
