//! The trash: what is deleted can be restored for thirty days.

use std::sync::atomic::Ordering;

use cairn_chats::Chat;

use super::{Changed, Summary, is_temporary, owner};
use crate::{App, Error};

const DAY_MS: i64 = 24 * 60 * 60 * 1000;
/// How long a chat stays in the trash.
const KEPT_MS: i64 = 30 * DAY_MS;
/// How often the trash is gone through, while somebody lists chats.
const BETWEEN_PURGES_MS: i64 = 60 * 60 * 1000;

impl App {
    /// Puts a chat into the trash, after its answer was stopped; deletes it for ever where that is asked for, or where it is temporary.
    /// Then what was computed for it is deleted too. One that is in the trash stays there: a browser may repeat a request whose
    /// answer it has not seen.
    ///
    /// # Errors
    /// When there is none, or it cannot be written.
    pub async fn delete_chat(&self, id: &str, forever: bool) -> Result<(), Error> {
        self.stop_chat(id).await;
        let (app, id) = (self.clone(), id.to_owned());
        super::answering::blocking(move || {
            let chats = app.chats_of(&id)?;
            let in_trash = chats.chat(&id)?.listed.deleted_ms.is_some();
            if forever || is_temporary(&id) {
                chats.delete(&id)?;
                app.forget_owner(&owner(&id));
            } else if !in_trash {
                chats.set_deleted(&id, Some(app.now_ms()))?;
            }
            let _ = app.notebook.changes.send(Changed::Removed(id));
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
        Ok((chat.clone(), self.told(chat.listed)))
    }

    /// Deletes for ever what has been in the trash for thirty days.
    pub(super) fn purge_trash(&self) -> Result<(), Error> {
        let now_ms = self.now_ms();
        let last_ms = self.notebook.purged_ms.load(Ordering::Relaxed);
        if now_ms.saturating_sub(last_ms) < BETWEEN_PURGES_MS {
            return Ok(());
        }
        self.notebook.purged_ms.store(now_ms, Ordering::Relaxed);
        for id in self.notebook.kept(now_ms)?.purge(now_ms - KEPT_MS)? {
            self.forget_owner(&owner(&id));
        }
        Ok(())
    }
}
