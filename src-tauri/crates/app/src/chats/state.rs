//! The state that all chats share: the databases, and answers in progress.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use cairn_chats::{ChatEvent, Chats, Repair};
use parking_lot::Mutex;
use tokio::sync::broadcast;

use super::error::Error;
use super::live::Live;
use crate::clock::Clock;
use crate::upkeep::Upkeep;
use crate::values::Timestamp;

/// Capacity of the channel of changes. A slower receiver misses some.
const CHANGES: usize = 256;

/// The databases of chats, and answers in progress.
pub(super) struct ChatState {
    pub(super) path: PathBuf,
    clock: Clock,
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
    /// Error of the last erasure; `None` if it succeeded.
    pub(super) not_erased: Mutex<Option<Error>>,
    pub(super) upkeep: Arc<Upkeep>,
    /// The daemon is shutting down.
    pub(super) ending: AtomicBool,
}

impl ChatState {
    pub(super) fn new(path: PathBuf, clock: Clock) -> Self {
        Self::with_upkeep(path, clock, Upkeep::new())
    }

    fn with_upkeep(path: PathBuf, clock: Clock, upkeep: Arc<Upkeep>) -> Self {
        Self {
            path,
            clock,
            stored: Mutex::default(),
            temporary: Mutex::default(),
            live: Mutex::default(),
            hot: Mutex::default(),
            changes: broadcast::Sender::new(CHANGES),
            importing: Mutex::default(),
            purged_ms: Mutex::default(),
            not_erased: Mutex::default(),
            upkeep,
            ending: AtomicBool::new(false),
        }
    }

    /// Returns the database on disk, and opens it at the first call. Repairs damage that an earlier operation found.
    pub(super) fn stored(self: &Arc<Self>, now_ms: i64) -> Result<Arc<Chats>, Error> {
        let mut stored = self.stored.lock();
        if let Some(chats) = &*stored {
            if let Some(repair) = chats.repair_if_damaged(now_ms)? {
                log_repair(repair);
                // The damaged file may have chats that were deleted forever.
                self.request_upkeep(chats);
            }
            return Ok(Arc::clone(chats));
        }
        let chats = Arc::new(Chats::open(&self.path, now_ms)?);
        if let Some(repair) = chats.last_repair() {
            log_repair(repair);
        }
        if chats.interrupted() > 0 {
            tracing::info!(answers = chats.interrupted(), "answers were interrupted when the daemon last stopped");
        }
        *stored = Some(Arc::clone(&chats));
        // The last process may have ended between a deletion and its erasure.
        self.request_upkeep(&chats);
        Ok(chats)
    }

    /// Requests the erasure of chats that were deleted forever, and a backup if it is due. A failed erasure is repeated after a while
    /// and at shutdown.
    pub(super) fn request_upkeep(self: &Arc<Self>, chats: &Arc<Chats>) {
        let (state, chats) = (Arc::clone(self), Arc::clone(chats));
        self.upkeep.request(move || {
            // A repeated run may be much later than its request.
            let now_ms = Timestamp(state.clock.now()).unix_ms();
            let is_erased = state.erase_deleted(&chats, now_ms);
            if let Err(error) = chats.back_up_if_due(now_ms) {
                tracing::warn!(%error, "cannot back up the chats");
            }
            is_erased
        });
    }

    /// Removes all copies of chats that were deleted forever. A failure is logged and shown. Returns whether it succeeded.
    fn erase_deleted(&self, chats: &Chats, now_ms: i64) -> bool {
        let notice = chats.erase_deleted(now_ms).err().map(Error::NotErased);
        if let Some(notice) = &notice {
            tracing::warn!("{notice}");
        }
        let is_erased = notice.is_none();
        *self.not_erased.lock() = notice;
        is_erased
    }

    /// Erases deleted chats now, also if the last attempt failed. Closes the database on disk. Blocks.
    pub(super) fn close(self: &Arc<Self>) {
        let stored = self.stored.lock().clone();
        if let Some(chats) = &stored {
            self.request_upkeep(chats);
        }
        self.upkeep.finish();
        // SQLite removes the log when the last user drops the database. The next start then does not check the file.
        *self.stored.lock() = None;
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

fn log_repair(repair: Repair) {
    tracing::error!("{}", Error::Repaired(repair));
}

#[cfg(test)]
mod tests;
