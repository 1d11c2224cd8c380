//! Lists of chats, and where the cached context of each is.

use std::collections::HashMap;

use cairn_chats::{ChatFilter, ChatRow};
use cairn_tier::{Owner, TierKind};

use super::changes::Changes;
use super::error::Error;
use super::handle::ChatSessions;
use super::ids::{is_temporary, owner};
use super::summary::{Summary, Warmth};

/// The most chats that a list has, whatever is asked for.
const MAX_LIST: usize = 5000;

/// A page of chats.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Lists {
    /// Pinned ones, all of them; on the first page only.
    pub pinned: Vec<Summary>,
    /// The others.
    pub chats: Vec<Summary>,
    /// Where the next page begins.
    pub next: Option<String>,
    /// Folders with how many chats are in them; on the first page only.
    pub folders: Vec<(String, u64)>,
}

impl ChatSessions {
    /// Lists chats, the last changed first: those of one folder, or of none in particular, or what is in the trash.
    ///
    /// # Errors
    /// When `after` is no end of a page.
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
        let near = self.near();
        let summaries =
            |chats: Vec<ChatRow>| chats.into_iter().map(|row| self.summary_of(row, &near)).collect::<Vec<_>>();
        Ok(Lists { pinned: summaries(pinned), chats: summaries(page.chats), next: page.next, folders })
    }

    /// Temporary chats, the last changed first.
    ///
    /// # Errors
    /// When there is no memory for them.
    pub fn list_temporary_chats(&self) -> Result<Vec<Summary>, Error> {
        let page = self.state.temporary()?.list(&ChatFilter::Unpinned, None, MAX_LIST)?;
        Ok(page.chats.into_iter().map(|row| self.summary(row)).collect())
    }

    /// Receives every change from now on.
    #[must_use]
    pub fn chat_changes(&self) -> Changes {
        Changes(self.state.changes.subscribe())
    }

    pub(super) fn summary(&self, row: ChatRow) -> Summary {
        self.summary_of(row, &self.near())
    }

    fn summary_of(&self, row: ChatRow, near: &HashMap<Owner, Warmth>) -> Summary {
        let answering = self.state.live.lock().contains_key(&row.id);
        let hot = self.state.hot.lock().contains_key(&row.id);
        let temporary = is_temporary(&row.id);
        let warmth = match hot || answering {
            // Nothing of a temporary chat is left where its next message could find it.
            _ if temporary => Warmth::Cold,
            true => Warmth::Hot,
            false => near.get(&owner(&row.id)).copied().unwrap_or_default(),
        };
        Summary { row, warmth, answering, temporary }
    }

    /// How near the contexts of each owner are, after those chats were let go whose model has left memory.
    fn near(&self) -> HashMap<Owner, Warmth> {
        self.cool();
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

    /// Forgets that chats are in memory whose model is not.
    pub(super) fn cool(&self) {
        let loaded: Vec<String> = self.inference.loaded().into_iter().map(|loaded| loaded.id).collect();
        self.state.hot.lock().retain(|_, key| loaded.contains(key));
    }
}
