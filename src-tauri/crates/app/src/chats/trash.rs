//! The trash: deleted chats can be restored for thirty days.

use std::collections::BTreeSet;

use cairn_chats::{Chat, ChatEvent, Chats, ChatsError};

use super::error::Error;
use super::handle::ChatSessions;
use super::ids::{OWNER, is_id, is_temporary, owner};
use crate::values::Timestamp;
use cairn_tier::Owner;

const DAY_MS: i64 = 24 * 60 * 60 * 1000;
/// Retention of a chat in the trash.
const RETENTION_MS: i64 = 30 * DAY_MS;
/// Shortest time between two purges. Lists of chats trigger them.
const BETWEEN_PURGES_MS: i64 = 60 * 60 * 1000;

impl ChatSessions {
    /// Stops the chat's answer and moves the chat to the trash. With `forever`, or if the chat is temporary, deletes
    /// the chat and its cached rows; copies in other files are removed within seconds. A chat in the trash stays there: a
    /// browser may repeat a request whose response was lost.
    ///
    /// # Errors
    /// If the chat does not exist or cannot be written.
    pub async fn delete_chat(&self, id: &str, forever: bool) -> Result<(), Error> {
        self.stop_chat(id).await;
        let (sessions, id) = (self.clone(), id.to_owned());
        super::answering::blocking(move || {
            let chats = sessions.chats_of(&id)?;
            let in_trash = chats.chat(&id)?.row.deleted_at.is_some();
            if forever || is_temporary(&id) {
                // Cached rows first: if the daemon is killed in between, the chat still exists and can be deleted
                // again.
                sessions.cache.forget_owner(&owner(&id));
                chats.delete(&id)?;
                // Another request may have used the chat in between.
                sessions.cache.forget_owner(&owner(&id));
                if !is_temporary(&id) {
                    sessions.state.request_upkeep(&chats);
                }
            } else if !in_trash {
                chats.set_deleted(&id, Some(sessions.now_ms()))?;
            }
            let _ = sessions.state.changes.send(ChatEvent::Removed(id));
            Ok(())
        })
        .await
    }

    /// Restores a chat from the trash.
    ///
    /// # Errors
    /// If the chat does not exist or cannot be written.
    pub fn restore_chat(&self, id: &str) -> Result<Chat, Error> {
        Ok(self.notify_with(self.chats_of(id)?.set_deleted(id, None)?))
    }

    /// Deletes chats that have been in the trash for thirty days, and cached rows of chats that no longer exist. Requests
    /// upkeep. The age is measured at the earlier of now and the last purge, so a clock that is ahead deletes nothing
    /// early.
    pub(super) fn purge_trash(&self) -> Result<(), Error> {
        let now_ms = self.now_ms();
        let last_ms = *self.state.purged_ms.lock();
        if last_ms.is_some_and(|last_ms| (0..BETWEEN_PURGES_MS).contains(&now_ms.saturating_sub(last_ms))) {
            return Ok(());
        }
        // The first purge of a daemon uses the modification time of the database.
        let modified = || self.state.path.metadata().and_then(|found| found.modified());
        let written = || modified().map_or(now_ms, |at| Timestamp(at).unix_ms());
        let by_ms = last_ms.unwrap_or_else(written).min(now_ms);
        let chats = self.state.stored(now_ms)?;
        *self.state.purged_ms.lock() = Some(now_ms);
        let purged = chats.purge(by_ms - RETENTION_MS);
        self.state.request_upkeep(&chats);
        purged?;
        self.forget_deleted_chats(&chats)
    }

    /// Deletes cached rows of chats that do not exist: they were purged, or deleted while the cache was off.
    fn forget_deleted_chats(&self, chats: &Chats) -> Result<(), Error> {
        let contexts = self.cache.contexts(usize::MAX);
        let owners: BTreeSet<&Owner> = contexts.iter().flat_map(|kept| &kept.context.owners).collect();
        for owner in owners {
            let Some(id) = owner.as_str().strip_prefix(OWNER).filter(|id| is_id(id)) else { continue };
            match chats.chat(id) {
                Err(ChatsError::ChatNotFound(_)) => drop(self.cache.forget_owner(owner)),
                Err(error) => return Err(error.into()),
                Ok(_) => {}
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
