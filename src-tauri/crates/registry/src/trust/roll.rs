//! Keys that this machine knows, in a file that only its user reads and writes.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use cairn_disk::{Disk, DiskError, Mode};
use serde::{Deserialize, Serialize};

use super::PeerKey;

/// A machine that is known.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Known {
    /// Its key.
    pub key: PeerKey,
    /// What people know it by: a name, or the address of a mirror.
    pub label: String,
}

/// Why a list of keys cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum RollError {
    /// It cannot be read or written.
    #[error(transparent)]
    Disk(#[from] DiskError),
    /// It is not what was written here.
    #[error("{} cannot be read: {reason}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
}

/// A list of machines. It is read when it is asked, so that what one program adds another sees.
pub struct Roll {
    path: PathBuf,
    disk: Arc<dyn Disk>,
    turn: Mutex<()>,
}

impl Roll {
    /// The list in a file, which need not be there yet.
    #[must_use]
    pub fn at(path: PathBuf, disk: Arc<dyn Disk>) -> Self {
        Self { path, disk, turn: Mutex::default() }
    }

    /// Everybody on it.
    ///
    /// # Errors
    /// When it is there and cannot be read: nobody is known then.
    pub fn read(&self) -> Result<Vec<Known>, RollError> {
        let bytes = match self.disk.read(&self.path) {
            Ok(bytes) => bytes,
            Err(error) if error.source.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(error.into()),
        };
        serde_json::from_slice(&bytes)
            .map_err(|error| RollError::Unreadable { path: self.path.clone(), reason: error.to_string() })
    }

    /// Is that key on it? No, where it cannot be read.
    #[must_use]
    pub fn has(&self, key: &PeerKey) -> bool {
        self.read().is_ok_and(|all| all.iter().any(|known| known.key == *key))
    }

    /// Adds a machine, or gives one that is there another label.
    ///
    /// # Errors
    /// When the list cannot be read or written.
    pub fn add(&self, known: Known) -> Result<(), RollError> {
        self.change(|all| {
            all.retain(|other| other.key != known.key);
            all.push(known);
        })
    }

    /// Takes everybody with that label or that key off it, and returns how many those were.
    ///
    /// # Errors
    /// When the list cannot be read or written.
    pub fn remove(&self, which: &str) -> Result<usize, RollError> {
        let key: Option<PeerKey> = which.parse().ok();
        let mut removed = 0;
        self.change(|all| {
            let before = all.len();
            all.retain(|known| known.label != which && Some(known.key) != key && known.key.fingerprint() != which);
            removed = before - all.len();
        })?;
        Ok(removed)
    }

    fn change(&self, change: impl FnOnce(&mut Vec<Known>)) -> Result<(), RollError> {
        let _turn = self.turn();
        let mut all = self.read()?;
        change(&mut all);
        if let Some(folder) = self.path.parent() {
            self.disk.create_dir_all(folder)?;
        }
        let text = serde_json::to_vec_pretty(&all).expect("keys and labels are JSON");
        Ok(self.disk.write_atomic(&self.path, &text, Mode::Private)?)
    }

    fn turn(&self) -> MutexGuard<'_, ()> {
        self.turn.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl std::fmt::Debug for Roll {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Roll").field("path", &self.path).finish_non_exhaustive()
    }
}
