//! Prints `src-tauri/SETTINGS.md`, for `cargo xtask gen`.
#![forbid(unsafe_code)]

fn main() {
    print!("{}", cairn_app::settings::document());
}
