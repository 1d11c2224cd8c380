//! Rules for folders and packages.

use super::Tree;
use crate::toolchain;

/// Visible files and folders at the root of the repository. Names that begin with a dot are not restricted.
const TOP_LEVEL: &[&str] = &["Cargo.lock", "Cargo.toml", "LICENSE", "README.md", "icons", "src-tauri", "tests", "ui"];

/// Packages with another name than `cairn-` and their folder.
const NAMES: &[(&str, &str)] = &[("src-tauri", "cairn-desktop"), ("tests", "it")];

/// The root has no other visible files and folders than [`TOP_LEVEL`].
pub(super) fn top_level(tree: &Tree) -> Vec<String> {
    let mut unexpected: Vec<&str> = Vec::new();
    for file in &tree.files {
        let first = file.path.split('/').next().unwrap_or_default();
        if !first.starts_with('.') && !TOP_LEVEL.contains(&first) && !unexpected.contains(&first) {
            unexpected.push(first);
        }
    }
    unexpected.iter().map(|name| format!("{name}: only {} may be visible at the root", TOP_LEVEL.join(", "))).collect()
}

/// A package has the name of its folder and inherits the workspace's lints.
pub(super) fn crates(tree: &Tree) -> Vec<String> {
    let mut breaches = Vec::new();
    for file in tree.with_ending(&["/Cargo.toml"]) {
        let folder = file.path.trim_end_matches("/Cargo.toml");
        let usual = || format!("cairn-{}", folder.rsplit('/').next().unwrap_or_default());
        let name = NAMES.iter().find(|(at, _)| *at == folder).map_or_else(usual, |(_, name)| (*name).to_owned());
        if value(&file.text, "[package]", "name") != Some(&format!("\"{name}\"")) {
            breaches.push(format!("{}: the package here is named {name}", file.path));
        }
        if value(&file.text, "[lints]", "workspace") != Some("true") {
            breaches.push(format!("{}: it needs `[lints]` with `workspace = true`", file.path));
        }
    }
    breaches
}

/// Workflows install the toolchain that `rust-version` pins.
pub(super) fn toolchain(tree: &Tree) -> Vec<String> {
    let pinned = tree.get("Cargo.toml").and_then(|file| toolchain::pinned(&file.text)).unwrap_or_default();
    let mut breaches = Vec::new();
    for file in tree.with_ending(&[".yml"]) {
        for (number, line) in file.lines() {
            let installed = line.split("toolchain install ").nth(1).and_then(|rest| rest.split(' ').next());
            if let Some(other) = installed.filter(|version| *version != pinned) {
                breaches.push(format!("{}:{number}: Rust {other}, but rust-version is {pinned:?}", file.path));
            }
        }
    }
    breaches
}

/// The unparsed value of a key in a table of a manifest.
fn value<'a>(manifest: &'a str, table: &str, key: &str) -> Option<&'a str> {
    let lines = manifest.lines().map(str::trim).skip_while(|line| *line != table).skip(1);
    lines.take_while(|line| !line.starts_with('[')).find_map(|line| {
        let (found, value) = line.split_once('=')?;
        (found.trim() == key).then(|| value.trim())
    })
}

#[cfg(test)]
mod tests {
    use super::super::check;
    use super::*;

    #[test]
    fn unexpected_root_entries_are_breaches() {
        check(top_level, &[("README.md", ""), (".ci/run", ""), ("tests/it/main.rs", ""), ("ui/app.ts", "")], &[]);
        check(top_level, &[("docs/a.md", ""), ("docs/b.md", ""), ("notes.txt", "")], &["docs:", "notes.txt:"]);
    }

    #[test]
    fn workflows_need_the_pinned_toolchain() {
        let files = |version: &str| {
            let manifest = "[workspace.package]\nrust-version = \"1.95\"\n".to_owned();
            [
                ("Cargo.toml", manifest),
                (".github/ci.yml", format!("- run: rustup toolchain install {version} --quiet\n")),
            ]
        };
        let check = |version: &str, expected: &[&str]| {
            let files = files(version);
            check(toolchain, &files.each_ref().map(|(path, text)| (*path, text.as_str())), expected);
        };
        check("1.95", &[]);
        check("1.96", &[".github/ci.yml:1: Rust 1.96"]);
    }

    #[test]
    fn package_needs_name_and_lints() {
        let good = "[package]\nname = \"cairn-gguf\"\n\n[lints]\nworkspace = true\n";
        let path = "src-tauri/crates/gguf/Cargo.toml";
        check(crates, &[(path, good)], &[]);
        check(crates, &[("tests/Cargo.toml", &good.replace("cairn-gguf", "it"))], &[]);
        check(crates, &[(path, &good.replace("cairn-gguf", "gguf"))], &["named cairn-gguf"]);
        check(crates, &[(path, &good.replace("[lints]", "[features]"))], &["`[lints]`"]);
        check(crates, &[("Cargo.toml", "[workspace]\n")], &[]);
    }
}
