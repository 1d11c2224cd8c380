//! What computed state leaves in a folder.

use std::path::{Path, PathBuf};

/// All files of chunks in a folder and in those below it, in order.
pub fn chunk_files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
            let path = entry.path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|suffix| suffix == "kvc") {
                found.push(path);
            }
        }
    }
    found.sort();
    found
}
