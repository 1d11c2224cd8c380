//! The trash: what is deleted can be restored for thirty days.

use std::collections::BTreeSet;

use cairn_chats::{Chat, Chats, ChatsError};

use super::changes::Changed;
use super::error::Error;
use super::handle::ChatSessions;
use super::ids::{OWNER, is_id, is_temporary, ms, owner};
use super::summary::Summary;
use cairn_tier::Owner;

const DAY_MS: i64 = 24 * 60 * 60 * 1000;
/// How long a chat stays in the trash.
const KEPT_MS: i64 = 30 * DAY_MS;
/// How often the trash is gone through, while somebody lists chats.
const BETWEEN_PURGES_MS: i64 = 60 * 60 * 1000;

impl ChatSessions {
    /// Puts a chat into the trash, after its answer was stopped; deletes it for ever where that is asked for, or where it is temporary.
    /// Then what was computed for it is deleted too. One that is in the trash stays there: a browser may repeat a request whose
    /// answer it has not seen.
    ///
    /// # Errors
    /// When there is none, or it cannot be written.
    pub async fn delete_chat(&self, id: &str, forever: bool) -> Result<(), Error> {
        self.stop_chat(id).await;
        let (sessions, id) = (self.clone(), id.to_owned());
        super::answering::blocking(move || {
            let chats = sessions.chats_of(&id)?;
            let in_trash = chats.chat(&id)?.row.deleted_ms.is_some();
            if forever || is_temporary(&id) {
                // First what was computed: a chat that is left by a daemon that is killed in between can be deleted again.
                sessions.cache.forget_owner(&owner(&id));
                chats.delete(&id)?;
                // Somebody may have asked in it meanwhile.
                sessions.cache.forget_owner(&owner(&id));
            } else if !in_trash {
                chats.set_deleted(&id, Some(sessions.now_ms()))?;
            }
            let _ = sessions.state.changes.send(Changed::Removed(id));
            Ok(())
        })
        .await
    }

    /// Takes a chat out of the trash.
    ///
    /// # Errors
    /// When there is none, or it cannot be written.
    pub fn restore_chat(&self, id: &str) -> Result<(Chat, Summary), Error> {
        let chat = self.chats_of(id)?.set_deleted(id, None)?;
        Ok((chat.clone(), self.notify(chat.row)))
    }

    /// Deletes for ever what has been in the trash for thirty days, by the clock of now and by that of the last look: one that is wrong
    /// for a while deletes nothing early. Then what was computed for chats that are no more.
    pub(super) fn purge_trash(&self) -> Result<(), Error> {
        let now_ms = self.now_ms();
        let last_ms = *self.state.purged_ms.lock();
        if last_ms.is_some_and(|last_ms| (0..BETWEEN_PURGES_MS).contains(&now_ms.saturating_sub(last_ms))) {
            return Ok(());
        }
        // The first look of a daemon goes by when the file was last written.
        let written = || self.state.path.metadata().and_then(|found| found.modified()).map_or(now_ms, ms);
        let by_ms = last_ms.unwrap_or_else(written).min(now_ms);
        let chats = self.state.stored(now_ms)?;
        *self.state.purged_ms.lock() = Some(now_ms);
        chats.purge(by_ms - KEPT_MS)?;
        self.forget_the_gone(&chats)
    }

    /// Deletes what was computed for chats that are not there: they were purged, or deleted while nothing was kept.
    fn forget_the_gone(&self, chats: &Chats) -> Result<(), Error> {
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
