//! The SSD tier: a folder with one file per chunk.
//!
//! ```text
//! <root>/owner.lock                      held by the process that may remove files
//! <root>/v1/<16 hex of the fingerprint>/<first 2 hex of the hash>/<32 hex of the hash>.<full|window>.kvc
//! <root>/v1/drafts/                      files that are being written; locked by their writer
//! <root>/v1/bad/                         quarantine: at most 3 damaged files
//! ```
//!
//! The files are the only source of truth. A file is written as a draft and renamed, so a name refers to a complete
//! chunk. Writes are not synced: a file that is incomplete after a power cut fails verification and is a miss.
//! Removals are synced, because users rely on deletion.
//!
//! The first process to open the folder is its owner. Other processes are guests: they read and add files but never
//! remove them. Reads and writes use direct I/O, with several pieces in flight.
//!
//! Several installations may share one folder, each with its own names and keys. Files whose header has another
//! installation's id are ignored: not reported, counted, verified or removed, not even by the owner. Only the free
//! space on the disk is common.
//!
//! **Invariant:** [`Tier::load`] returns only what a holder of the same keys passed to [`Tier::save`] under that name.
//! Everything else is a miss.

mod file_cache;
mod fsck;
mod layout;
mod load;
mod save;
mod scan;

#[cfg(test)]
mod tests;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use cairn_disk::{Disk, Lock};
use parking_lot::Mutex;

use crate::chunk::{Chunk, ChunkId};
use crate::format::{FileKeys, NONCE_BYTES, Packing};
use crate::tier::{ChunkRequest, Miss, SaveControl, StoredChunk, Tier, TierError, TierKind, Unconditional};

pub use fsck::FsckReport;
use layout::Layout;
use load::IoBuffers;

/// Maximum number of quarantined files.
const MAX_ASIDE: usize = 3;

/// Options of an SSD tier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SsdOptions {
    /// Whether a saved chunk is synced to disk. Otherwise a power cut may lose the chunks of the last half minute.
    pub durable: bool,
    /// Compression of rows.
    pub packing: Packing,
    /// Number of pieces of a file that are read concurrently. Disks are faster with several requests in flight.
    pub threads: usize,
}

impl Default for SsdOptions {
    fn default() -> Self {
        Self { durable: false, packing: Packing::default(), threads: 8 }
    }
}

/// Tier in a local folder with one file per chunk.
pub struct SsdTier {
    disk: Arc<dyn Disk>,
    layout: Layout,
    keys: FileKeys,
    nonce: Box<dyn Fn() -> [u8; NONCE_BYTES] + Send + Sync>,
    options: SsdOptions,
    packing: Mutex<Packing>,
    owner: Mutex<Option<Lock>>,
    /// Buffers for reuse.
    work: Mutex<Vec<IoBuffers>>,
    /// State of files that were read before.
    heads: Mutex<file_cache::FileCache>,
    /// Locked while damaged files are counted and moved.
    aside: Mutex<()>,
}

impl SsdTier {
    /// Opens the folder at `root`, creates it if missing, and becomes its owner unless another process is. Removes
    /// abandoned drafts. `nonce` must return unique random bytes; they are used if the keys encrypt.
    ///
    /// # Errors
    /// If the folder cannot be created or written.
    pub fn open(
        disk: Arc<dyn Disk>,
        root: &Path,
        keys: FileKeys,
        options: SsdOptions,
        nonce: impl Fn() -> [u8; NONCE_BYTES] + Send + Sync + 'static,
    ) -> Result<Self, TierError> {
        if cfg!(target_endian = "big") {
            return Err(TierError::Failed("chunks are supported only on little-endian machines".to_owned()));
        }
        let layout = Layout::new(root);
        for folder in [layout.drafts(), layout.bad()] {
            disk.create_dir_all(&folder)?;
        }
        let ssd = Self {
            disk,
            layout,
            keys,
            nonce: Box::new(nonce),
            packing: Mutex::new(options.packing),
            options,
            owner: Mutex::default(),
            work: Mutex::default(),
            heads: Mutex::default(),
            aside: Mutex::default(),
        };
        ssd.try_acquire_ownership();
        // A draft that cannot be removed only wastes space.
        let _ = ssd.disk.remove_stale_temp_files(&ssd.layout.drafts());
        Ok(ssd)
    }

    /// Becomes the owner if no other process is. Returns whether this process is the owner.
    pub fn try_acquire_ownership(&self) -> bool {
        let mut owner = self.owner.lock();
        if owner.is_none() {
            // Without file locks (some network file systems) no process may remove files.
            *owner = Lock::try_acquire(&self.layout.owner_lock()).ok();
        }
        owner.is_some()
    }

    /// Returns whether this process may remove files.
    pub fn is_owner(&self) -> bool {
        self.owner.lock().is_some()
    }

    /// Changes the compression of chunks that are saved from now on.
    pub fn set_packing(&self, packing: Packing) {
        *self.packing.lock() = packing;
    }

    /// Returns the free space of the file system.
    ///
    /// # Errors
    /// If the system does not report it.
    pub fn free_bytes(&self) -> Result<u64, TierError> {
        Ok(self.disk.free_bytes(&self.layout.version())?)
    }

    /// Returns the disk space of all chunks of this installation, from all processes. Each file is opened only once,
    /// so this is cheap enough to call before each write.
    ///
    /// # Errors
    /// If the folder cannot be listed.
    pub fn used_bytes(&self) -> Result<u64, TierError> {
        scan::used_bytes(self)
    }

    /// Returns the quarantined files.
    pub fn quarantined_files(&self) -> Vec<PathBuf> {
        scan::files_in(&self.layout.bad())
    }

    /// Removes all chunks of this installation and all quarantined files, durably.
    ///
    /// # Errors
    /// If a file may still be there.
    pub fn clear(&self) -> Result<(), TierError> {
        self.must_own()?;
        for folder in scan::folders_of_chunks(&self.layout)?.into_iter().chain([self.layout.bad()]) {
            let mut files = scan::files_in(&folder);
            if folder != self.layout.bad() {
                files.retain(|file| !file_cache::stamp(file).is_some_and(|stamp| scan::is_foreign(self, file, stamp)));
            }
            for file in &files {
                self.remove_file(file)?;
            }
            if !files.is_empty() {
                self.disk.sync_folder(&folder)?;
            }
        }
        Ok(())
    }

    fn must_own(&self) -> Result<(), TierError> {
        if self.is_owner() { Ok(()) } else { Err(TierError::Failed("another process owns the folder".to_owned())) }
    }

    /// Removes a file. Returns whether it existed.
    fn remove_file(&self, path: &Path) -> Result<bool, TierError> {
        match self.disk.remove(path) {
            Ok(()) => Ok(true),
            Err(error) if error.source.kind() == std::io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// Moves a damaged file to the quarantine folder. Only the owner does this.
    fn quarantine(&self, path: &Path) {
        if !self.is_owner() {
            return;
        }
        let _held = self.aside.lock();
        let mut aside = self.quarantined_files();
        aside.sort_by_key(|path| std::fs::metadata(path).and_then(|found| found.modified()).ok());
        while aside.len() >= MAX_ASIDE {
            // A file that can be neither moved nor removed stays, and is a miss each time.
            let _ = self.disk.remove(&aside.remove(0));
        }
        if self.disk.rename(path, &self.layout.aside(path)).is_err() {
            let _ = self.disk.remove(path);
        }
    }
}

impl Tier for SsdTier {
    fn kind(&self) -> TierKind {
        TierKind::Ssd
    }

    fn scan(&self, each: &mut dyn FnMut(StoredChunk)) -> Result<(), TierError> {
        scan::scan(self, each)
    }

    fn load(&self, wanted: &ChunkRequest<'_>) -> Result<Chunk, Miss> {
        load::load(self, wanted)
    }

    fn save(&self, chunk: &Chunk) -> Result<StoredChunk, TierError> {
        Ok(self.save_if(chunk, &Unconditional)?.expect("the chunk may be published"))
    }

    fn save_if(&self, chunk: &Chunk, control: &dyn SaveControl) -> Result<Option<StoredChunk>, TierError> {
        let saved = save::save(self, chunk, control)?;
        Ok(saved.map(|stored| StoredChunk { keys: Some(Arc::clone(&chunk.head.keys)), ..stored }))
    }

    fn remove(&self, id: &ChunkId) -> Result<(), TierError> {
        self.must_own()?;
        let path = self.layout.file(id);
        for path in [self.layout.aside(&path), path] {
            if self.remove_file(&path)? {
                self.disk.sync_folder(path.parent().expect("chunk files have a parent folder"))?;
            }
        }
        Ok(())
    }
}
