//! Storage of whole files by name, as the remote tier needs it. Calls block and may never return.

use std::ops::Range;
use std::time::Duration;

use crate::tier::TierError;

/// A file in a listing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileEntry {
    /// Size of the file.
    pub bytes: u64,
    /// Value that changes when the file is replaced, such as its modification time.
    pub stamp: u64,
}

/// A store of whole files. Names are relative paths with slashes. `within` is how long the caller waits;
/// implementations end the call by then if they can.
pub trait FileStore: Send + Sync + 'static {
    /// Number of concurrent calls: at most 4, including the store's own threads.
    fn threads(&self) -> usize;

    /// Passes every file under [`crate::format::VERSION_FOLDER`] to `each`, until it returns `false`.
    ///
    /// # Errors
    /// If the listing is incomplete.
    fn list(&self, each: &mut dyn FnMut(&str, FileEntry) -> bool, within: Duration) -> Result<(), TierError>;

    /// Reads a range of a file. The result is shorter if the file ends within it, and `None` if there is no such file.
    /// Calls `heard` as soon as the server responds, before the bytes arrive.
    ///
    /// # Errors
    /// If the read fails.
    fn read(
        &self,
        name: &str,
        part: Range<u64>,
        within: Duration,
        heard: &dyn Fn(),
    ) -> Result<Option<Vec<u8>>, TierError>;

    /// Creates a file atomically and returns `true`, or returns `false` if the name exists. `draft` is a unique name
    /// for a temporary file.
    ///
    /// # Errors
    /// If the file may be missing.
    fn create(&self, name: &str, file: Vec<u8>, draft: &str, within: Duration) -> Result<bool, TierError>;

    /// As [`FileStore::create`], but replaces an existing file.
    ///
    /// # Errors
    /// If the old file may still be there.
    fn replace(&self, name: &str, file: Vec<u8>, draft: &str, within: Duration) -> Result<(), TierError>;

    /// Removes a file; succeeds if there is no such file.
    ///
    /// # Errors
    /// If the file may still be there.
    fn remove(&self, name: &str, within: Duration) -> Result<(), TierError>;
}
