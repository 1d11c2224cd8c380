//! Embeds the built interface, `ui/dist`, as a table of paths and bytes for `src/ui.rs`.
//!
//! Where it was not built, a debug build embeds one line that says so, and a release build fails: what is shipped has a
//! face. `CAIRN_WITHOUT_UI=1` lets a release build without it pass, for measures of the engine.

use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};

const DIST: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../ui/dist");
const WITHOUT: &str = "CAIRN_WITHOUT_UI";
const NOT_BUILT: &str = "<!doctype html><title>Cairn</title><p>This build of Cairn has no interface: run \
                         <code>npm run build</code> in <code>ui/</code>, and build it again.</p>\n";

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed={DIST}");
    println!("cargo::rerun-if-env-changed={WITHOUT}");
    let dist = Path::new(DIST);
    let mut files = Vec::new();
    list(dist, &mut files);
    files.sort();
    let built = files.iter().any(|file| file.ends_with("index.html"));
    let out = PathBuf::from(variable("OUT_DIR").expect("cargo names a folder for what is made"));
    let mut table = String::from("&[\n");
    if built {
        for file in &files {
            println!("cargo::rerun-if-changed={}", file.display());
            let path = file.strip_prefix(dist).expect("it was found there").to_string_lossy().replace('\\', "/");
            let file = fs::canonicalize(file).expect("it was found there");
            writeln!(table, "    ({path:?}, include_bytes!({file:?}).as_slice()),").expect("a String grows");
        }
    } else {
        let release = variable("PROFILE").is_some_and(|profile| profile == "release");
        let without = variable(WITHOUT).is_some_and(|set| set != "0" && !set.is_empty());
        assert!(
            !release || without,
            "ui/dist has no index.html: run `npm ci` and `npm run build` in ui/, or set {WITHOUT}=1"
        );
        writeln!(table, "    (\"index.html\", {NOT_BUILT:?}.as_bytes()),").expect("a String grows");
    }
    table.push_str("]\n");
    fs::write(out.join("ui.rs"), table).expect("cargo's folder is writable");
}

/// All files below a folder; none where there is no such folder.
fn list(folder: &Path, files: &mut Vec<PathBuf>) {
    let Ok(entries) = fs::read_dir(folder) else { return };
    println!("cargo::rerun-if-changed={}", folder.display());
    for entry in entries.flatten() {
        let path = entry.path();
        if path.is_dir() {
            list(&path, files);
        } else {
            files.push(path);
        }
    }
}

#[expect(clippy::disallowed_methods, reason = "this is how cargo talks to build scripts")]
fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok()
}
