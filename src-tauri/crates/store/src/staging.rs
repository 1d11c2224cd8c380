//! Where blobs are before a model has them: `.cairn` in the library, on its file system, so that publishing is renaming.
//! It is beside `blobs` and not in it, because a running Ollama removes from there whatever it does not know.
//!
//! ```text
//! .cairn/partials/sha256-<hex>          a blob that is being fetched, with holes
//! .cairn/partials/sha256-<hex>.journal  which of its bytes are on the disk; see [`journal`]
//! .cairn/partials/sha256-<hex>.lock     held by the process that fetches it
//! .cairn/ready/sha256-<hex>             a blob that is whole and was checked, and that no manifest names yet
//! .cairn/drafts/.draft.<...>.tmp        contents whose digest is not known yet: of a file that is imported
//! ```
//!
//! **Invariants:** one process at a time writes a partial; a file in `ready` has the contents that its name says; what
//! [`StagedBlob::held`] says is on the disk, after a power cut too.

mod journal;
mod left;
mod ranges;

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use cairn_disk::{Claim, Disk, DiskError, LockError, Mode, Partial};

use crate::{Digest, Library};
use journal::Journal;
pub use ranges::Ranges;

/// The folder of blobs that no model has yet.
#[derive(Clone)]
pub struct Staging {
    partials: PathBuf,
    ready: PathBuf,
    disk: Arc<dyn Disk>,
}

/// A blob that is being fetched, by this process alone for as long as this lives.
pub struct StagedBlob {
    digest: Digest,
    size_bytes: u64,
    path: PathBuf,
    journal_path: PathBuf,
    ready_path: PathBuf,
    partial: Arc<dyn Partial>,
    journal: Option<Journal>,
    held: Ranges,
    disk: Arc<dyn Disk>,
    _claim: Claim,
}

/// What is kept of a blob that no model has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Staged {
    /// Which blob.
    pub digest: Digest,
    /// Its whole size; `None` where too little came for anybody to note it.
    pub size_bytes: Option<u64>,
    /// How many of its bytes are here for good.
    pub held_bytes: u64,
    /// When the last byte came.
    pub modified_at: SystemTime,
    /// It is whole and was checked.
    pub ready: bool,
    /// A process is at work on it.
    pub in_use: bool,
}

/// Why something did not come of a blob that is being fetched.
#[derive(Debug, thiserror::Error)]
pub enum StagingError {
    /// Another process fetches the same blob.
    #[error("another process is fetching {0}")]
    InUse(Digest),
    /// A newer version of the program wrote the journal.
    #[error("{} is of version {version}, which only a newer Cairn can read", path.display())]
    Newer {
        /// The journal.
        path: PathBuf,
        /// Its version.
        version: u32,
    },
    /// The disk refused.
    #[error(transparent)]
    Disk(#[from] DiskError),
    /// The system has no locks here, or no right to one.
    #[error(transparent)]
    Lock(LockError),
}

impl Staging {
    /// That of a library, whose folders are made where they are missing. Journals whose partials are gone, and locks of
    /// dead processes, are cleared away.
    ///
    /// # Errors
    /// When the library cannot be written to.
    pub fn open(library: &Library, disk: Arc<dyn Disk>) -> Result<Self, StagingError> {
        let root = library.root().join(".cairn");
        let staging = Self { partials: root.join("partials"), ready: root.join("ready"), disk };
        staging.disk.create_dir_all(&staging.partials)?;
        staging.disk.create_dir_all(&staging.ready)?;
        for name in names_in(&staging.partials) {
            staging.clear_half_written(&name);
            let stem = name.strip_suffix(".journal").or_else(|| name.strip_suffix(".lock"));
            let Some(digest) = stem.and_then(|stem| stem.parse().ok()) else { continue };
            // Taking the claim is what removes a dead lock.
            if let Ok(_claim) = staging.take(&digest)
                && name.ends_with(".journal")
                && !staging.partial_path(&digest).exists()
            {
                staging.disk.remove(&staging.partials.join(&name))?;
            }
        }
        Ok(staging)
    }

    /// The folder of blobs that are not whole, for asking about its file system.
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.partials
    }

    /// Where a blob lies while it is fetched.
    #[must_use]
    pub fn partial_path(&self, digest: &Digest) -> PathBuf {
        self.partials.join(digest.file_name())
    }

    /// The file of a blob that is whole and was checked, and has this size.
    #[must_use]
    pub fn ready(&self, digest: &Digest, size_bytes: u64) -> Option<PathBuf> {
        let path = self.ready.join(digest.file_name());
        fs::metadata(&path).is_ok_and(|found| found.is_file() && found.len() == size_bytes).then_some(path)
    }

    /// Where a blob will be once it is whole and was checked.
    pub(crate) fn ready_path(&self, digest: &Digest) -> PathBuf {
        self.ready.join(digest.file_name())
    }

    /// Begins to fetch a blob, or goes on where it was left.
    ///
    /// # Errors
    /// [`StagingError::InUse`] while another process does, or another caller in this one.
    pub fn claim(&self, digest: &Digest, size_bytes: u64) -> Result<StagedBlob, StagingError> {
        let claim = self.take(digest)?;
        let path = self.partial_path(digest);
        let journal_path = self.journal_path(digest);
        let journalled = journal::read(&*self.disk, &journal_path, digest)?;
        let partial: Arc<dyn Partial> = self.disk.partial(&path, Mode::Shared)?.into();
        let mut held = journalled.map(|journalled| journalled.held).unwrap_or_default();
        // A digest has one size, so bytes stay right when a manifest gave a wrong one; but no byte lies beyond the end.
        held.clip(size_bytes.min(partial.len_bytes()?));
        let journal = match held.is_empty() {
            true => None,
            false => Some(Journal::begin(&*self.disk, &journal_path, digest, size_bytes, &held)?),
        };
        Ok(StagedBlob {
            digest: *digest,
            size_bytes,
            path,
            journal_path,
            ready_path: self.ready.join(digest.file_name()),
            partial,
            journal,
            held,
            disk: Arc::clone(&self.disk),
            _claim: claim,
        })
    }

    /// How many bytes of a blob are here for good, without touching it: what another process that fetches it has got.
    #[must_use]
    pub fn held_bytes(&self, digest: &Digest) -> u64 {
        let journalled = journal::read(&*self.disk, &self.journal_path(digest), digest).ok().flatten();
        journalled.map_or(0, |journalled| journalled.held.total_bytes())
    }

    /// Everything that is kept here, in the order of digests.
    ///
    /// # Errors
    /// When a folder cannot be read.
    pub fn list(&self) -> Result<Vec<Staged>, StagingError> {
        let mut list = Vec::new();
        for (folder, ready) in [(&self.partials, false), (&self.ready, true)] {
            for name in names_in(folder) {
                let Ok(digest) = name.parse::<Digest>() else { continue };
                let Ok(found) = fs::metadata(folder.join(&name)) else { continue };
                let modified_at = found.modified().unwrap_or(SystemTime::UNIX_EPOCH);
                let journalled = match ready {
                    true => None,
                    false => journal::read(&*self.disk, &self.journal_path(&digest), &digest)?,
                };
                let size_bytes =
                    if ready { Some(found.len()) } else { journalled.as_ref().map(|journalled| journalled.size_bytes) };
                let held_bytes = match &journalled {
                    Some(journalled) => journalled.held.total_bytes(),
                    None if ready => found.len(),
                    None => 0,
                };
                let in_use = !ready && matches!(self.take(&digest), Err(StagingError::InUse(_)));
                list.push(Staged { digest, size_bytes, held_bytes, modified_at, ready, in_use });
            }
        }
        list.sort_by_key(|staged| staged.digest);
        Ok(list)
    }

    /// Removes what is kept of a blob and returns how many bytes of the disk that frees.
    ///
    /// # Errors
    /// [`StagingError::InUse`] while a process is at work on it; or the disk refuses.
    pub fn discard(&self, digest: &Digest) -> Result<u64, StagingError> {
        let _claim = self.take(digest)?;
        let mut freed_bytes = 0;
        let ready = self.ready.join(digest.file_name());
        for path in [self.journal_path(digest), self.partial_path(digest), ready] {
            if let Ok(found) = fs::metadata(&path) {
                self.disk.remove(&path)?;
                freed_bytes += allocated_bytes(&found);
            }
        }
        Ok(freed_bytes)
    }

    /// Removes what was fetched of a blob that is not whole.
    ///
    /// # Errors
    /// [`StagingError::InUse`] while a process is at work on it; or the disk refuses.
    pub(crate) fn discard_partial(&self, digest: &Digest) -> Result<(), StagingError> {
        let _claim = self.take(digest)?;
        for path in [self.journal_path(digest), self.partial_path(digest)] {
            if path.exists() {
                self.disk.remove(&path)?;
            }
        }
        Ok(())
    }

    /// Removes what a killed process left of writing a journal: `.sha256-<hex>.journal.<...>.tmp`.
    fn clear_half_written(&self, name: &str) {
        let stem = name.strip_prefix('.').and_then(|name| name.split_once(".journal."));
        let Some(digest) = stem.and_then(|(stem, _)| stem.parse().ok()) else { return };
        // Whoever has the claim may be writing it just now.
        if let Ok(_claim) = self.take(&digest) {
            // It takes little room, and the next one to open this tries again.
            let _ = self.disk.remove(&self.partials.join(name));
        }
    }

    fn journal_path(&self, digest: &Digest) -> PathBuf {
        self.partials.join(format!("{}.journal", digest.file_name()))
    }

    fn take(&self, digest: &Digest) -> Result<Claim, StagingError> {
        let path = self.partials.join(format!("{}.lock", digest.file_name()));
        Claim::try_take(&path).map_err(|error| match error {
            LockError::Held(_) => StagingError::InUse(*digest),
            failed @ LockError::Failed { .. } => StagingError::Lock(failed),
        })
    }
}

impl StagedBlob {
    /// Which bytes are on the disk for good.
    #[must_use]
    pub fn held(&self) -> &Ranges {
        &self.held
    }

    /// The file itself, to be written and read by other threads.
    #[must_use]
    pub fn file(&self) -> Arc<dyn Partial> {
        Arc::clone(&self.partial)
    }

    /// Brings to the disk what was written before this call, and then notes that `written` is there. When this returns,
    /// a power cut takes away neither.
    ///
    /// # Errors
    /// When the disk refuses; nothing more is noted then.
    pub fn keep(&mut self, written: &Ranges) -> Result<(), StagingError> {
        if written.is_empty() {
            return Ok(());
        }
        self.partial.sync()?;
        match &mut self.journal {
            Some(journal) => journal.add(written)?,
            None => {
                let begun = Journal::begin(&*self.disk, &self.journal_path, &self.digest, self.size_bytes, written)?;
                self.journal = Some(begun);
            }
        }
        written.iter().for_each(|range| self.held.insert(range.clone()));
        Ok(())
    }

    /// Gives a blob whose contents were checked its place among those that are ready. When this returns, it is there for
    /// good. The contents must have been written through [`StagedBlob::file`]; they are synced here.
    ///
    /// # Errors
    /// When the disk refuses. What was fetched is still there.
    pub fn finish(self) -> Result<PathBuf, StagingError> {
        // A manifest that claimed too much before may have left a longer file.
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

    /// Removes what was fetched, because it is not what it should be.
    ///
    /// # Errors
    /// When the disk refuses.
    pub fn discard(self) -> Result<(), StagingError> {
        // The journal first: without it the bytes count for nothing.
        if self.journal.is_some() || self.journal_path.exists() {
            self.disk.remove(&self.journal_path)?;
        }
        Ok(self.disk.remove(&self.path)?)
    }
}

/// Names of the entries of a folder; none where it cannot be read.
fn names_in(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut names: Vec<String> = entries.filter_map(|entry| entry.file_name().into_string().ok()).collect();
    names.sort_unstable();
    names
}

/// What a file takes on the disk, which is less than its length where it has holes.
#[cfg(unix)]
fn allocated_bytes(found: &fs::Metadata) -> u64 {
    use std::os::unix::fs::MetadataExt;
    found.blocks() * 512
}

#[cfg(not(unix))]
fn allocated_bytes(found: &fs::Metadata) -> u64 {
    found.len()
}

#[cfg(test)]
mod tests;
