//! Free disk space for downloads, minus a reserve.

use std::collections::HashMap;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use cairn_disk::Disk;
use cairn_store::{Digest, StagingError};
use parking_lot::Mutex;

use super::error::DownloadError;

/// Free space of one file system, shared by all downloads.
pub(crate) struct DiskSpace {
    disk: Arc<dyn Disk>,
    folder: PathBuf,
    reserve_bytes: u64,
    /// Remaining bytes of each running download.
    reserved: Mutex<HashMap<Digest, u64>>,
}

impl DiskSpace {
    pub(crate) fn new(disk: Arc<dyn Disk>, folder: PathBuf, reserve_bytes: u64) -> Self {
        Self { disk, folder, reserve_bytes, reserved: Mutex::default() }
    }

    /// Reserves space for the remaining bytes of a download.
    pub(super) fn reserve(&self, digest: Digest, left_bytes: u64) -> Result<(), DownloadError> {
        self.set_remaining(digest, left_bytes);
        let need_bytes = self.need_bytes();
        let free_bytes = self.disk.free_bytes(&self.folder).map_err(StagingError::from)?;
        if left_bytes > 0 && free_bytes < need_bytes {
            self.release(&digest);
            return Err(self.no_space(need_bytes, free_bytes));
        }
        Ok(())
    }

    /// Updates the remaining bytes of a download.
    pub(super) fn set_remaining(&self, digest: Digest, left_bytes: u64) {
        self.reserved.lock().insert(digest, left_bytes);
    }

    /// Releases the space of a download.
    pub(super) fn release(&self, digest: &Digest) {
        self.reserved.lock().remove(digest);
    }

    /// Returns an error if the reserve is not free any more. Other processes use the disk, too.
    pub(super) fn check(&self) -> Result<(), DownloadError> {
        let free_bytes = self.disk.free_bytes(&self.folder).map_err(StagingError::from)?;
        match free_bytes < self.reserve_bytes {
            true => Err(self.no_space(self.need_bytes(), free_bytes)),
            false => Ok(()),
        }
    }

    /// Converts a "disk full" error to [`DownloadError::NoSpace`].
    pub(super) fn map_disk_error(&self, error: DownloadError) -> DownloadError {
        let full =
            |source: &io::Error| matches!(source.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded);
        match &error {
            DownloadError::Staging(staging) => match &**staging {
                StagingError::Disk(disk) if full(&disk.source) => {
                    let free_bytes = self.disk.free_bytes(&self.folder).unwrap_or(0);
                    self.no_space(self.need_bytes(), free_bytes)
                }
                _ => error,
            },
            _ => error,
        }
    }

    fn need_bytes(&self) -> u64 {
        let reserved = self.reserved.lock();
        reserved.values().fold(self.reserve_bytes, |sum, left| sum.saturating_add(*left))
    }

    fn no_space(&self, need_bytes: u64, free_bytes: u64) -> DownloadError {
        let reserve_bytes = self.reserve_bytes;
        DownloadError::NoSpace { need_bytes, reserve_bytes, free_bytes, folder: self.folder.clone() }
    }
}
