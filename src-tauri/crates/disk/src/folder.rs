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

/// Returns the folders on this path that do not exist, deepest first.
pub(crate) fn missing(path: &Path) -> Vec<&Path> {
    path.ancestors().take_while(|folder| *folder != Path::new("") && !folder.exists()).collect()
}

/// Makes a folder's entries durable. Windows has no such call: NTFS journals renames.
///
/// All syncs of this crate are [`File::sync_all`] or [`File::sync_data`]. On macOS both are `fcntl(F_FULLFSYNC)`, because `fsync`
/// leaves the data in the cache of the disk there.
pub(crate) fn sync(folder: &Path) -> io::Result<()> {
    if cfg!(unix) { File::open(folder)?.sync_all() } else { Ok(()) }
}
