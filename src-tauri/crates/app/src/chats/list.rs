//! Lists of chats, and where the cached context of each is.

use std::collections::HashMap;

use cairn_chats::{ChatFilter, ChatRow, ChatStatus, ChatSummary, Chats, ChatsResponse, Repair, Warmth};
use cairn_tier::{Owner, TierKind};

use super::error::{DescribeError, Error, repair_summary};
use super::events::ChatEvents;
use super::handle::ChatSessions;
use super::ids::{is_temporary, owner};
use crate::values::ErrorBody;

/// Most chats of a page.
const MAX_LIST: usize = 5000;

impl ChatSessions {
    /// Lists chats, last changed first: of one folder, of all folders, or of the trash.
    ///
    /// # Errors
    /// If `after` is not the start of a page.
    pub fn list_chats(&self, which: ChatFilter, after: Option<&str>, limit: usize) -> Result<ChatsResponse, Error> {
        if let Err(error) = self.purge_trash() {
            tracing::warn!(%error, "the trash was not purged");
        }
        let chats = self.state.stored(self.now_ms())?;
        let page = chats.list(&which, after, limit.min(MAX_LIST))?;
        let is_first = which == ChatFilter::Unpinned && after.is_none();
        let (mut pinned, mut folders) = (Vec::new(), Vec::new());
        if is_first {
            pinned = chats.list(&ChatFilter::Pinned, None, usize::MAX)?.chats;
            folders = chats.folders()?;
        }
        let near = self.warmth_by_owner();
        let summary = |row: ChatRow| ChatSummary { status: self.status_of(&row.id, &near), row };
        let summaries = |rows: Vec<ChatRow>| rows.into_iter().map(summary).collect();
        let notices = if is_first { self.notices(&chats) } else { Vec::new() };
        Ok(ChatsResponse { pinned: summaries(pinned), chats: summaries(page.chats), next: page.next, folders, notices })
    }

    /// Returns the notices since the daemon started: the last repair, and a failed erasure.
    fn notices(&self, chats: &Chats) -> Vec<ErrorBody> {
        let repaired = chats.last_repair().map(|repair| repair_notice(repair, self.describe));
        let not_erased = self.state.not_erased.lock();
        repaired.into_iter().chain(not_erased.as_ref().map(self.describe)).collect()
    }

    /// Lists temporary chats, last changed first.
    ///
    /// # Errors
    /// If the database in memory cannot be opened.
    pub fn list_temporary_chats(&self) -> Result<ChatsResponse, Error> {
        let page = self.state.temporary()?.list(&ChatFilter::Unpinned, None, MAX_LIST)?;
        let summary = |row: ChatRow| ChatSummary { status: self.status(&row.id), row };
        Ok(ChatsResponse { chats: page.chats.into_iter().map(summary).collect(), ..ChatsResponse::default() })
    }

    /// Subscribes to changes.
    #[must_use]
    pub fn chat_events(&self) -> ChatEvents {
        ChatEvents(self.state.changes.subscribe())
    }

    pub(super) fn status(&self, id: &str) -> ChatStatus {
        self.status_of(id, &self.warmth_by_owner())
    }

    fn status_of(&self, id: &str, near: &HashMap<Owner, Warmth>) -> ChatStatus {
        let answering = self.state.live.lock().contains_key(id);
        let hot = self.state.hot.lock().contains_key(id);
        let temporary = is_temporary(id);
        // A chat that waits for its first answer is not hot yet: its prompt is being computed.
        let warmth = match hot {
            // Rows of a temporary chat are not cached.
            _ if temporary => Warmth::Cold,
            true => Warmth::Hot,
            false => near.get(&owner(id)).copied().unwrap_or_default(),
        };
        ChatStatus { warmth, answering, temporary }
    }

    /// Nearest tier of each owner's contexts. Forgets chats of unloaded models first.
    fn warmth_by_owner(&self) -> HashMap<Owner, Warmth> {
        self.forget_unloaded();
        let mut near = HashMap::new();
        for kept in self.cache.contexts(usize::MAX) {
            let has =
                |tier: TierKind| kept.context.bytes_by_tier.iter().any(|(held, bytes)| *held == tier && *bytes > 0);
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

/// Describes a repair. Omits the damaged file if an erasure has removed it. Interfaces then show the English text.
fn repair_notice(repair: Repair, describe: DescribeError) -> ErrorBody {
    let removed = (!repair.set_aside.exists()).then(|| repair_summary(&repair));
    let mut notice = describe(&Error::Repaired(repair));
    if let Some(summary) = removed {
        notice.error = summary;
        notice.params.remove("path");
    }
    notice
}

#[cfg(test)]
mod tests;
