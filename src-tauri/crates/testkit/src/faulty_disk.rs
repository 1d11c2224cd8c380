//! A disk that fails at the N-th change and at every later one, like a full or removed disk. A simulated power cut
//! undoes unsynced writes completely or partly, and restores files that were removed from unsynced folders.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;

use cairn_disk::{BlockReader, Disk, DiskError, Mode, PartialFile, RealDisk, Step, TempFile};

/// Real disk with a limited number of successful changes.
#[derive(Debug, Clone)]
pub struct FaultyDisk {
    steps_left: Arc<AtomicUsize>,
    unsynced_writes: Arc<Mutex<Vec<UnsyncedWrite>>>,
    folder_changes: Arc<Mutex<Vec<FolderChange>>>,
}

/// Previous bytes of a range with an unsynced write.
#[derive(Debug)]
struct UnsyncedWrite {
    path: PathBuf,
    offset_bytes: u64,
    before: Vec<u8>,
}

/// Unsynced change of a folder.
#[derive(Debug)]
enum FolderChange {
    /// A file was published without syncing its name or its bytes.
    Published(PathBuf),
    /// A file with these bytes was removed.
    Removed(PathBuf, Vec<u8>),
}

/// Converts a file's bytes to those after a power cut; `None` if the file is lost.
type Damage = fn(Vec<u8>) -> Option<Vec<u8>>;

/// What a simulated power cut may do to an unsynced file. Damaged files get these in turn.
const DAMAGES: &[Damage] = &[
    |_| None,
    |_| Some(Vec::new()),
    |mut bytes| {
        bytes.truncate(bytes.len() / 2);
        Some(bytes)
    },
    |mut bytes| {
        // The length is correct, but some blocks are zero.
        let middle = bytes.len() / 8192 * 4096;
        bytes.iter_mut().skip(middle).take(4096).for_each(|byte| *byte = 0);
        Some(bytes)
    },
    |mut bytes| {
        bytes.iter_mut().skip(4096).for_each(|byte| *byte = 0);
        Some(bytes)
    },
    Some,
];

impl FaultyDisk {
    /// Creates a disk that fails after `steps` successful changes.
    pub fn fail_after(steps: usize) -> Self {
        Self {
            steps_left: Arc::new(AtomicUsize::new(steps)),
            unsynced_writes: Arc::default(),
            folder_changes: Arc::default(),
        }
    }

    /// Returns the number of remaining successful changes.
    pub fn steps_left(&self) -> usize {
        self.steps_left.load(Ordering::Relaxed)
    }

    /// Makes all further changes succeed.
    pub fn stop_failing(&self) {
        self.steps_left.store(usize::MAX, Ordering::SeqCst);
    }

    /// Simulates a power cut: sets the remaining changes to 0, undoes unsynced writes to partials, damages files that
    /// were published unsynced, and restores files that were removed from unsynced folders. All writers must have
    /// ended.
    pub fn cut_power(&self) {
        self.steps_left.store(0, Ordering::SeqCst);
        let writes = std::mem::take(&mut *self.unsynced_writes.lock());
        for lost in writes.into_iter().rev().filter(|lost| lost.path.exists()) {
            let partial = RealDisk.open_partial(&lost.path, Mode::Shared).expect("the file exists");
            partial.write_at(lost.offset_bytes, &lost.before).expect("the file is writable");
        }
        let changes = std::mem::take(&mut *self.folder_changes.lock());
        for (turn, change) in changes.into_iter().rev().enumerate() {
            match change {
                FolderChange::Published(path) => {
                    let Ok(bytes) = std::fs::read(&path) else { continue };
                    let written = match DAMAGES[turn % DAMAGES.len()](bytes) {
                        Some(damaged) => std::fs::write(&path, damaged),
                        None => std::fs::remove_file(&path),
                    };
                    written.expect("the file is writable");
                }
                FolderChange::Removed(path, bytes) => std::fs::write(&path, bytes).expect("the folder is writable"),
            }
        }
    }

    fn record(&self, change: FolderChange) {
        self.folder_changes.lock().push(change);
    }

    fn step(&self, step: Step, path: &Path) -> Result<(), DiskError> {
        let taken = self.steps_left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |steps| steps.checked_sub(1));
        let failed = |_| DiskError { step, path: PathBuf::from(path), source: io::ErrorKind::StorageFull.into() };
        taken.map(drop).map_err(failed)
    }
}

impl Disk for FaultyDisk {
    fn read(&self, path: &Path) -> Result<Vec<u8>, DiskError> {
        RealDisk.read(path)
    }

    fn write_atomic(&self, path: &Path, bytes: &[u8], mode: Mode) -> Result<(), DiskError> {
        self.step(Step::Write, path)?;
        RealDisk.write_atomic(path, bytes, mode)
    }

    fn create_dir_all(&self, path: &Path) -> Result<(), DiskError> {
        self.step(Step::CreateFolder, path)?;
        RealDisk.create_dir_all(path)
    }

    fn free_bytes(&self, path: &Path) -> Result<u64, DiskError> {
        RealDisk.free_bytes(path)
    }

    fn create_temp_file(&self, folder: &Path, mode: Mode) -> Result<Box<dyn TempFile>, DiskError> {
        self.step(Step::CreateTemporary, folder)?;
        Ok(Box::new(FaultyTempFile { draft: RealDisk.create_temp_file(folder, mode)?, disk: self.clone() }))
    }

    fn remove_stale_temp_files(&self, folder: &Path) -> Result<usize, DiskError> {
        RealDisk.remove_stale_temp_files(folder)
    }

    fn link(&self, from: &Path, to: &Path) -> Result<(), DiskError> {
        self.step(Step::Link, to)?;
        RealDisk.link(from, to)
    }

    fn open_partial(&self, path: &Path, mode: Mode) -> Result<Box<dyn PartialFile>, DiskError> {
        self.step(Step::CreateTemporary, path)?;
        let partial = RealDisk.open_partial(path, mode)?;
        Ok(Box::new(FaultyPartialFile { partial, path: path.to_owned(), disk: self.clone() }))
    }

    fn rename(&self, from: &Path, to: &Path) -> Result<(), DiskError> {
        self.step(Step::Rename, to)?;
        RealDisk.rename(from, to)
    }

    fn remove(&self, path: &Path) -> Result<(), DiskError> {
        self.step(Step::Remove, path)?;
        let bytes = RealDisk.read(path)?;
        RealDisk.remove(path)?;
        self.record(FolderChange::Removed(path.to_owned(), bytes));
        Ok(())
    }

    fn open_blocks(&self, path: &Path) -> Result<Box<dyn BlockReader>, DiskError> {
        RealDisk.open_blocks(path)
    }

    fn sync_folder(&self, path: &Path) -> Result<(), DiskError> {
        self.step(Step::Sync, path)?;
        let mut changes = self.folder_changes.lock();
        changes.retain(|change| !matches!(change, FolderChange::Removed(removed, _) if removed.parent() == Some(path)));
        drop(changes);
        RealDisk.sync_folder(path)
    }

    fn touch(&self, path: &Path) -> Result<(), DiskError> {
        self.step(Step::Touch, path)?;
        RealDisk.touch(path)
    }
}

struct FaultyTempFile {
    draft: Box<dyn TempFile>,
    disk: FaultyDisk,
}

impl TempFile for FaultyTempFile {
    fn path(&self) -> &Path {
        self.draft.path()
    }

    fn write(&mut self, bytes: &[u8]) -> Result<(), DiskError> {
        self.disk.step(Step::Write, self.draft.path())?;
        self.draft.write(bytes)
    }

    fn bypass_page_cache(&mut self) {
        self.draft.bypass_page_cache();
    }

    fn reflink(&mut self, from: &File) -> Result<(), DiskError> {
        self.draft.reflink(from)
    }

    fn persist(self: Box<Self>, to: &Path) -> Result<(), DiskError> {
        self.disk.step(Step::Rename, to)?;
        self.draft.persist(to)
    }

    fn persist_unsynced(self: Box<Self>, to: &Path) -> Result<(), DiskError> {
        self.disk.step(Step::Rename, to)?;
        self.draft.persist_unsynced(to)?;
        self.disk.record(FolderChange::Published(to.to_owned()));
        Ok(())
    }
}

struct FaultyPartialFile {
    partial: Box<dyn PartialFile>,
    path: PathBuf,
    disk: FaultyDisk,
}

impl PartialFile for FaultyPartialFile {
    fn write_at(&self, offset_bytes: u64, bytes: &[u8]) -> Result<(), DiskError> {
        let failed = self.disk.step(Step::Write, &self.path);
        // As on a real disk, a failed write may be half done.
        let len = if failed.is_err() { bytes.len() / 2 } else { bytes.len() };
        let mut before = vec![0; len];
        self.partial.read_at(offset_bytes, &mut before)?;
        let lost = UnsyncedWrite { path: self.path.clone(), offset_bytes, before };
        self.disk.unsynced_writes.lock().push(lost);
        self.partial.write_at(offset_bytes, bytes.get(..len).unwrap_or_default()).and(failed)
    }

    fn read_at(&self, offset_bytes: u64, into: &mut [u8]) -> Result<usize, DiskError> {
        self.partial.read_at(offset_bytes, into)
    }

    fn len_bytes(&self) -> Result<u64, DiskError> {
        self.partial.len_bytes()
    }

    fn truncate(&self, len_bytes: u64) -> Result<(), DiskError> {
        self.disk.step(Step::Write, &self.path)?;
        self.partial.truncate(len_bytes)
    }

    fn sync(&self) -> Result<(), DiskError> {
        self.disk.step(Step::Sync, &self.path)?;
        // Writes during this sync stay unsynced until the next one.
        let mut writes = self.disk.unsynced_writes.lock();
        writes.retain(|lost| lost.path != self.path);
        drop(writes);
        self.partial.sync()
    }
}
