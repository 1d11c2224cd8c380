//! How large a proof is made: small in continuous integration, full and perhaps in slices by `cargo xtask prove`.

use std::ops::Range;
use std::path::{Path, PathBuf};

/// The runs to be made, by their seeds: this many unless somebody asks for others.
pub(crate) fn runs(usual: u64) -> Range<u64> {
    let from = number("CAIRN_PROVE_FROM").unwrap_or(0);
    from..from + number("CAIRN_PROVE_RUNS").unwrap_or(usual)
}

/// Whether the full scale was asked for.
pub(crate) fn is_full() -> bool {
    number("CAIRN_PROVE_RUNS").is_some()
}

/// The folder that a process works in that this one's own program has started.
pub(crate) fn folder_of_child() -> Option<PathBuf> {
    variable(CHILD).map(PathBuf::from)
}

/// Names that folder.
pub(crate) const CHILD: &str = "CAIRN_KV_CHILD";
/// The number of that process, and whether another has the folder before it.
pub(crate) const LIFE: &str = "CAIRN_KV_LIFE";
pub(crate) const GUEST: &str = "CAIRN_KV_GUEST";

/// Tells the next process in a folder to end by itself.
pub(crate) fn say_last(folder: &Path) {
    std::fs::write(folder.join("last"), "").expect("the folder is writable");
}

/// Whether a process in this folder is to end by itself.
pub(crate) fn is_last(folder: &Path) -> bool {
    folder.join("last").exists()
}

pub(crate) fn number(name: &str) -> Option<u64> {
    variable(name).and_then(|text| text.parse().ok())
}

#[expect(clippy::disallowed_methods, reason = "the scale of a proof is chosen by whoever runs it")]
fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok()
}
