//! A real disk that calls a hook before each operation, and reports a configurable amount of free space.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use cairn_disk::{BlockReader, Disk, DiskError, Mode, PartialFile, RealDisk, TempFile};

/// Operation on a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DiskOperation<'a> {
    /// Writes these bytes to a file atomically.
    Write(&'a [u8]),
    /// Creates a folder.
    CreateFolder,
    /// Removes a file.
    Remove,
    /// Opens a file for reading in blocks.
    Open,
}

/// Function called before an operation. It may block.
type Hook = dyn Fn(DiskOperation<'_>, &Path) + Send + Sync;

/// Real disk with a hook.
#[derive(Clone)]
pub struct HookedDisk {
    hook: Arc<Hook>,
    free_bytes: Option<Arc<AtomicU64>>,
}

impl HookedDisk {
    /// Creates a disk that calls `hook` before each operation.
    pub fn new(hook: impl Fn(DiskOperation<'_>, &Path) + Send + Sync + 'static) -> Self {
        Self { hook: Arc::new(hook), free_bytes: None }
    }

    /// Creates a disk that always reports `free_bytes`.
    pub fn with_free_bytes(free_bytes: u64) -> Self {
        Self { hook: Arc::new(|_, _| {}), free_bytes: Some(Arc::new(free_bytes.into())) }
    }

    /// Sets the reported free bytes.
    ///
    /// # Panics
    /// When the disk was not created with [`HookedDisk::with_free_bytes`].
    pub fn set_free_bytes(&self, free_bytes: u64) {
        self.free_bytes
            .as_ref()
            .expect("the disk was created with with_free_bytes")
            .store(free_bytes, Ordering::SeqCst);
    }
}

impl Disk for HookedDisk {
    fn read(&self, path: &Path) -> Result<Vec<u8>, DiskError> {
        RealDisk.read(path)
    }

    fn write_atomic(&self, path: &Path, bytes: &[u8], mode: Mode) -> Result<(), DiskError> {
        (self.hook)(DiskOperation::Write(bytes), path);
        RealDisk.write_atomic(path, bytes, mode)
    }

    fn create_dir_all(&self, path: &Path) -> Result<(), DiskError> {
        (self.hook)(DiskOperation::CreateFolder, path);
        RealDisk.create_dir_all(path)
    }

    fn free_bytes(&self, path: &Path) -> Result<u64, DiskError> {
        match &self.free_bytes {
            Some(free_bytes) => Ok(free_bytes.load(Ordering::SeqCst)),
            None => RealDisk.free_bytes(path),
        }
    }

    fn create_temp_file(&self, folder: &Path, mode: Mode) -> Result<Box<dyn TempFile>, DiskError> {
        RealDisk.create_temp_file(folder, mode)
    }

    fn remove_stale_temp_files(&self, folder: &Path) -> Result<usize, DiskError> {
        RealDisk.remove_stale_temp_files(folder)
    }

    fn link(&self, from: &Path, to: &Path) -> Result<(), DiskError> {
        RealDisk.link(from, to)
    }

    fn open_partial(&self, path: &Path, mode: Mode) -> Result<Box<dyn PartialFile>, DiskError> {
        RealDisk.open_partial(path, mode)
    }

    fn rename(&self, from: &Path, to: &Path) -> Result<(), DiskError> {
        RealDisk.rename(from, to)
    }

    fn remove(&self, path: &Path) -> Result<(), DiskError> {
        (self.hook)(DiskOperation::Remove, path);
        RealDisk.remove(path)
    }

    fn open_blocks(&self, path: &Path) -> Result<Box<dyn BlockReader>, DiskError> {
        (self.hook)(DiskOperation::Open, path);
        RealDisk.open_blocks(path)
    }

    fn sync_folder(&self, path: &Path) -> Result<(), DiskError> {
        RealDisk.sync_folder(path)
    }

    fn touch(&self, path: &Path) -> Result<(), DiskError> {
        RealDisk.touch(path)
    }
}
