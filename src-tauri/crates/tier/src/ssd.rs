//! The SSD tier: a folder with a file per chunk.
//!
//! ```text
//! <root>/owner.lock                      held by the process that may remove files
//! <root>/v1/<16 hex of the fingerprint>/<first 2 hex of the hash>/<32 hex of the hash>.<full|window>.kvc
//! <root>/v1/drafts/                      files that are being written; locked by whoever writes them
//! <root>/v1/bad/                         at most 3 damaged files, for people to look at
//! ```
//!
//! The files are the truth: there is nothing else to keep in step with them. A file is written under a passing name and renamed, so
//! that a name leads to all of a chunk or to none of it; whether it reached the disk is left to the system, because a file says
//! itself whether it is whole, and one that is not is a miss. Removing is synced, because people who delete mean it.
//!
//! The first process to come is the owner. Others are guests: they read and add, and never remove. Files are read and written past
//! the page cache, several pieces at a time.
//!
//! Several installations may use one folder, each with its own names and keys. What another one wrote, as its header says, is as if it
//! were not there: it is not told of, not counted, not checked and not removed, by its owner either. Only what must stay free on the
//! disk is common to all.
//!
//! **Invariant:** what [`Tier::load`] returns is what [`Tier::save`] was given under that name by a holder of the same keys. Whatever
//! else lies there is a miss.

mod fsck;
mod layout;
mod load;
mod save;
mod scan;

#[cfg(test)]
mod tests;

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use cairn_disk::{Disk, Lock};

use crate::chunk::{Chunk, ChunkId};
use crate::format::{FileKeys, NONCE_BYTES, Packing};
use crate::tier::{Miss, Place, Stored, Tier, TierError, Wanted};

pub use fsck::Report;
use layout::Layout;
use load::Work;

/// Damaged files that are kept.
const MAX_ASIDE: usize = 3;

/// How a folder is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SsdOptions {
    /// Whether a chunk is on the disk once it is saved. Otherwise a power cut may take those of the last half minute.
    pub durable: bool,
    /// How rows are stored.
    pub packing: Packing,
    /// Pieces of a file that are read at once: a disk is fast when it has several things to do.
    pub threads: usize,
}

impl Default for SsdOptions {
    fn default() -> Self {
        Self { durable: false, packing: Packing::default(), threads: 8 }
    }
}

/// See the module.
pub struct Ssd {
    disk: Arc<dyn Disk>,
    layout: Layout,
    keys: FileKeys,
    nonce: Box<dyn Fn() -> [u8; NONCE_BYTES] + Send + Sync>,
    options: SsdOptions,
    packing: Mutex<Packing>,
    owner: Mutex<Option<Lock>>,
    /// Memory for reading and writing, kept for the next time.
    work: Mutex<Vec<Work>>,
    /// What is known of files that were looked at.
    heads: Mutex<scan::Heads>,
    /// Held while damaged files are counted and moved.
    aside: Mutex<()>,
}

impl Ssd {
    /// Opens the folder at `root`, which is made where there is none, and takes it over unless another process has it. Files that
    /// dead processes left half written are removed. `nonce` gives random bytes, other ones each time; they are used where the keys
    /// seal.
    ///
    /// # Errors
    /// Where it cannot be made or written to.
    pub fn open(
        disk: Arc<dyn Disk>,
        root: &Path,
        keys: FileKeys,
        options: SsdOptions,
        nonce: impl Fn() -> [u8; NONCE_BYTES] + Send + Sync + 'static,
    ) -> Result<Self, TierError> {
        if cfg!(target_endian = "big") {
            return Err(TierError::Failed("chunks are kept on little-endian machines only".to_owned()));
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
        ssd.try_own();
        // One that cannot be removed takes room, and stands in nobody's way.
        let _ = ssd.disk.remove_dead_drafts(&ssd.layout.drafts());
        Ok(ssd)
    }

    /// Takes the folder over if no other process has it, and says whether this one has it now.
    pub fn try_own(&self) -> bool {
        let mut owner = locked(&self.owner);
        if owner.is_none() {
            // Where there are no locks, as on some network file systems, nobody may remove what another may be using.
            *owner = Lock::try_take(&self.layout.owner_lock()).ok();
        }
        owner.is_some()
    }

    /// Whether this process may remove files.
    pub fn is_owner(&self) -> bool {
        locked(&self.owner).is_some()
    }

    /// Stores rows in this way from now on.
    pub fn set_packing(&self, packing: Packing) {
        *locked(&self.packing) = packing;
    }

    /// Room that is left on the file system.
    ///
    /// # Errors
    /// Whatever the system says.
    pub fn free_bytes(&self) -> Result<u64, TierError> {
        Ok(self.disk.free_bytes(&self.layout.version())?)
    }

    /// Room that chunks take, whichever process of this installation put them there. A file is looked into once, so that it can be asked
    /// before each write. What other installations keep does not count.
    ///
    /// # Errors
    /// Where the folder cannot be listed.
    pub fn taken_bytes(&self) -> Result<u64, TierError> {
        scan::taken_bytes(self)
    }

    /// The damaged files that were put aside.
    pub fn aside(&self) -> Vec<PathBuf> {
        scan::files_in(&self.layout.bad())
    }

    /// Removes every chunk of this installation and everything that was put aside. Once this returns, none of it comes back after a power cut.
    ///
    /// # Errors
    /// Where something may still be there.
    pub fn clear(&self) -> Result<(), TierError> {
        self.must_own()?;
        for folder in scan::folders_of_chunks(&self.layout)?.into_iter().chain([self.layout.bad()]) {
            let mut files = scan::files_in(&folder);
            if folder != self.layout.bad() {
                files.retain(|file| !scan::same(file).is_some_and(|same| scan::is_foreign(self, file, same)));
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
        if self.is_owner() { Ok(()) } else { Err(TierError::Failed("another process has the folder".to_owned())) }
    }

    /// Removes a file and says whether it was there.
    fn remove_file(&self, path: &Path) -> Result<bool, TierError> {
        match self.disk.remove(path) {
            Ok(()) => Ok(true),
            Err(error) if error.source.kind() == std::io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// Moves a damaged file to where nobody looks for chunks. A guest leaves it to the owner.
    fn put_aside(&self, path: &Path) {
        if !self.is_owner() {
            return;
        }
        let _held = locked(&self.aside);
        let mut aside = self.aside();
        aside.sort_by_key(|path| std::fs::metadata(path).and_then(|found| found.modified()).ok());
        while aside.len() >= MAX_ASIDE {
            // What cannot be moved or removed stays, and is a miss each time.
            let _ = self.disk.remove(&aside.remove(0));
        }
        if self.disk.rename(path, &self.layout.aside(path)).is_err() {
            let _ = self.disk.remove(path);
        }
    }
}

impl Tier for Ssd {
    fn place(&self) -> Place {
        Place::Ssd
    }

    fn scan(&self, each: &mut dyn FnMut(Stored)) -> Result<(), TierError> {
        scan::scan(self, each)
    }

    fn load(&self, wanted: &Wanted<'_>) -> Result<Chunk, Miss> {
        load::load(self, wanted)
    }

    fn save(&self, chunk: &Chunk) -> Result<Stored, TierError> {
        save::save(self, chunk).map(|stored| Stored { keys: Some(Arc::clone(&chunk.head.keys)), ..stored })
    }

    fn remove(&self, id: &ChunkId) -> Result<(), TierError> {
        self.must_own()?;
        let path = self.layout.file(id);
        for path in [self.layout.aside(&path), path] {
            if self.remove_file(&path)? {
                self.disk.sync_folder(path.parent().expect("files lie in folders"))?;
            }
        }
        Ok(())
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Nothing is left half done while one of these is held.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
