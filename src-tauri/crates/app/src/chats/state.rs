//! The state that all chats share: the databases, and answers in progress.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use cairn_chats::{ChatEvent, Chats};
use parking_lot::Mutex;
use tokio::sync::broadcast;

use super::error::Error;
use super::live::Live;

/// Capacity of the channel of changes. A slower receiver misses some.
const CHANGES: usize = 256;

/// The databases of chats, and answers in progress.
pub(super) struct ChatState {
    pub(super) path: PathBuf,
    /// Opened by the first use, so that a user who only calls `/api` has no such file.
    stored: Mutex<Option<Arc<Chats>>>,
    temporary: Mutex<Option<Arc<Chats>>>,
    pub(super) live: Mutex<HashMap<String, Option<Arc<Live>>>>,
    /// The engine's key of the model that last answered each chat, while that model is loaded.
    pub(super) hot: Mutex<HashMap<String, String>>,
    pub(super) changes: broadcast::Sender<ChatEvent>,
    /// Held while another program's chats are read.
    pub(super) importing: Mutex<()>,
    /// When the trash was last purged.
    pub(super) purged_ms: Mutex<Option<i64>>,
    /// The daemon is shutting down.
    pub(super) ending: AtomicBool,
}

impl ChatState {
    pub(super) fn new(path: PathBuf) -> Self {
        Self {
            path,
            stored: Mutex::default(),
            temporary: Mutex::default(),
            live: Mutex::default(),
            hot: Mutex::default(),
            changes: broadcast::Sender::new(CHANGES),
            importing: Mutex::default(),
            purged_ms: Mutex::default(),
            ending: AtomicBool::new(false),
        }
    }

    /// The database on disk.
    pub(super) fn stored(&self, now_ms: i64) -> Result<Arc<Chats>, Error> {
        let mut stored = self.stored.lock();
        if let Some(chats) = &*stored {
            return Ok(Arc::clone(chats));
        }
        let chats = Arc::new(Chats::open(&self.path, now_ms)?);
        if chats.interrupted() > 0 {
            tracing::info!(answers = chats.interrupted(), "answers were interrupted when the daemon last stopped");
        }
        *stored = Some(Arc::clone(&chats));
        Ok(chats)
    }

    /// The database in memory.
    pub(super) fn temporary(&self) -> Result<Arc<Chats>, Error> {
        let mut temporary = self.temporary.lock();
        if let Some(chats) = &*temporary {
            return Ok(Arc::clone(chats));
        }
        let chats = Arc::new(Chats::in_memory()?);
        *temporary = Some(Arc::clone(&chats));
        Ok(chats)
    }
}
