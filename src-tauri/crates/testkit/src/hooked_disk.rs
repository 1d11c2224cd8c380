//! A real disk that tells a test of each change before it makes it, and has as much room as the test says.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use cairn_disk::{Blocks, Disk, DiskError, Draft, Mode, Partial, RealDisk};

/// What is about to be done to a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change<'a> {
    /// A file gets these bytes at once.
    Write(&'a [u8]),
    /// A folder is made.
    Folder,
    /// A file is removed.
    Remove,
    /// A file is opened to be read in blocks, which changes nothing.
    Open,
}

/// Told of a change, and free to take its time.
type Hook = dyn Fn(Change<'_>, &Path) + Send + Sync;

/// A real disk with a hook.
#[derive(Clone)]
pub struct HookedDisk {
    hook: Arc<Hook>,
    free_bytes: Option<Arc<AtomicU64>>,
}

impl HookedDisk {
    /// Calls `hook` before each change.
    pub fn new(hook: impl Fn(Change<'_>, &Path) + Send + Sync + 'static) -> Self {
        Self { hook: Arc::new(hook), free_bytes: None }
    }

    /// Says that it has so many bytes of room, whatever is written.
    pub fn small(free_bytes: u64) -> Self {
        Self { hook: Arc::new(|_, _| {}), free_bytes: Some(Arc::new(free_bytes.into())) }
    }

    /// From now on a small one says that it has so many bytes of room.
    ///
    /// # Panics
    /// Where it was not made by [`HookedDisk::small`].
    pub fn set_free(&self, free_bytes: u64) {
        self.free_bytes.as_ref().expect("only a small disk has a room to be set").store(free_bytes, Ordering::SeqCst);
    }
}

impl Disk for HookedDisk {
    fn read(&self, path: &Path) -> Result<Vec<u8>, DiskError> {
        RealDisk.read(path)
    }

    fn write_atomic(&self, path: &Path, bytes: &[u8], mode: Mode) -> Result<(), DiskError> {
        (self.hook)(Change::Write(bytes), path);
        RealDisk.write_atomic(path, bytes, mode)
    }

    fn create_dir_all(&self, path: &Path) -> Result<(), DiskError> {
        (self.hook)(Change::Folder, path);
        RealDisk.create_dir_all(path)
    }

    fn free_bytes(&self, path: &Path) -> Result<u64, DiskError> {
        match &self.free_bytes {
            Some(free_bytes) => Ok(free_bytes.load(Ordering::SeqCst)),
            None => RealDisk.free_bytes(path),
        }
    }

    fn draft(&self, folder: &Path, mode: Mode) -> Result<Box<dyn Draft>, DiskError> {
        RealDisk.draft(folder, mode)
    }

    fn remove_dead_drafts(&self, folder: &Path) -> Result<usize, DiskError> {
        RealDisk.remove_dead_drafts(folder)
    }

    fn link(&self, from: &Path, to: &Path) -> Result<(), DiskError> {
        RealDisk.link(from, to)
    }

    fn partial(&self, path: &Path, mode: Mode) -> Result<Box<dyn Partial>, DiskError> {
        RealDisk.partial(path, mode)
    }

    fn rename(&self, from: &Path, to: &Path) -> Result<(), DiskError> {
        RealDisk.rename(from, to)
    }

    fn remove(&self, path: &Path) -> Result<(), DiskError> {
        (self.hook)(Change::Remove, path);
        RealDisk.remove(path)
    }

    fn open_blocks(&self, path: &Path) -> Result<Box<dyn Blocks>, DiskError> {
        (self.hook)(Change::Open, path);
        RealDisk.open_blocks(path)
    }

    fn sync_folder(&self, path: &Path) -> Result<(), DiskError> {
        RealDisk.sync_folder(path)
    }

    fn touch(&self, path: &Path) -> Result<(), DiskError> {
        RealDisk.touch(path)
    }
}
