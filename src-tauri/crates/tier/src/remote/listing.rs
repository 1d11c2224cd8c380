//! In-memory listing of a remote tier. A computing thread queries it, so no method waits for the server.
//!
//! File names are keyed hashes. A listed name either belongs to the chunk, or was forged, which is detected when the
//! file is read. An entry takes about 60 bytes, a few megabytes per terabyte, so no filter is needed.

use std::collections::HashMap;

use parking_lot::Mutex;

use super::file_store::FileEntry;
use crate::chunk::{ChunkId, Group};
use crate::format::VERSION_FOLDER;
use crate::tier::StoredChunk;

/// File name of a chunk. Half of the hash identifies the chunk; the header contains all of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct ChunkFileName {
    model: [u8; 8],
    hash: [u8; 16],
    group: Group,
}

impl ChunkFileName {
    pub(super) fn of(id: &ChunkId) -> Self {
        let model = *id.fingerprint.as_bytes().first_chunk().expect("a fingerprint has 32 bytes");
        let hash = *id.hash.as_bytes().first_chunk().expect("a hash has 32 bytes");
        Self { model, hash, group: id.group }
    }

    /// Returns the path, which is the same as in the SSD tier.
    pub(super) fn path(&self) -> String {
        let (model, hash) = (hex::encode(self.model), hex::encode(self.hash));
        let group = match self.group {
            Group::Full => "full",
            Group::Window => "window",
        };
        format!("{VERSION_FOLDER}/{model}/{}/{hash}.{group}.kvc", &hash[..2])
    }

    /// Parses a path; `None` if it is not a chunk's.
    pub(super) fn parse(path: &str) -> Option<Self> {
        let mut parts = path.strip_prefix(VERSION_FOLDER)?.strip_prefix('/')?.split('/');
        let model = bytes(parts.next()?)?;
        let (hash, group) = parts.nth(1)?.split_once('.')?;
        let group = match group {
            "full.kvc" => Group::Full,
            "window.kvc" => Group::Window,
            _ => return None,
        };
        let name = Self { model, hash: bytes(hash)?, group };
        (name.path() == path).then_some(name)
    }
}

fn bytes<const N: usize>(text: &str) -> Option<[u8; N]> {
    let mut bytes = [0; N];
    hex::decode_to_slice(text, &mut bytes).ok()?;
    Some(bytes)
}

/// State of a listed file.
#[derive(Clone, Debug)]
enum FileState {
    /// Only the name is known.
    NotRead,
    /// The header was read and verified.
    Verified(Box<StoredChunk>),
    /// The file is damaged or foreign.
    Unusable,
}

#[derive(Debug)]
struct File {
    known: FileState,
    /// `None` for a file that was written here and not listed since.
    listed: Option<FileEntry>,
}

/// In-memory listing of the files of a remote tier. Methods never wait for the server.
#[derive(Debug, Default)]
pub(super) struct Listing {
    files: Mutex<HashMap<ChunkFileName, File>>,
}

impl Listing {
    /// Returns whether the tier may have the chunk: its file is listed and not marked as unusable.
    pub(super) fn may_contain(&self, name: &ChunkFileName) -> bool {
        self.files.lock().get(name).is_some_and(|file| !matches!(file.known, FileState::Unusable))
    }

    /// Returns whether a file has this name.
    pub(super) fn is_listed(&self, name: &ChunkFileName) -> bool {
        self.files.lock().contains_key(name)
    }

    /// Returns whether the file with this name is known to be unusable.
    pub(super) fn is_spoiled(&self, name: &ChunkFileName) -> bool {
        self.files.lock().get(name).is_some_and(|file| matches!(file.known, FileState::Unusable))
    }

    /// Returns the size of a file whose header was verified.
    pub(super) fn file_bytes(&self, name: &ChunkFileName) -> Option<u64> {
        match &self.files.lock().get(name)?.known {
            FileState::Verified(stored) => Some(stored.bytes),
            FileState::NotRead | FileState::Unusable => None,
        }
    }

    /// Replaces the listing. The state of unchanged files is preserved.
    pub(super) fn replace(&self, listing: Vec<(ChunkFileName, FileEntry)>) {
        let of = |(name, listed)| (name, File { known: FileState::NotRead, listed: Some(listed) });
        let mut files: HashMap<ChunkFileName, File> = listing.into_iter().map(of).collect();
        let mut held = self.files.lock();
        for (name, before) in held.drain() {
            if let Some(file) = files.get_mut(&name)
                && (before.listed.is_none() || before.listed == file.listed)
            {
                file.known = before.known;
            }
        }
        *held = files;
    }

    /// Returns the files whose header was not read.
    pub(super) fn unread(&self) -> Vec<ChunkFileName> {
        let files = self.files.lock();
        files.iter().filter(|(_, file)| matches!(file.known, FileState::NotRead)).map(|(name, _)| *name).collect()
    }

    /// Returns the chunks whose header was verified.
    pub(super) fn heads(&self) -> Vec<StoredChunk> {
        let files = self.files.lock();
        let head = |file: &File| {
            if let FileState::Verified(stored) = &file.known { Some(StoredChunk::clone(stored)) } else { None }
        };
        files.values().filter_map(head).collect()
    }

    /// Records a verified header.
    pub(super) fn learn(&self, name: ChunkFileName, stored: StoredChunk) {
        self.set(name, FileState::Verified(Box::new(stored)));
    }

    /// Marks a file as unusable until it changes.
    pub(super) fn spoil(&self, name: ChunkFileName) {
        self.set(name, FileState::Unusable);
    }

    /// Records that a file is gone.
    pub(super) fn forget(&self, name: &ChunkFileName) {
        self.files.lock().remove(name);
    }

    /// Records a file that was just written here.
    pub(super) fn wrote(&self, name: ChunkFileName, stored: StoredChunk) {
        self.files.lock().insert(name, File { known: FileState::Verified(Box::new(stored)), listed: None });
    }

    fn set(&self, name: ChunkFileName, known: FileState) {
        self.files
            .lock()
            .entry(name)
            .and_modify(|file| file.known = known.clone())
            .or_insert(File { known, listed: None });
    }
}
