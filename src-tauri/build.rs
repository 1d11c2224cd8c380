//! Sets the page of the window and the commands that the page can call.
//!
//! The page is `ui/dist`. A checkout without a built page still compiles, with a page that explains how to build it.

use std::path::{Path, PathBuf};

/// Commands that the page can call, besides the plugin commands of `capabilities/`.
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

/// Page of a build without the interface. The daemon serves the same one.
const NOT_BUILT: &str = include_str!("not-built.html");

fn main() {
    println!("cargo::rerun-if-changed=../ui/dist/index.html");
    if !Path::new("../ui/dist/index.html").exists() {
        if variable("PROFILE") == "release" {
            println!("cargo::warning=ui/dist has no index.html: no interface in this build");
        }
        let page = PathBuf::from(variable("OUT_DIR")).join("page");
        std::fs::create_dir_all(&page).expect("cargo's folder for this build can be written");
        std::fs::write(page.join("index.html"), NOT_BUILT).expect("cargo's folder for this build can be written");
        let path = page.to_str().expect("cargo builds in a folder whose name is text");
        // The macro that embeds the page merges this variable with the configuration file.
        println!("cargo::rustc-env=TAURI_CONFIG={{\"build\":{{\"frontendDist\":{path:?}}}}}");
    }
    let manifest = tauri_build::AppManifest::new().commands(COMMANDS);
    tauri_build::try_build(tauri_build::Attributes::new().app_manifest(manifest))
        .expect("the configuration, the capabilities and the icons fit together");
}

#[expect(clippy::disallowed_methods, reason = "cargo passes parameters to build scripts in the environment")]
fn variable(name: &str) -> String {
    std::env::var(name).unwrap_or_else(|_| panic!("cargo sets {name}"))
}
