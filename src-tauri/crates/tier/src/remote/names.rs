//! What is known to lie in a remote place, in memory: who computes asks it, so nothing here waits for the place.
//!
//! Names are hashes under a key, so a name that is listed is either the chunk's or somebody's who wants us to think so; then it is
//! found out when it is read. A name takes some 60 bytes, so that all of a terabyte's are a few megabytes, and no filter is needed.

use std::collections::HashMap;
use std::fmt::Write;
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::files::Listed;
use crate::chunk::{ChunkId, Group};
use crate::format::VERSION_FOLDER;
use crate::tier::Stored;

/// A chunk's name as a file. Half of a hash is enough to tell chunks apart; the header has all of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Name {
    model: [u8; 8],
    hash: [u8; 16],
    group: Group,
}

impl Name {
    pub(super) fn of(id: &ChunkId) -> Self {
        let model = *id.fingerprint.as_bytes().first_chunk().expect("a fingerprint has 32 bytes");
        let hash = *id.hash.as_bytes().first_chunk().expect("a hash has 32 bytes");
        Self { model, hash, group: id.group }
    }

    /// The same as in a folder of this machine.
    pub(super) fn path(&self) -> String {
        let mut path = format!("{VERSION_FOLDER}/");
        hex(&mut path, &self.model);
        path.push('/');
        hex(&mut path, &self.hash[..1]);
        path.push('/');
        hex(&mut path, &self.hash);
        path.push_str(match self.group {
            Group::Full => ".full.kvc",
            Group::Window => ".window.kvc",
        });
        path
    }

    /// The name that has this path; none where no chunk's has.
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

fn hex(text: &mut String, bytes: &[u8]) {
    bytes.iter().for_each(|byte| write!(text, "{byte:02x}").expect("a String grows"));
}

fn bytes<const N: usize>(hex: &str) -> Option<[u8; N]> {
    let mut bytes = [0; N];
    if hex.len() != 2 * N {
        return None;
    }
    for (index, byte) in bytes.iter_mut().enumerate() {
        *byte = u8::from_str_radix(hex.get(2 * index..2 * index + 2)?, 16).ok()?;
    }
    Some(bytes)
}

/// What is known of a file.
#[derive(Clone, Debug)]
enum Known {
    /// Its name.
    Listed,
    /// Its head, which was checked.
    Head(Box<Stored>),
    /// It is not one that holders of our keys wrote whole.
    Spoiled,
}

#[derive(Debug)]
struct File {
    known: Known,
    /// None of a file that was written here and not listed since.
    listed: Option<Listed>,
}

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Names {
    files: Mutex<HashMap<Name, File>>,
}

impl Names {
    /// Whether a chunk may be there.
    pub(super) fn may_hold(&self, name: &Name) -> bool {
        self.lock().get(name).is_some_and(|file| !matches!(file.known, Known::Spoiled))
    }

    /// Whether anything lies under this name.
    pub(super) fn is_listed(&self, name: &Name) -> bool {
        self.lock().contains_key(name)
    }

    /// Whether what lies there is known to be of no use.
    pub(super) fn is_spoiled(&self, name: &Name) -> bool {
        self.lock().get(name).is_some_and(|file| matches!(file.known, Known::Spoiled))
    }

    /// The length of a file whose head was checked.
    pub(super) fn file_bytes(&self, name: &Name) -> Option<u64> {
        match &self.lock().get(name)?.known {
            Known::Head(stored) => Some(stored.bytes),
            Known::Listed | Known::Spoiled => None,
        }
    }

    /// Replaces all names by those of a listing; what is known of files that are as they were stays known.
    pub(super) fn replace(&self, listing: Vec<(Name, Listed)>) {
        let of = |(name, listed)| (name, File { known: Known::Listed, listed: Some(listed) });
        let mut files: HashMap<Name, File> = listing.into_iter().map(of).collect();
        let mut held = self.lock();
        for (name, before) in held.drain() {
            if let Some(file) = files.get_mut(&name)
                && (before.listed.is_none() || before.listed == file.listed)
            {
                file.known = before.known;
            }
        }
        *held = files;
    }

    /// Files of which only the names are known.
    pub(super) fn unread(&self) -> Vec<Name> {
        let files = self.lock();
        files.iter().filter(|(_, file)| matches!(file.known, Known::Listed)).map(|(name, _)| *name).collect()
    }

    /// All chunks whose heads are known.
    pub(super) fn heads(&self) -> Vec<Stored> {
        let files = self.lock();
        let head = |file: &File| if let Known::Head(stored) = &file.known { Some(Stored::clone(stored)) } else { None };
        files.values().filter_map(head).collect()
    }

    /// Notes a head that was checked.
    pub(super) fn learn(&self, name: Name, stored: Stored) {
        self.set(name, Known::Head(Box::new(stored)));
    }

    /// Notes a file that is of no use as long as it stays as it is.
    pub(super) fn spoil(&self, name: Name) {
        self.set(name, Known::Spoiled);
    }

    /// Notes that a file is gone.
    pub(super) fn forget(&self, name: &Name) {
        self.lock().remove(name);
    }

    /// Notes a file that was just written here.
    pub(super) fn wrote(&self, name: Name, stored: Stored) {
        self.lock().insert(name, File { known: Known::Head(Box::new(stored)), listed: None });
    }

    fn set(&self, name: Name, known: Known) {
        self.lock().entry(name).and_modify(|file| file.known = known.clone()).or_insert(File { known, listed: None });
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Name, File>> {
        // Nothing is left half done while it is held.
        self.files.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
