//! Listing of the chunk files in a folder.

use std::path::{Path, PathBuf};

/// Returns all chunk files in a folder and its subfolders, sorted.
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
