//! Lists of chats, how soon each could go on, and who is told when one changes.

use std::collections::HashMap;

use cairn_chats::{Listed, Which};
use tokio::sync::broadcast;

use super::{is_temporary, lock, owner};
use crate::{App, Error, Owner, Place};

/// The most chats of one list: 5,000 are one list, so that a window can scroll through them all.
const MAX_LIST: usize = 5000;

/// How soon a chat could go on: where what was computed of it is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Warmth {
    /// Nowhere.
    #[default]
    Cold,
    /// On this machine's disk, or elsewhere.
    Disk,
    /// In RAM.
    Warm,
    /// In the pages of a model in memory.
    Hot,
}

/// What lists say of a chat.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Summary {
    /// What is kept of it.
    pub listed: Listed,
    /// How soon it could go on.
    pub warmth: Warmth,
    /// Whether an answer is being computed.
    pub answering: bool,
    /// Whether it is only in memory.
    pub temporary: bool,
}

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

/// A change of a chat.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Changed {
    /// It is new, or looks different in a list.
    Chat(Box<Summary>),
    /// It is in the trash, or gone.
    Removed(String),
    /// So many others, which are not told one by one.
    Several(u64),
}

/// Tells of changes from when it was asked for.
pub struct Changes(broadcast::Receiver<Changed>);

impl Changes {
    /// The next change; none when the daemon ends.
    pub async fn next(&mut self) -> Option<Changed> {
        match self.0.recv().await {
            Ok(changed) => Some(changed),
            Err(broadcast::error::RecvError::Lagged(missed)) => Some(Changed::Several(missed)),
            Err(broadcast::error::RecvError::Closed) => None,
        }
    }
}

impl App {
    /// Lists chats, the last changed first: those of one folder, or of none in particular, or what is in the trash.
    ///
    /// # Errors
    /// When `after` is no end of a page.
    pub fn list_chats(&self, which: Which, after: Option<&str>, limit: usize) -> Result<Lists, Error> {
        self.purge_trash()?;
        let chats = self.notebook.kept(self.now_ms())?;
        let page = chats.list(&which, after, limit.min(MAX_LIST))?;
        let is_first = which == Which::Loose && after.is_none();
        let (mut pinned, mut folders) = (Vec::new(), Vec::new());
        if is_first {
            pinned = chats.list(&Which::Pinned, None, usize::MAX)?.chats;
            folders = chats.folders()?;
        }
        let near = self.near();
        let summaries =
            |chats: Vec<Listed>| chats.into_iter().map(|listed| self.summary_of(listed, &near)).collect::<Vec<_>>();
        Ok(Lists { pinned: summaries(pinned), chats: summaries(page.chats), next: page.next, folders })
    }

    /// Temporary chats, the last changed first.
    ///
    /// # Errors
    /// When there is no memory for them.
    pub fn list_temporary_chats(&self) -> Result<Vec<Summary>, Error> {
        let page = self.notebook.temporary()?.list(&Which::Loose, None, MAX_LIST)?;
        Ok(page.chats.into_iter().map(|listed| self.summary(listed)).collect())
    }

    /// Tells of every change from now on.
    #[must_use]
    pub fn chat_changes(&self) -> Changes {
        Changes(self.notebook.changes.subscribe())
    }

    pub(super) fn summary(&self, listed: Listed) -> Summary {
        self.summary_of(listed, &self.near())
    }

    fn summary_of(&self, listed: Listed, near: &HashMap<Owner, Warmth>) -> Summary {
        let answering = lock(&self.notebook.live).contains_key(&listed.id);
        let hot = lock(&self.notebook.hot).contains_key(&listed.id);
        let temporary = is_temporary(&listed.id);
        let warmth = match hot || answering {
            // Nothing of a temporary chat is left where its next message could find it.
            _ if temporary => Warmth::Cold,
            true => Warmth::Hot,
            false => near.get(&owner(&listed.id)).copied().unwrap_or_default(),
        };
        Summary { listed, warmth, answering, temporary }
    }

    /// How near the contexts of each owner are, after those chats were let go whose model has left memory.
    fn near(&self) -> HashMap<Owner, Warmth> {
        self.cool();
        let mut near = HashMap::new();
        for kept in self.contexts(usize::MAX) {
            let has = |place: Place| kept.context.held.iter().any(|(held, bytes)| *held == place && *bytes > 0);
            let warmth = match has(Place::Ram) {
                true => Warmth::Warm,
                false if has(Place::Ssd) || has(Place::Remote) => Warmth::Disk,
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
        let loaded: Vec<String> = self.engine.loaded().into_iter().map(|loaded| loaded.id).collect();
        lock(&self.notebook.hot).retain(|_, key| loaded.contains(key));
    }
}
