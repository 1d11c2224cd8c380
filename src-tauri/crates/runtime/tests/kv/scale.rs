//! The scale of the proofs: small in continuous integration; full, optionally in slices, with `cargo xtask prove`.

use std::ops::Range;
use std::path::{Path, PathBuf};

/// The seeds of the runs: `usual` runs unless the environment sets others.
pub(crate) fn runs(usual: u64) -> Range<u64> {
    let from = number("CAIRN_PROVE_FROM").unwrap_or(0);
    from..from + number("CAIRN_PROVE_RUNS").unwrap_or(usual)
}

/// Whether the proof runs at full scale.
pub(crate) fn is_full() -> bool {
    number("CAIRN_PROVE_RUNS").is_some()
}

/// The folder of a child process that a test has started.
pub(crate) fn folder_of_child() -> Option<PathBuf> {
    variable(CHILD).map(PathBuf::from)
}

/// Variable with that folder.
pub(crate) const CHILD: &str = "CAIRN_KV_CHILD";
/// Variables with the number of the child process, and whether it shares the folder as a guest.
pub(crate) const LIFE: &str = "CAIRN_KV_LIFE";
pub(crate) const GUEST: &str = "CAIRN_KV_GUEST";

/// Makes the next process in a folder stop after one round.
pub(crate) fn mark_last(folder: &Path) {
    std::fs::write(folder.join("last"), "").expect("the folder is writable");
}

/// Whether a process in this folder stops after one round.
pub(crate) fn is_last(folder: &Path) -> bool {
    folder.join("last").exists()
}

pub(crate) fn number(name: &str) -> Option<u64> {
    variable(name).and_then(|text| text.parse().ok())
}

#[expect(clippy::disallowed_methods, reason = "the environment sets the scale of a proof")]
fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok()
}
