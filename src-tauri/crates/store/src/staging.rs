//! Staging of blobs that no manifest references yet. They are in `.cairn` in the library, on its file system, so that publishing is
//! a rename. `.cairn` is not inside `blobs`, because a running Ollama removes unrecognised files from there.
//!
//! ```text
//! .cairn/partials/sha256-<hex>          a blob that is being downloaded, with holes
//! .cairn/partials/sha256-<hex>.journal  the ranges of it that are durable; see [`journal`]
//! .cairn/partials/sha256-<hex>.lock     held by the process that downloads it
//! .cairn/ready/sha256-<hex>             a complete, verified blob
//! .cairn/drafts/.draft.<...>.tmp        an imported file whose digest is being computed
//! ```
//!
//! **Invariants:** only one process writes a partial file. The contents of a file in `ready` match its name. The ranges of
//! [`StagedBlob::durable`] are on the disk, also after a power cut.

mod abandoned;
mod journal;
mod ranges;

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use cairn_disk::{Disk, DiskError, LockError, LockFile, Mode, PartialFile};

use crate::{Digest, Library};
use journal::Journal;
pub use ranges::Ranges;

/// Staging folder of a library.
#[derive(Clone)]
pub struct Staging {
    partials: PathBuf,
    ready: PathBuf,
    disk: Arc<dyn Disk>,
}

/// Blob that is being downloaded. Its lock excludes other processes while this value lives.
pub struct StagedBlob {
    digest: Digest,
    size_bytes: u64,
    path: PathBuf,
    journal_path: PathBuf,
    ready_path: PathBuf,
    partial: Arc<dyn PartialFile>,
    journal: Option<Journal>,
    durable: Ranges,
    disk: Arc<dyn Disk>,
    _lock: LockFile,
}

/// State of a staged blob.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StagedBlobInfo {
    /// Digest of the blob.
    pub digest: Digest,
    /// Size of the complete blob; `None` if no journal was written yet.
    pub size_bytes: Option<u64>,
    /// Number of durable bytes.
    pub durable_bytes: u64,
    /// Time of the last write.
    pub modified_at: SystemTime,
    /// The blob is complete and verified.
    pub ready: bool,
    /// A process has the lock.
    pub in_use: bool,
}

/// Error of a staging operation.
#[derive(Debug, thiserror::Error)]
pub enum StagingError {
    /// Another process, or another caller in this one, is downloading the same blob.
    #[error("another process is fetching {0}")]
    InUse(Digest),
    /// A newer version of Cairn wrote the journal.
    #[error("{} has version {version}, which only a newer Cairn can read", path.display())]
    Newer {
        /// The journal.
        path: PathBuf,
        /// Version of the journal.
        version: u32,
    },
    /// Disk error.
    #[error(transparent)]
    Disk(#[from] DiskError),
    /// The lock file cannot be created or locked.
    #[error(transparent)]
    Lock(LockError),
}

impl Staging {
    /// Opens the staging folder of a library and creates it if necessary. Journals without a partial file and lock files of dead
    /// processes are removed.
    ///
    /// # Errors
    /// If the library is not writable.
    pub fn open(library: &Library, disk: Arc<dyn Disk>) -> Result<Self, StagingError> {
        let root = library.root().join(".cairn");
        let staging = Self { partials: root.join("partials"), ready: root.join("ready"), disk };
        staging.disk.create_dir_all(&staging.partials)?;
        staging.disk.create_dir_all(&staging.ready)?;
        for name in names_in(&staging.partials) {
            staging.remove_temp_journal(&name);
            let stem = name.strip_suffix(".journal").or_else(|| name.strip_suffix(".lock"));
            let Some(digest) = stem.and_then(|stem| stem.parse().ok()) else { continue };
            // Releasing the lock removes a stale lock file.
            if let Ok(_lock) = staging.lock(&digest)
                && name.ends_with(".journal")
                && !staging.partial_path(&digest).exists()
            {
                staging.disk.remove(&staging.partials.join(&name))?;
            }
        }
        Ok(staging)
    }

    /// Returns the folder of incomplete blobs, for queries of its file system.
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.partials
    }

    /// Returns the path of a blob's partial file.
    #[must_use]
    pub fn partial_path(&self, digest: &Digest) -> PathBuf {
        self.partials.join(digest.file_name())
    }

    /// Returns the path of a complete, verified blob if it exists and has this size.
    #[must_use]
    pub fn ready(&self, digest: &Digest, size_bytes: u64) -> Option<PathBuf> {
        let path = self.ready.join(digest.file_name());
        fs::metadata(&path).is_ok_and(|metadata| metadata.is_file() && metadata.len() == size_bytes).then_some(path)
    }

    /// Returns the path that a blob gets when it is complete and verified.
    pub(crate) fn ready_path(&self, digest: &Digest) -> PathBuf {
        self.ready.join(digest.file_name())
    }

    /// Starts or resumes the download of a blob.
    ///
    /// # Errors
    /// [`StagingError::InUse`] while another process or another caller downloads it.
    pub fn claim(&self, digest: &Digest, size_bytes: u64) -> Result<StagedBlob, StagingError> {
        let lock = self.lock(digest)?;
        let path = self.partial_path(digest);
        let journal_path = self.journal_path(digest);
        let contents = journal::read(&*self.disk, &journal_path, digest)?;
        let partial: Arc<dyn PartialFile> = self.disk.open_partial(&path, Mode::Shared)?.into();
        let mut durable = contents.map(|contents| contents.durable).unwrap_or_default();
        // A manifest may have announced a wrong size before. The bytes are still valid, except beyond the end.
        durable.clip(size_bytes.min(partial.len_bytes()?));
        let journal = match durable.is_empty() {
            true => None,
            false => Some(Journal::create(&*self.disk, &journal_path, digest, size_bytes, &durable)?),
        };
        Ok(StagedBlob {
            digest: *digest,
            size_bytes,
            path,
            journal_path,
            ready_path: self.ready.join(digest.file_name()),
            partial,
            journal,
            durable,
            disk: Arc::clone(&self.disk),
            _lock: lock,
        })
    }

    /// Returns the number of durable bytes of a blob without the lock, so also while another process downloads it.
    #[must_use]
    pub fn durable_bytes(&self, digest: &Digest) -> u64 {
        let contents = journal::read(&*self.disk, &self.journal_path(digest), digest).ok().flatten();
        contents.map_or(0, |contents| contents.durable.total_bytes())
    }

    /// Returns all staged blobs, sorted by digest.
    ///
    /// # Errors
    /// If a journal cannot be read.
    pub fn list(&self) -> Result<Vec<StagedBlobInfo>, StagingError> {
        let mut list = Vec::new();
        for (folder, ready) in [(&self.partials, false), (&self.ready, true)] {
            for name in names_in(folder) {
                let Ok(digest) = name.parse::<Digest>() else { continue };
                let Ok(metadata) = fs::metadata(folder.join(&name)) else { continue };
                let modified_at = metadata.modified().unwrap_or(SystemTime::UNIX_EPOCH);
                let journal = match ready {
                    true => None,
                    false => journal::read(&*self.disk, &self.journal_path(&digest), &digest)?,
                };
                let size_bytes = match ready {
                    true => Some(metadata.len()),
                    false => journal.as_ref().map(|journal| journal.size_bytes),
                };
                let durable_bytes = match &journal {
                    Some(journal) => journal.durable.total_bytes(),
                    None if ready => metadata.len(),
                    None => 0,
                };
                let in_use = !ready && matches!(self.lock(&digest), Err(StagingError::InUse(_)));
                list.push(StagedBlobInfo { digest, size_bytes, durable_bytes, modified_at, ready, in_use });
            }
        }
        list.sort_by_key(|staged| staged.digest);
        Ok(list)
    }

    /// Removes the files of a blob and returns the disk space freed.
    ///
    /// # Errors
    /// [`StagingError::InUse`] while a process has the lock, or a disk error.
    pub fn discard(&self, digest: &Digest) -> Result<u64, StagingError> {
        let _lock = self.lock(digest)?;
        let mut freed_bytes = 0;
        let ready = self.ready.join(digest.file_name());
        for path in [self.journal_path(digest), self.partial_path(digest), ready] {
            if let Ok(metadata) = fs::metadata(&path) {
                self.disk.remove(&path)?;
                freed_bytes += allocated_bytes(&metadata);
            }
        }
        Ok(freed_bytes)
    }

    /// Removes an incomplete download of a blob.
    ///
    /// # Errors
    /// [`StagingError::InUse`] while a process has the lock, or a disk error.
    pub(crate) fn discard_partial(&self, digest: &Digest) -> Result<(), StagingError> {
        let _lock = self.lock(digest)?;
        for path in [self.journal_path(digest), self.partial_path(digest)] {
            if path.exists() {
                self.disk.remove(&path)?;
            }
        }
        Ok(())
    }

    /// Removes the temporary file of a journal that a killed process was writing: `.sha256-<hex>.journal.<...>.tmp`.
    fn remove_temp_journal(&self, name: &str) {
        let stem = name.strip_prefix('.').and_then(|name| name.split_once(".journal."));
        let Some(digest) = stem.and_then(|(stem, _)| stem.parse().ok()) else { return };
        // The holder of the lock may be writing the journal now.
        if let Ok(_lock) = self.lock(&digest) {
            // A failure is ignored: the file is small, and the next `open` tries again.
            let _ = self.disk.remove(&self.partials.join(name));
        }
    }

    fn journal_path(&self, digest: &Digest) -> PathBuf {
        self.partials.join(format!("{}.journal", digest.file_name()))
    }

    fn lock(&self, digest: &Digest) -> Result<LockFile, StagingError> {
        let path = self.partials.join(format!("{}.lock", digest.file_name()));
        LockFile::try_acquire(&path).map_err(|error| match error {
            LockError::Held(_) => StagingError::InUse(*digest),
            failed @ LockError::Failed { .. } => StagingError::Lock(failed),
        })
    }
}

impl StagedBlob {
    /// Returns the ranges that are durable.
    #[must_use]
    pub fn durable(&self) -> &Ranges {
        &self.durable
    }

    /// Returns the file, for reads and writes on other threads.
    #[must_use]
    pub fn file(&self) -> Arc<dyn PartialFile> {
        Arc::clone(&self.partial)
    }

    /// Syncs the file and records in the journal that the ranges `written` are durable. On return both survive a power cut.
    ///
    /// # Errors
    /// A disk error. The ranges are not recorded then.
    pub fn commit(&mut self, written: &Ranges) -> Result<(), StagingError> {
        if written.is_empty() {
            return Ok(());
        }
        self.partial.sync()?;
        match &mut self.journal {
            Some(journal) => journal.add(written)?,
            None => {
                let journal = Journal::create(&*self.disk, &self.journal_path, &self.digest, self.size_bytes, written)?;
                self.journal = Some(journal);
            }
        }
        written.iter().for_each(|range| self.durable.insert(range.clone()));
        Ok(())
    }

    /// Moves a complete, verified blob to the ready blobs. The contents must have been written through [`StagedBlob::file`]; they
    /// are synced here. On return the blob is durable.
    ///
    /// # Errors
    /// A disk error. The partial file stays then.
    pub fn finish(self) -> Result<PathBuf, StagingError> {
        // The file may be longer, if a manifest announced a larger size before.
        if self.partial.len_bytes()? != self.size_bytes {
            self.partial.truncate(self.size_bytes)?;
        }
        self.partial.sync()?;
        self.disk.rename(&self.path, &self.ready_path)?;
        if self.journal.is_some() || self.journal_path.exists() {
            self.disk.remove(&self.journal_path)?;
        }
        Ok(self.ready_path)
    }

    /// Removes the partial file, because its contents are wrong.
    ///
    /// # Errors
    /// A disk error.
    pub fn discard(self) -> Result<(), StagingError> {
        // The journal first: without it no byte counts as durable.
        if self.journal.is_some() || self.journal_path.exists() {
            self.disk.remove(&self.journal_path)?;
        }
        Ok(self.disk.remove(&self.path)?)
    }
}

/// Returns the sorted names of a folder's entries; none if it cannot be read.
fn names_in(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut names: Vec<String> = entries.filter_map(|entry| entry.file_name().into_string().ok()).collect();
    names.sort_unstable();
    names
}

/// Returns the disk space of a file: less than its length if it has holes.
#[cfg(unix)]
fn allocated_bytes(metadata: &fs::Metadata) -> u64 {
    use std::os::unix::fs::MetadataExt;
    metadata.blocks() * 512
}

#[cfg(not(unix))]
fn allocated_bytes(metadata: &fs::Metadata) -> u64 {
    metadata.len()
}

#[cfg(test)]
mod tests;
