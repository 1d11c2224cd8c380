//! Whether there is room for what is being fetched, and for the reserve that stays free.

use std::collections::HashMap;
use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use cairn_disk::Disk;
use cairn_store::{Digest, StagingError};

use super::error::DownloadError;

/// The room of one file system, which all downloads share.
pub(crate) struct Room {
    disk: Arc<dyn Disk>,
    folder: PathBuf,
    reserve_bytes: u64,
    /// What each download that runs has still to fetch.
    promised: Mutex<HashMap<Digest, u64>>,
}

impl Room {
    pub(crate) fn new(disk: Arc<dyn Disk>, folder: PathBuf, reserve_bytes: u64) -> Self {
        Self { disk, folder, reserve_bytes, promised: Mutex::default() }
    }

    /// Sets room aside for what is left of a download, if there is any beside that of the others.
    pub(super) fn set_aside(&self, digest: Digest, left_bytes: u64) -> Result<(), DownloadError> {
        self.left(digest, left_bytes);
        let need_bytes = self.need_bytes();
        let free_bytes = self.disk.free_bytes(&self.folder).map_err(StagingError::from)?;
        if left_bytes > 0 && free_bytes < need_bytes {
            self.give_back(&digest);
            return Err(self.no_space(need_bytes, free_bytes));
        }
        Ok(())
    }

    /// Notes what is left of a download.
    pub(super) fn left(&self, digest: Digest, left_bytes: u64) {
        self.promised.lock().unwrap_or_else(PoisonError::into_inner).insert(digest, left_bytes);
    }

    /// A download has ended.
    pub(super) fn give_back(&self, digest: &Digest) {
        self.promised.lock().unwrap_or_else(PoisonError::into_inner).remove(digest);
    }

    /// Whether the reserve is still free. Others fill the disk too.
    pub(super) fn check(&self) -> Result<(), DownloadError> {
        let free_bytes = self.disk.free_bytes(&self.folder).map_err(StagingError::from)?;
        match free_bytes < self.reserve_bytes {
            true => Err(self.no_space(self.need_bytes(), free_bytes)),
            false => Ok(()),
        }
    }

    /// Says of an error that it is about room, where it is.
    pub(super) fn explain(&self, error: DownloadError) -> DownloadError {
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
        let promised = self.promised.lock().unwrap_or_else(PoisonError::into_inner);
        promised.values().fold(self.reserve_bytes, |sum, left| sum.saturating_add(*left))
    }

    fn no_space(&self, need_bytes: u64, free_bytes: u64) -> DownloadError {
        let reserve_bytes = self.reserve_bytes;
        DownloadError::NoSpace { need_bytes, reserve_bytes, free_bytes, folder: self.folder.clone() }
    }
}
