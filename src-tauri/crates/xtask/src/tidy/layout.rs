//! Where things are and what they are called.

use super::Tree;

/// All that is seen at the top of the repository; what begins with a dot comes on top of it.
const TOP_LEVEL: &[&str] = &["Cargo.lock", "Cargo.toml", "LICENSE", "README.md", "icons", "src-tauri", "tests", "ui"];

/// Packages whose name does not follow from their folder.
const NAMES: &[(&str, &str)] = &[("src-tauri", "cairn-desktop"), ("tests", "it")];

/// The visible top level is fixed.
pub(super) fn top_level(tree: &Tree) -> Vec<String> {
    let mut strangers: Vec<&str> = Vec::new();
    for file in &tree.files {
        let first = file.path.split('/').next().unwrap_or_default();
        if !first.starts_with('.') && !TOP_LEVEL.contains(&first) && !strangers.contains(&first) {
            strangers.push(first);
        }
    }
    strangers
        .iter()
        .map(|name| format!("{name}: the visible top level holds {} and nothing else", TOP_LEVEL.join(", ")))
        .collect()
}

/// A package is named after its folder and inherits the workspace's lints.
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

/// The value of a key in a table of a manifest, as it is written there.
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
    fn strangers_at_the_top() {
        check(top_level, &[("README.md", ""), (".ci/run", ""), ("tests/it/main.rs", ""), ("ui/app.ts", "")], &[]);
        check(top_level, &[("docs/a.md", ""), ("docs/b.md", ""), ("notes.txt", "")], &["docs:", "notes.txt:"]);
    }

    #[test]
    fn names_and_lints() {
        let good = "[package]\nname = \"cairn-gguf\"\n\n[lints]\nworkspace = true\n";
        let path = "src-tauri/crates/gguf/Cargo.toml";
        check(crates, &[(path, good)], &[]);
        check(crates, &[("tests/Cargo.toml", &good.replace("cairn-gguf", "it"))], &[]);
        check(crates, &[(path, &good.replace("cairn-gguf", "gguf"))], &["named cairn-gguf"]);
        check(crates, &[(path, &good.replace("[lints]", "[features]"))], &["`[lints]`"]);
        check(crates, &[("Cargo.toml", "[workspace]\n")], &[]);
    }
}
