//! Tells the window what it shows and what a page in it may ask for.
//!
//! The page is `ui/dist`. A checkout where that was not built still compiles, for tests and other tools: it gets a page of one
//! line that says so. A release never does.

use std::path::{Path, PathBuf};

/// What a page may ask for, besides what `capabilities/` names of plugins.
const COMMANDS: &[&str] = &[
    "server",
    "open_external",
    "pick_folder",
    "pick_files",
    "save_text",
    "open_logs",
    "window_choices",
    "set_window_choices",
    "set_language",
    "update",
];

const NOT_BUILT: &str = "<!doctype html><title>Cairn</title><p id=\"app\">The interface was not built into this program: \
                         run cargo xtask run</p>";

fn main() {
    println!("cargo::rerun-if-changed=../ui/dist/index.html");
    if !Path::new("../ui/dist/index.html").exists() {
        let profile = variable("PROFILE");
        assert!(profile != "release", "ui/dist is missing: build with `cargo xtask run` or `cargo xtask bundle`");
        let page = PathBuf::from(variable("OUT_DIR")).join("page");
        std::fs::create_dir_all(&page).expect("cargo's folder for this build can be written");
        std::fs::write(page.join("index.html"), NOT_BUILT).expect("cargo's folder for this build can be written");
        let path = page.to_str().expect("cargo builds in a folder whose name is text");
        // The macro that takes the page in reads this beside the configuration file.
        println!("cargo::rustc-env=TAURI_CONFIG={{\"build\":{{\"frontendDist\":{path:?}}}}}");
    }
    let manifest = tauri_build::AppManifest::new().commands(COMMANDS);
    tauri_build::try_build(tauri_build::Attributes::new().app_manifest(manifest))
        .expect("the configuration, the capabilities and the icons fit together");
}

#[expect(clippy::disallowed_methods, reason = "cargo tells a build script everything by the environment")]
fn variable(name: &str) -> String {
    std::env::var(name).unwrap_or_else(|_| panic!("cargo sets {name}"))
}
