//! A disk that fails at the N-th step that changes something, and at every one after it, as one that is full or was pulled.
//! When its power is cut, what was not synced is as if it had never been written.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use cairn_disk::{Disk, DiskError, Draft, Mode, Partial, RealDisk, Step};

/// A real disk until its steps are used up.
#[derive(Debug, Clone)]
pub struct FaultyDisk {
    left: Arc<AtomicUsize>,
    unsynced: Arc<Mutex<Vec<Unsynced>>>,
}

/// What was at a place before it was written to, until that is on the disk.
#[derive(Debug)]
struct Unsynced {
    path: PathBuf,
    offset_bytes: u64,
    before: Vec<u8>,
}

impl FaultyDisk {
    /// A disk on which `steps` steps succeed.
    pub fn after(steps: usize) -> Self {
        Self { left: Arc::new(AtomicUsize::new(steps)), unsynced: Arc::default() }
    }

    /// Steps that are left.
    pub fn left(&self) -> usize {
        self.left.load(Ordering::Relaxed)
    }

    /// From now on every step succeeds.
    pub fn mend(&self) {
        self.left.store(usize::MAX, Ordering::SeqCst);
    }

    /// Uses up the steps, and undoes whatever was written to partials and not synced. Their writers must have ended.
    pub fn cut_power(&self) {
        self.left.store(0, Ordering::SeqCst);
        let unsynced = std::mem::take(&mut *self.unsynced.lock().unwrap_or_else(PoisonError::into_inner));
        for lost in unsynced.into_iter().rev().filter(|lost| lost.path.exists()) {
            let partial = RealDisk.partial(&lost.path, Mode::Shared).expect("it is there");
            partial.write_at(lost.offset_bytes, &lost.before).expect("it was written to before");
        }
    }

    fn step(&self, step: Step, path: &Path) -> Result<(), DiskError> {
        let taken = self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1));
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

    fn draft(&self, folder: &Path, mode: Mode) -> Result<Box<dyn Draft>, DiskError> {
        self.step(Step::CreateTemporary, folder)?;
        Ok(Box::new(FaultyDraft { draft: RealDisk.draft(folder, mode)?, disk: self.clone() }))
    }

    fn remove_dead_drafts(&self, folder: &Path) -> Result<usize, DiskError> {
        RealDisk.remove_dead_drafts(folder)
    }

    fn link(&self, from: &Path, to: &Path) -> Result<(), DiskError> {
        self.step(Step::Link, to)?;
        RealDisk.link(from, to)
    }

    fn partial(&self, path: &Path, mode: Mode) -> Result<Box<dyn Partial>, DiskError> {
        self.step(Step::CreateTemporary, path)?;
        let partial = RealDisk.partial(path, mode)?;
        Ok(Box::new(FaultyPartial { partial, path: path.to_owned(), disk: self.clone() }))
    }

    fn rename(&self, from: &Path, to: &Path) -> Result<(), DiskError> {
        self.step(Step::Rename, to)?;
        RealDisk.rename(from, to)
    }

    fn remove(&self, path: &Path) -> Result<(), DiskError> {
        self.step(Step::Remove, path)?;
        RealDisk.remove(path)
    }

    fn touch(&self, path: &Path) -> Result<(), DiskError> {
        self.step(Step::Touch, path)?;
        RealDisk.touch(path)
    }
}

struct FaultyDraft {
    draft: Box<dyn Draft>,
    disk: FaultyDisk,
}

impl Draft for FaultyDraft {
    fn path(&self) -> &Path {
        self.draft.path()
    }

    fn write(&mut self, bytes: &[u8]) -> Result<(), DiskError> {
        self.disk.step(Step::Write, self.draft.path())?;
        self.draft.write(bytes)
    }

    fn reflink(&mut self, from: &File) -> Result<(), DiskError> {
        self.draft.reflink(from)
    }

    fn keep(self: Box<Self>, to: &Path) -> Result<(), DiskError> {
        self.disk.step(Step::Rename, to)?;
        self.draft.keep(to)
    }
}

struct FaultyPartial {
    partial: Box<dyn Partial>,
    path: PathBuf,
    disk: FaultyDisk,
}

impl Partial for FaultyPartial {
    fn write_at(&self, offset_bytes: u64, bytes: &[u8]) -> Result<(), DiskError> {
        let failed = self.disk.step(Step::Write, &self.path);
        // As on a real disk, what fails may have been done by half.
        let len = if failed.is_err() { bytes.len() / 2 } else { bytes.len() };
        let mut before = vec![0; len];
        self.partial.read_at(offset_bytes, &mut before)?;
        let lost = Unsynced { path: self.path.clone(), offset_bytes, before };
        self.disk.unsynced.lock().unwrap_or_else(PoisonError::into_inner).push(lost);
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
        // What is written while this one is brought to the disk waits for the next.
        let mut unsynced = self.disk.unsynced.lock().unwrap_or_else(PoisonError::into_inner);
        unsynced.retain(|lost| lost.path != self.path);
        drop(unsynced);
        self.partial.sync()
    }
}
