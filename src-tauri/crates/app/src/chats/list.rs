//! Lists of chats, and where the cached context of each is.

use std::collections::HashMap;

use cairn_chats::{ChatFilter, ChatRow};
use cairn_tier::{Owner, TierKind};

use super::changes::Changes;
use super::error::Error;
use super::handle::ChatSessions;
use super::ids::{is_temporary, owner};
use super::summary::{Summary, Warmth};

/// Most chats of a page.
const MAX_LIST: usize = 5000;

/// A page of chats.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Lists {
    /// All pinned chats; on the first page only.
    pub pinned: Vec<Summary>,
    /// The other chats.
    pub chats: Vec<Summary>,
    /// Cursor of the next page; `None` on the last page.
    pub next: Option<String>,
    /// Folders with their number of chats; on the first page only.
    pub folders: Vec<(String, u64)>,
}

impl ChatSessions {
    /// Lists chats, last changed first: of one folder, of all folders, or of the trash.
    ///
    /// # Errors
    /// If `after` is not the start of a page.
    pub fn list_chats(&self, which: ChatFilter, after: Option<&str>, limit: usize) -> Result<Lists, Error> {
        self.purge_trash()?;
        let chats = self.state.stored(self.now_ms())?;
        let page = chats.list(&which, after, limit.min(MAX_LIST))?;
        let is_first = which == ChatFilter::Unpinned && after.is_none();
        let (mut pinned, mut folders) = (Vec::new(), Vec::new());
        if is_first {
            pinned = chats.list(&ChatFilter::Pinned, None, usize::MAX)?.chats;
            folders = chats.folders()?;
        }
        let near = self.warmth_by_owner();
        let summaries =
            |chats: Vec<ChatRow>| chats.into_iter().map(|row| self.summary_of(row, &near)).collect::<Vec<_>>();
        Ok(Lists { pinned: summaries(pinned), chats: summaries(page.chats), next: page.next, folders })
    }

    /// Lists temporary chats, last changed first.
    ///
    /// # Errors
    /// If the database in memory cannot be opened.
    pub fn list_temporary_chats(&self) -> Result<Vec<Summary>, Error> {
        let page = self.state.temporary()?.list(&ChatFilter::Unpinned, None, MAX_LIST)?;
        Ok(page.chats.into_iter().map(|row| self.summary(row)).collect())
    }

    /// Subscribes to changes.
    #[must_use]
    pub fn chat_changes(&self) -> Changes {
        Changes(self.state.changes.subscribe())
    }

    pub(super) fn summary(&self, row: ChatRow) -> Summary {
        self.summary_of(row, &self.warmth_by_owner())
    }

    fn summary_of(&self, row: ChatRow, near: &HashMap<Owner, Warmth>) -> Summary {
        let answering = self.state.live.lock().contains_key(&row.id);
        let hot = self.state.hot.lock().contains_key(&row.id);
        let temporary = is_temporary(&row.id);
        let warmth = match hot || answering {
            // Rows of a temporary chat are not cached.
            _ if temporary => Warmth::Cold,
            true => Warmth::Hot,
            false => near.get(&owner(&row.id)).copied().unwrap_or_default(),
        };
        Summary { row, warmth, answering, temporary }
    }

    /// Nearest place of each owner's contexts. Forgets chats of unloaded models first.
    fn warmth_by_owner(&self) -> HashMap<Owner, Warmth> {
        self.forget_unloaded();
        let mut near = HashMap::new();
        for kept in self.cache.contexts(usize::MAX) {
            let has =
                |place: TierKind| kept.context.bytes_by_tier.iter().any(|(held, bytes)| *held == place && *bytes > 0);
            let warmth = match has(TierKind::Ram) {
                true => Warmth::Warm,
                false if has(TierKind::Ssd) || has(TierKind::Remote) => Warmth::Disk,
                false => Warmth::Cold,
            };
            for owner in kept.context.owners {
                let nearest = near.entry(owner).or_default();
                *nearest = warmth.max(*nearest);
            }
        }
        near
    }

    /// Removes chats of unloaded models from the hot chats.
    pub(super) fn forget_unloaded(&self) {
        let loaded: Vec<String> = self.inference.loaded().into_iter().map(|loaded| loaded.id).collect();
        self.state.hot.lock().retain(|_, key| loaded.contains(key));
    }
}
