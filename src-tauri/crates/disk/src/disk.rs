//! The operations that stores need from a disk.

use std::path::Path;

use crate::block_reader::BlockReader;
use crate::error::DiskError;
use crate::mode::Mode;
use crate::partial_file::PartialFile;
use crate::temp_file::TempFile;

/// File operations that stores need. Every error names the failed [`Step`](crate::Step) and the path.
pub trait Disk: Send + Sync {
    /// Reads a whole file.
    ///
    /// # Errors
    /// Any I/O error; `source.kind()` is [`NotFound`](std::io::ErrorKind::NotFound) for a missing file.
    fn read(&self, path: &Path) -> Result<Vec<u8>, DiskError>;

    /// Creates or replaces a file that contains exactly `bytes` and has the access rights `mode` from its creation on.
    /// On return the bytes and the name are durable.
    ///
    /// # Errors
    /// Any I/O error. The old file is then unchanged, with one exception: if the last step fails (syncing the folder), the
    /// new file is in place, but a power cut may restore the old one.
    fn write_atomic(&self, path: &Path, bytes: &[u8], mode: Mode) -> Result<(), DiskError>;

    /// Creates a folder and its missing parents, accessible to this user only (0700). Existing folders are unchanged.
    /// The names of new folders are durable when this returns.
    ///
    /// # Errors
    /// Any I/O error.
    fn create_dir_all(&self, path: &Path) -> Result<(), DiskError>;

    /// Returns the space that this user can still allocate on the file system of `path`, which must exist.
    ///
    /// # Errors
    /// Any I/O error.
    fn free_bytes(&self, path: &Path) -> Result<u64, DiskError>;

    /// Creates a temporary file in `folder`, for contents whose final name is not determined yet.
    ///
    /// # Errors
    /// Any I/O error.
    fn create_temp_file(&self, folder: &Path, mode: Mode) -> Result<Box<dyn TempFile>, DiskError>;

    /// Removes the temporary files in `folder` whose processes have ended, and returns their number.
    ///
    /// # Errors
    /// Any I/O error about the folder. A file that cannot be removed is skipped.
    fn remove_stale_temp_files(&self, folder: &Path) -> Result<usize, DiskError>;

    /// Creates a durable hard link `to` for the file at `from`. `to` must not exist.
    ///
    /// # Errors
    /// Any I/O error; `source.kind()` is [`CrossesDevices`](std::io::ErrorKind::CrossesDevices) if the paths are on two file
    /// systems.
    fn link(&self, from: &Path, to: &Path) -> Result<(), DiskError>;

    /// Opens a file for writes in any order. A missing file is created empty, with a durable name.
    ///
    /// # Errors
    /// Any I/O error.
    fn open_partial(&self, path: &Path, mode: Mode) -> Result<Box<dyn PartialFile>, DiskError>;

    /// Renames `from` to `to`, replaces an existing file there, and syncs both folders.
    ///
    /// # Errors
    /// Any I/O error. Nothing has changed then, unless the last step (syncing the folders) failed.
    fn rename(&self, from: &Path, to: &Path) -> Result<(), DiskError>;

    /// Removes a file.
    ///
    /// # Errors
    /// Any I/O error.
    fn remove(&self, path: &Path) -> Result<(), DiskError>;

    /// Opens the file at `path` for block reads.
    ///
    /// # Errors
    /// Any I/O error; `source.kind()` is [`NotFound`](std::io::ErrorKind::NotFound) for a missing file.
    fn open_blocks(&self, path: &Path) -> Result<Box<dyn BlockReader>, DiskError>;

    /// Makes a folder's entries durable: files that were removed stay removed after a power cut.
    ///
    /// # Errors
    /// Any I/O error.
    fn sync_folder(&self, path: &Path) -> Result<(), DiskError>;

    /// Sets a file's times to now, on systems where programs delete blobs by age.
    ///
    /// # Errors
    /// Any I/O error.
    fn touch(&self, path: &Path) -> Result<(), DiskError>;
}
