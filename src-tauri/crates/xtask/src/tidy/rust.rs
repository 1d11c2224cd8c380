//! Rules for source files.

use super::{File, Tree};

/// A file with this many lines must be split.
const MAX_LINES: usize = 1000;

/// Files that may be longer, with the reason.
const LONG_FILES: &[(&str, &str)] = &[("ui/src/api/types.ts", "generated")];

/// Crates that use `unsafe`. All others forbid it.
const UNSAFE_CRATES: &[&str] = &["gpu", "hardware", "kernels", "kv", "models", "tensor", "testkit"];

/// Files have fewer than [`MAX_LINES`] lines. 150 to 400 are normal.
pub(super) fn length(tree: &Tree) -> Vec<String> {
    let code = tree.with_ending(&[".rs", ".ts", ".svelte", ".py", ".sh"]);
    let long = code.filter(|file| file.text.lines().count() >= MAX_LINES);
    long.filter(|file| LONG_FILES.iter().all(|(path, _)| *path != file.path))
        .map(|file| format!("{}: {} lines; split it by noun before {MAX_LINES}", file.path, file.text.lines().count()))
        .collect()
}

/// A Rust file begins with a module comment.
pub(super) fn opening(tree: &Tree) -> Vec<String> {
    let undocumented = tree.rust().filter(|file| !file.text.starts_with("//!"));
    undocumented.map(|file| format!("{}:1: begin the file with a `//!` comment on its purpose", file.path)).collect()
}

/// A module with children is `foo.rs` beside `foo/`.
pub(super) fn no_mod_rs(tree: &Tree) -> Vec<String> {
    let named = tree.with_ending(&["/mod.rs"]);
    named
        .map(|file| format!("{}: rename it to the name of its folder with `.rs`, beside the folder", file.path))
        .collect()
}

/// All crates but [`UNSAFE_CRATES`] forbid `unsafe`.
pub(super) fn unsafe_is_forbidden(tree: &Tree) -> Vec<String> {
    let missing = tree.rust().filter(|file| {
        let Some((name, root)) = file.path.strip_prefix("src-tauri/crates/").and_then(|path| path.split_once('/'))
        else {
            return false;
        };
        let is_root = matches!(root, "src/lib.rs" | "src/main.rs");
        is_root && !UNSAFE_CRATES.contains(&name) && !file.text.contains("#![forbid(unsafe_code)]")
    });
    missing.map(|file| format!("{}: add `#![forbid(unsafe_code)]`", file.path)).collect()
}

/// No test is ignored, and no lint is disabled without a reason.
pub(super) fn attributes(tree: &Tree) -> Vec<String> {
    let mut breaches = Vec::new();
    for file in tree.rust() {
        for (line, attribute) in attributes_of(file) {
            let place = format!("{}:{line}", file.path);
            if attribute.starts_with("ignore") {
                breaches.push(format!("{place}: ignored test; give it a small scale for CI instead"));
            }
            let disables_lint = attribute.starts_with("allow(") || attribute.starts_with("expect(");
            if disables_lint && !attribute.contains("reason =") {
                breaches.push(format!("{place}: a disabled lint needs a `reason`"));
            }
        }
    }
    breaches
}

/// Attributes at the start of a line, without `#[` and `]`, with the number of that line.
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

/// No file has a marker for unfinished work.
pub(super) fn nothing_left_open(tree: &Tree) -> Vec<String> {
    // Concatenated so that this file does not contain them.
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
    fn files_of_1000_lines_are_breaches() {
        check(length, &[("a.rs", &"x\n".repeat(999)), ("Cargo.lock", &"x\n".repeat(5000))], &[]);
        check(length, &[("a.rs", &"x\n".repeat(1000))], &["a.rs: 1000 lines"]);
    }

    #[test]
    fn module_comment_and_mod_rs_are_checked() {
        check(opening, &[("a.rs", "//! Purpose.\n")], &[]);
        check(opening, &[("a.rs", "use std::fs;\n"), ("b.py", "import os\n")], &["a.rs:1"]);
        check(no_mod_rs, &[("src/kv.rs", ""), ("src/kv/mod.rs", "")], &["src/kv/mod.rs"]);
    }

    #[test]
    fn safe_crates_must_forbid_unsafe() {
        let forbids = "//! A.\n#![forbid(unsafe_code)]\n";
        check(unsafe_is_forbidden, &[("src-tauri/crates/gguf/src/lib.rs", forbids)], &[]);
        check(unsafe_is_forbidden, &[("src-tauri/crates/kernels/src/lib.rs", ""), ("tests/it/main.rs", "")], &[]);
        check(unsafe_is_forbidden, &[("src-tauri/crates/gguf/src/lib.rs", "//! A.\n")], &["gguf/src/lib.rs"]);
    }

    #[test]
    fn disabled_lints_need_reason() {
        let allow = |rest: &str| format!("#[allow({rest}\nfn f() {{}}\n");
        check(attributes, &[("a.rs", &allow("dead_code, reason = \"a test\")]"))], &[]);
        check(attributes, &[("a.rs", &allow("dead_code)]"))], &["a.rs:1: a disabled lint"]);
        check(attributes, &[("a.rs", &allow("\n    dead_code,\n    reason = \"a test\",\n)]"))], &[]);
        check(attributes, &[("a.rs", &format!("\n    #![{}(unused)]\n", "expect"))], &["a.rs:2"]);
        check(attributes, &[("a.rs", "#[test]\n#[ignore]\nfn f() {}\n")], &["a.rs:2: ignored test"]);
        check(attributes, &[("a.rs", "let text = \"#[allow(x)]\";\n")], &[]);
    }

    #[test]
    fn todo_and_unimplemented_are_reported() {
        check(nothing_left_open, &[("a.rs", "fn f() {}\n"), ("a.md", concat!("TO", "DO"))], &[]);
        check(nothing_left_open, &[("a.rs", concat!("\n// TO", "DO later\n"))], &["a.rs:2"]);
        check(nothing_left_open, &[("a.rs", concat!("fn f() { unimplemented", "!() }\n"))], &["a.rs:1"]);
    }
}
