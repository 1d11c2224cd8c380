//! A disk that fails at the N-th step that changes something, and at every one after it, as one that is full or was pulled.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use cairn_disk::{Disk, DiskError, Draft, Mode, Partial, RealDisk, Step};

/// A real disk until its steps are used up.
#[derive(Debug, Clone)]
pub struct FaultyDisk {
    left: Arc<AtomicUsize>,
}

impl FaultyDisk {
    /// A disk on which `steps` steps succeed.
    pub fn after(steps: usize) -> Self {
        Self { left: Arc::new(AtomicUsize::new(steps)) }
    }

    /// Steps that are left.
    pub fn left(&self) -> usize {
        self.left.load(Ordering::Relaxed)
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
        // As on a real disk, what fails may have been done by half.
        if let Err(error) = self.disk.step(Step::Write, &self.path) {
            let half = bytes.get(..bytes.len() / 2).unwrap_or_default();
            return self.partial.write_at(offset_bytes, half).and(Err(error));
        }
        self.partial.write_at(offset_bytes, bytes)
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
        self.partial.sync()
    }
}
