//! Checks that each area of `app` imports only earlier areas.
//!
//! Cargo separates crates ([`crate::layers`]) but not modules of one crate, so this test reads their imports.

use std::path::Path;

use cairn_xtask::Repo;

/// The areas, in their order.
const AREAS: &[&str] = &[
    "settings",
    "library",
    "speed",
    "transfers",
    "remotes",
    "tools",
    "cache",
    "inference",
    "documents",
    "collections",
    "chats",
    "system",
];

/// Files beside the areas that every area may use.
const BASE: &[&str] = &["clock", "panics", "private_file", "short_name", "upkeep", "values", "version"];

/// Returns a line for each import in `text`, a file of `area`, of a later area or of a module that composes areas.
fn breaches(area: &str, text: &str) -> Vec<String> {
    let own = AREAS.iter().position(|name| *name == area);
    let code = text.split("#[cfg(test)]").next().unwrap_or_default();
    let uses = code.lines().filter(|line| !line.trim_start().starts_with("//")).flat_map(|line| {
        line.match_indices("crate::").map(|(at, path)| {
            let rest = &line[at + path.len()..];
            rest.split(|c: char| !c.is_alphanumeric() && c != '_').next().unwrap_or_default()
        })
    });
    let allowed = |name: &str| {
        BASE.contains(&name) || AREAS.iter().position(|area| *area == name).is_some_and(|at| Some(at) <= own)
    };
    uses.filter(|name| !name.is_empty() && !allowed(name)).map(|name| format!("{area} must not use {name}")).collect()
}

fn visit(folder: &Path, each: &mut dyn FnMut(&Path)) {
    let entries = std::fs::read_dir(folder).expect("the folder exists");
    for path in entries.map(|entry| entry.expect("the entry can be read").path()) {
        match path.is_dir() {
            true => visit(&path, each),
            false => each(&path),
        }
    }
}

#[test]
fn app_modules_import_only_earlier_areas() {
    let source = Repo::here().root().join("src-tauri/crates/app/src");
    let mut found = Vec::new();
    for area in AREAS {
        let mut files = 0;
        visit(&source.join(area), &mut |path| {
            files += 1;
            let is_code = path.extension() == Some("rs".as_ref()) && path.file_name() != Some("tests.rs".as_ref());
            if is_code {
                let text = std::fs::read_to_string(path).expect("the file can be read");
                found.extend(breaches(area, &text).into_iter().map(|line| format!("{}: {line}", path.display())));
            }
        });
        assert!(files > 0, "the area {area} has no files");
    }
    assert!(found.is_empty(), "{}", found.join("\n"));
}

#[test]
fn imports_of_later_areas_are_found() {
    assert!(breaches("library", "use crate::settings::Env;\nuse crate::clock::Clock;").is_empty(), "earlier areas");
    assert_eq!(breaches("library", "use crate::chats::ids;"), ["library must not use chats"], "a later area");
    assert_eq!(breaches("cache", "let x = crate::app::App::start();"), ["cache must not use app"], "the composition");
    assert!(breaches("cache", "// crate::chats\n#[cfg(test)]\nuse crate::App;").is_empty(), "comments and tests");
}
