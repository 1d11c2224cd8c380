//! The routes of the daemon: paths from the router's source, methods from the `Allow` header of the daemon.
//!
//! A new route or method therefore appears here, and the test fails until it has a valid request.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use super::exchange::{Bytes, Outcome, Request};

/// A method that no route has.
const UNKNOWN_METHOD: &str = "FUZZ";

/// Returns the paths of all `.route(...)` calls of the HTTP crate, with their placeholders.
pub(crate) fn paths() -> BTreeSet<String> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../src-tauri/crates/http/src");
    let mut paths = BTreeSet::new();
    for file in files(&source) {
        let text = fs::read_to_string(&file).expect("the source can be read");
        for call in text.split(".route(").skip(1) {
            let path = path(&text, call.trim_start());
            paths.insert(
                path.unwrap_or_else(|| panic!("{}: the path of a route is unclear: {call:.60}", file.display())),
            );
        }
    }
    assert!(paths.len() > 60, "the source has the routes: {paths:?}");
    paths
}

/// Returns the source files below a folder without those of tests.
fn files(folder: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).expect("the folder exists").flatten() {
        let (path, name) = (entry.path(), entry.file_name());
        if path.is_dir() && name != "tests" {
            files.extend(self::files(&path));
        } else if path.extension().is_some_and(|extension| extension == "rs") && name != "tests.rs" {
            files.push(path);
        }
    }
    files
}

/// Returns the first argument of a call: a literal, or a constant of the same file.
fn path(file: &str, call: &str) -> Option<String> {
    let literal = match call.strip_prefix('"') {
        Some(literal) => literal,
        None => {
            let name = call.split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_').next()?;
            let (_, value) = file.split_once(&format!("const {name}: &str = \""))?;
            value
        }
    };
    literal.split_once('"').map(|(path, _)| path.to_owned())
}

/// Returns the methods of a route without those that the router adds: `HEAD` beside `GET`.
pub(crate) fn methods(port: u16, bearer: &str, path: &str) -> BTreeSet<String> {
    let target = path.replace("{*path}", "x").replace(['{', '}'], "");
    let request = Request::new(port, UNKNOWN_METHOD, &target).with_header("Authorization", bearer);
    let outcome = request.send(port, super::LIMIT);
    let Outcome::Response(response) = outcome else { panic!("{path}: {outcome:?}") };
    assert_eq!(response.status, 405, "{path} has no method {UNKNOWN_METHOD}: {}", Bytes(&response.body));
    let allow = response.header("allow").unwrap_or_default();
    let methods: BTreeSet<String> = allow.split(',').map(|method| method.trim().to_owned()).collect();
    let has_get = methods.contains("GET");
    let is_added = |method: &String| method.is_empty() || (has_get && method == "HEAD");
    methods.into_iter().filter(|method| !is_added(method)).collect()
}
