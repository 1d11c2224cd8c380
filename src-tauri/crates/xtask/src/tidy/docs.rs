//! Rules for documents: the paths and verbs that they name exist.

use super::{File, Tree};

/// Paths that only a build creates.
const BUILT: &[&str] = &["ui/dist"];

/// Folder with a file for each verb, whose table row starts with the verb's name.
const VERBS: &str = "src-tauri/crates/xtask/src/verbs/";

/// Paths in documents exist, in backticks and as targets of links.
///
/// Text in backticks counts as a path if its first part exists at the root of the repository or beside the document.
/// `{a,b}` and `*` are expanded.
pub(super) fn paths_exist(tree: &Tree) -> Vec<String> {
    let mut breaches = Vec::new();
    for file in tree.with_ending(&[".md"]) {
        let folder = file.path.rsplit_once('/').map_or("", |(folder, _)| folder);
        let mut fenced = false;
        for (number, line) in file.lines() {
            fenced ^= line.trim_start().starts_with("```");
            if fenced {
                continue;
            }
            let spans = code_spans(line).filter(|span| looks_like_a_path(tree, file, span));
            let links = link_targets(line).filter(|target| !target.contains(':') && !target.starts_with('#'));
            for path in spans.chain(links) {
                let missing = braces(path).into_iter().find(|path| !exists(tree, folder, path));
                breaches.extend(missing.map(|path| format!("{}:{number}: no such path: {path}", file.path)));
            }
        }
    }
    breaches
}

/// The verb in each `cargo xtask VERB` of a document exists.
pub(super) fn verbs_exist(tree: &Tree) -> Vec<String> {
    let verbs: Vec<&File> = tree.rust().filter(|file| file.path.starts_with(VERBS)).collect();
    let is_defined = |verb: &str| verbs.iter().any(|file| file.text.contains(&format!("name: \"{verb}\"")));
    let mut breaches = Vec::new();
    for file in tree.with_ending(&[".md"]) {
        for (number, line) in file.lines() {
            for rest in line.split("cargo xtask ").skip(1) {
                let verb = rest.split(|c: char| !c.is_ascii_lowercase() && c != '-').next().unwrap_or_default();
                if !verb.is_empty() && !is_defined(verb) {
                    breaches.push(format!("{}:{number}: unknown verb {verb:?}", file.path));
                }
            }
        }
    }
    breaches
}

fn code_spans(line: &str) -> impl Iterator<Item = &str> {
    line.split('`').skip(1).step_by(2)
}

fn link_targets(line: &str) -> impl Iterator<Item = &str> {
    line.split("](").skip(1).filter_map(|rest| rest.split_once(')')).map(|(target, _)| target)
}

fn looks_like_a_path(tree: &Tree, document: &File, span: &str) -> bool {
    let plain = span.chars().all(|c| c.is_ascii_alphanumeric() || "_-./{},*".contains(c));
    let Some((first, _)) = span.split_once('/') else { return false };
    let beside = document.path.rsplit_once('/').map(|(folder, _)| format!("{folder}/{first}"));
    let is_top_level =
        matches!(first, "src-tauri" | "ui" | "icons" | "tests" | ".cargo" | ".ci" | ".config" | ".github");
    plain && (is_top_level || matches!(first, "." | "..") || beside.is_some_and(|path| tree.has(&path)))
}

/// Expands the first `{a,b}` of a path.
fn braces(path: &str) -> Vec<String> {
    let parts = path.split_once('{').and_then(|(before, rest)| Some((before, rest.split_once('}')?)));
    match parts {
        Some((before, (choices, after))) => {
            choices.split(',').map(|choice| format!("{before}{choice}{after}")).collect()
        }
        None => vec![path.to_owned()],
    }
}

fn exists(tree: &Tree, folder: &str, path: &str) -> bool {
    let path = path.split('#').next().unwrap_or_default().trim_end_matches('/');
    let from_here = resolve(folder, path);
    [Some(path.to_owned()), from_here].into_iter().flatten().any(|path| match path.split_once('*') {
        // Some file must match the pattern.
        Some((before, after)) => {
            tree.files.iter().any(|file| file.path.strip_prefix(before).is_some_and(|rest| rest.contains(after)))
        }
        None => BUILT.contains(&path.as_str()) || tree.has(&path) || path.is_empty(),
    })
}

/// Path from the root of the repository of a path relative to a folder. `None` if it is outside of the repository.
fn resolve(folder: &str, path: &str) -> Option<String> {
    let mut parts: Vec<&str> = folder.split('/').filter(|part| !part.is_empty()).collect();
    for part in path.split('/') {
        match part {
            "." | "" => {}
            ".." => drop(parts.pop()?),
            part => parts.push(part),
        }
    }
    Some(parts.join("/"))
}

#[cfg(test)]
mod tests {
    use super::super::check;
    use super::*;

    fn document(text: &str, expected: &[&str]) {
        let files = [
            ("src-tauri/GUIDE.md", text),
            ("src-tauri/crates/gguf/src/lib.rs", ""),
            ("src-tauri/crates/gguf/src/dtype.rs", ""),
            ("README.md", ""),
        ];
        check(paths_exist, &files, expected);
    }

    #[test]
    fn existing_paths_are_accepted_in_code_spans_and_links() {
        document("See `src-tauri/crates/gguf/src/lib.rs`, `src-tauri/crates/`, `crates/gguf/src/{lib,dtype}.rs`.", &[]);
        document("See [the guide](GUIDE.md), [the start](../README.md#top), [others](https://example.org/a/b).", &[]);
        document("`src-tauri/crates/*/src/lib.rs` and `ui/dist`", &[]);
    }

    #[test]
    fn missing_paths_are_breaches() {
        document(
            "one\n`src-tauri/crates/tensor/src/lib.rs`",
            &["GUIDE.md:2: no such path: src-tauri/crates/tensor/src/lib.rs"],
        );
        document("`crates/gguf/src/{lib,reader}.rs`", &["crates/gguf/src/reader.rs"]);
        document("[out](../../elsewhere.md) and [gone](GONE.md)", &["elsewhere.md", "GONE.md"]);
        document("`src-tauri/crates/*/src/main.rs`", &["main.rs"]);
    }

    #[test]
    fn documented_verbs_must_exist() {
        let line = |text| {
            [
                ("README.md", text),
                ("src-tauri/crates/xtask/src/verbs/run.rs", "name: \"run\""),
                ("src-tauri/crates/xtask/src/verbs/check_os.rs", "name: \"check-os\""),
            ]
        };
        check(
            verbs_exist,
            &line("`cargo xtask run -- --prompt`, `cargo xtask check-os`; `cargo xtask` lists them"),
            &[],
        );
        check(verbs_exist, &line("```\ncargo xtask dance\n```"), &["README.md:2: unknown verb \"dance\""]);
    }

    #[test]
    fn words_with_slashes_are_not_paths() {
        document("`/api/chat`, `MIT/Apache-2.0`, `host/namespace/name:tag`, `cargo test -p a/b`, either/or", &[]);
        document("```\nsrc-tauri/crates/none/lib.rs `src-tauri/none`\n```", &[]);
    }
}
