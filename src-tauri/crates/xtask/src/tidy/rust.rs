//! Rules for Rust files, and for code in general.

use super::{File, Tree};

/// Lines from which on a file must be split.
const MAX_LINES: usize = 1000;

/// Files that may be longer, each with the reason.
const LONG_FILES: &[(&str, &str)] = &[("ui/src/api/types.ts", "it is written from other files")];

/// Crates with a part that needs `unsafe`: all others forbid it.
const UNSAFE_CRATES: &[&str] = &["gpu", "hardware", "kernels", "kv", "models", "tensor", "testkit"];

/// Files aim at 150 to 400 lines, and end before a thousand.
pub(super) fn length(tree: &Tree) -> Vec<String> {
    let code = tree.with_ending(&[".rs", ".ts", ".svelte", ".py", ".sh"]);
    let long = code.filter(|file| file.text.lines().count() >= MAX_LINES);
    long.filter(|file| LONG_FILES.iter().all(|(path, _)| *path != file.path))
        .map(|file| format!("{}: {} lines; split it by noun before {MAX_LINES}", file.path, file.text.lines().count()))
        .collect()
}

/// A file begins like a chapter: what it is, and why.
pub(super) fn opening(tree: &Tree) -> Vec<String> {
    let silent = tree.rust().filter(|file| !file.text.starts_with("//!"));
    silent.map(|file| format!("{}:1: a file opens with `//!` that says what it is and why", file.path)).collect()
}

/// A module with parts is `foo.rs` beside `foo/`.
pub(super) fn no_mod_rs(tree: &Tree) -> Vec<String> {
    let named = tree.with_ending(&["/mod.rs"]);
    named.map(|file| format!("{}: name it after its folder, beside the folder", file.path)).collect()
}

/// Crates without need for `unsafe` cannot even ask for it.
pub(super) fn unsafe_is_forbidden(tree: &Tree) -> Vec<String> {
    let careless = tree.rust().filter(|file| {
        let Some((name, root)) = file.path.strip_prefix("src-tauri/crates/").and_then(|path| path.split_once('/'))
        else {
            return false;
        };
        let is_root = matches!(root, "src/lib.rs" | "src/main.rs");
        is_root && !UNSAFE_CRATES.contains(&name) && !file.text.contains("#![forbid(unsafe_code)]")
    });
    careless.map(|file| format!("{}: it needs `#![forbid(unsafe_code)]`", file.path)).collect()
}

/// No test is switched off, and no lint without a reason.
pub(super) fn attributes(tree: &Tree) -> Vec<String> {
    let mut breaches = Vec::new();
    for file in tree.rust() {
        for (line, attribute) in attributes_of(file) {
            let place = format!("{}:{line}", file.path);
            if attribute.starts_with("ignore") {
                breaches.push(format!("{place}: a test that is ignored tests nothing; give it two scales instead"));
            }
            let silences = attribute.starts_with("allow(") || attribute.starts_with("expect(");
            if silences && !attribute.contains("reason =") {
                breaches.push(format!("{place}: a silenced lint needs a `reason`"));
            }
        }
    }
    breaches
}

/// Attributes that begin a line, without `#[` and up to their closing bracket, with the number of that line.
fn attributes_of(file: &File) -> Vec<(usize, &str)> {
    let mut found = Vec::new();
    let mut at = 0;
    for (number, line) in file.text.split_inclusive('\n').enumerate() {
        let indent = line.len() - line.trim_start().len();
        let code = line.trim_start();
        if let Some(body) = code.strip_prefix("#[").or_else(|| code.strip_prefix("#![")) {
            let start = at + indent + (code.len() - body.len());
            let rest = &file.text[start..];
            let end = rest.find("]\n").unwrap_or(rest.len());
            found.push((number + 1, &rest[..end]));
        }
        at += line.len();
    }
    found
}

/// Work that is left open is finished, or is not begun.
pub(super) fn nothing_left_open(tree: &Tree) -> Vec<String> {
    // Put together here so that this file does not hold them.
    let marks = [concat!("TO", "DO"), concat!("FIX", "ME"), concat!("todo", "!("), concat!("unimplemented", "!(")];
    let mut breaches = Vec::new();
    for file in tree.with_ending(&[".rs", ".toml", ".ts", ".svelte", ".py", ".sh", ".yml"]) {
        for (number, line) in file.lines() {
            breaches.extend(
                marks.iter().filter(|mark| line.contains(**mark)).map(|mark| format!("{}:{number}: {mark}", file.path)),
            );
        }
    }
    breaches
}

#[cfg(test)]
mod tests {
    use super::super::check;
    use super::*;

    #[test]
    fn long_files() {
        check(length, &[("a.rs", &"x\n".repeat(999)), ("Cargo.lock", &"x\n".repeat(5000))], &[]);
        check(length, &[("a.rs", &"x\n".repeat(1000))], &["a.rs: 1000 lines"]);
    }

    #[test]
    fn openings_and_names() {
        check(opening, &[("a.rs", "//! What and why.\n")], &[]);
        check(opening, &[("a.rs", "use std::fs;\n"), ("b.py", "import os\n")], &["a.rs:1"]);
        check(no_mod_rs, &[("src/kv.rs", ""), ("src/kv/mod.rs", "")], &["src/kv/mod.rs"]);
    }

    #[test]
    fn who_may_be_unsafe() {
        let forbids = "//! A.\n#![forbid(unsafe_code)]\n";
        check(unsafe_is_forbidden, &[("src-tauri/crates/gguf/src/lib.rs", forbids)], &[]);
        check(unsafe_is_forbidden, &[("src-tauri/crates/kernels/src/lib.rs", ""), ("tests/it/main.rs", "")], &[]);
        check(unsafe_is_forbidden, &[("src-tauri/crates/gguf/src/lib.rs", "//! A.\n")], &["gguf/src/lib.rs"]);
    }

    #[test]
    fn silenced_lints_and_tests() {
        let allow = |rest: &str| format!("#[allow({rest}\nfn f() {{}}\n");
        check(attributes, &[("a.rs", &allow("dead_code, reason = \"a test\")]"))], &[]);
        check(attributes, &[("a.rs", &allow("dead_code)]"))], &["a.rs:1: a silenced lint"]);
        check(attributes, &[("a.rs", &allow("\n    dead_code,\n    reason = \"a test\",\n)]"))], &[]);
        check(attributes, &[("a.rs", &format!("\n    #![{}(unused)]\n", "expect"))], &["a.rs:2"]);
        check(attributes, &[("a.rs", "#[test]\n#[ignore]\nfn f() {}\n")], &["a.rs:2: a test that is ignored"]);
        check(attributes, &[("a.rs", "let text = \"#[allow(x)]\";\n")], &[]);
    }

    #[test]
    fn open_ends() {
        check(nothing_left_open, &[("a.rs", "fn f() {}\n"), ("a.md", concat!("TO", "DO"))], &[]);
        check(nothing_left_open, &[("a.rs", concat!("\n// TO", "DO later\n"))], &["a.rs:2"]);
        check(nothing_left_open, &[("a.rs", concat!("fn f() { unimplemented", "!() }\n"))], &["a.rs:1"]);
    }
}
