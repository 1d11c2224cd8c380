//! Embeds the built interface, `ui/dist`, as a table of paths and bytes for `src/ui.rs`.
//!
//! Without a built interface it embeds a page that explains how to build it, so that Rust and a C compiler are enough
//! to build the daemon.

use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};

const SOURCE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../ui");
const DIST: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../ui/dist");
/// Page of a build without the interface. The window shows the same one.
const NOT_BUILT: &str = include_str!("../../not-built.html");

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let dist = Path::new(DIST);
    // cargo reruns this script in every build if a watched path is missing.
    if let Some(watched) = [DIST, SOURCE].into_iter().find(|folder| Path::new(folder).exists()) {
        println!("cargo::rerun-if-changed={watched}");
    }
    let mut files = Vec::new();
    list(dist, &mut files);
    files.sort();
    let built = files.iter().any(|file| file.ends_with("index.html"));
    let out = PathBuf::from(variable("OUT_DIR").expect("cargo sets OUT_DIR"));
    let mut table = String::from("&[\n");
    if built {
        for file in &files {
            let path = file.strip_prefix(dist).expect("a path below ui/dist").to_string_lossy().replace('\\', "/");
            let file = fs::canonicalize(file).expect("the file exists");
            writeln!(table, "    ({path:?}, include_bytes!({file:?}).as_slice()),")
                .expect("writing to a String cannot fail");
        }
    } else {
        if variable("PROFILE").is_some_and(|profile| profile == "release") {
            println!("cargo::warning=ui/dist has no index.html: no interface in this build");
        }
        writeln!(table, "    (\"index.html\", {NOT_BUILT:?}.as_bytes()),").expect("writing to a String cannot fail");
    }
    table.push_str("]\n");
    fs::write(out.join("ui.rs"), table).expect("OUT_DIR is writable");
}

/// Adds the paths of all files below a folder. Ignores a missing folder.
fn list(folder: &Path, files: &mut Vec<PathBuf>) {
    let Ok(entries) = fs::read_dir(folder) else { return };
    for entry in entries.flatten() {
        let path = entry.path();
        if path.is_dir() {
            list(&path, files);
        } else {
            files.push(path);
        }
    }
}

#[expect(clippy::disallowed_methods, reason = "cargo passes settings to build scripts in variables")]
fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok()
}
