//! Folders of files.

use std::fs::File;
use std::io;
use std::path::Path;

/// Returns the folder that contains `path`.
pub(crate) fn parent_of(path: &Path) -> &Path {
    match path.parent() {
        Some(folder) if folder != Path::new("") => folder,
        _ => Path::new("."),
    }
}

/// Makes a folder's entries durable. Windows has no such call: NTFS journals renames.
pub(crate) fn sync(folder: &Path) -> io::Result<()> {
    if cfg!(unix) { File::open(folder)?.sync_all() } else { Ok(()) }
}
