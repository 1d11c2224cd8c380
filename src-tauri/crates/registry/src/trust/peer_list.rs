//! The list of trusted peers, in a file that only this user can read and write.

use std::path::PathBuf;
use std::sync::Arc;

use cairn_disk::{Disk, DiskError, Mode};
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};

use crate::PeerKey;

/// A trusted peer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TrustedPeer {
    /// The peer's key.
    pub key: PeerKey,
    /// The peer's name, or the address of a mirror.
    pub label: String,
}

/// Error of reading or writing a peer list.
#[derive(Debug, thiserror::Error)]
pub enum PeerListError {
    /// The file cannot be read or written.
    #[error(transparent)]
    Disk(#[from] DiskError),
    /// The content of the file is invalid.
    #[error("cannot parse {}: {reason}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// What is invalid.
        reason: String,
    },
}

/// A file-backed list of trusted peers. Each call reads the file, so that changes by another process are visible.
pub struct PeerList {
    path: PathBuf,
    disk: Arc<dyn Disk>,
    write_lock: Mutex<()>,
}

impl PeerList {
    /// Creates a list backed by the file at `path`, which may not exist yet.
    #[must_use]
    pub fn new(path: PathBuf, disk: Arc<dyn Disk>) -> Self {
        Self { path, disk, write_lock: Mutex::default() }
    }

    /// Returns all peers.
    ///
    /// # Errors
    /// If the file exists and cannot be read or parsed.
    pub fn read(&self) -> Result<Vec<TrustedPeer>, PeerListError> {
        let bytes = match self.disk.read(&self.path) {
            Ok(bytes) => bytes,
            Err(error) if error.source.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(error.into()),
        };
        serde_json::from_slice(&bytes)
            .map_err(|error| PeerListError::Unreadable { path: self.path.clone(), reason: error.to_string() })
    }

    /// Whether the list contains this key. False if the file cannot be read.
    #[must_use]
    pub fn contains(&self, key: &PeerKey) -> bool {
        self.read().is_ok_and(|all| all.iter().any(|peer| peer.key == *key))
    }

    /// Adds a peer, or replaces the label of a peer that is in the list.
    ///
    /// # Errors
    /// If the file cannot be read or written.
    pub fn add(&self, peer: TrustedPeer) -> Result<(), PeerListError> {
        self.change(|all| {
            all.retain(|other| other.key != peer.key);
            all.push(peer);
        })
    }

    /// Removes all peers with this label, key or fingerprint, and returns how many were removed.
    ///
    /// # Errors
    /// If the file cannot be read or written.
    pub fn remove(&self, which: &str) -> Result<usize, PeerListError> {
        let key: Option<PeerKey> = which.parse().ok();
        let mut removed = 0;
        self.change(|all| {
            let before = all.len();
            all.retain(|peer| peer.label != which && Some(peer.key) != key && peer.key.fingerprint() != which);
            removed = before - all.len();
        })?;
        Ok(removed)
    }

    fn change(&self, change: impl FnOnce(&mut Vec<TrustedPeer>)) -> Result<(), PeerListError> {
        let _guard = self.write_lock.lock();
        let mut all = self.read()?;
        change(&mut all);
        if let Some(folder) = self.path.parent() {
            self.disk.create_dir_all(folder)?;
        }
        let text = serde_json::to_vec_pretty(&all).expect("keys and labels are JSON");
        Ok(self.disk.write_atomic(&self.path, &text, Mode::Private)?)
    }
}

impl std::fmt::Debug for PeerList {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PeerList").field("path", &self.path).finish_non_exhaustive()
    }
}
