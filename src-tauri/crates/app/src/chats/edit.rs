//! Use cases of one chat: create, read, change, search, prefetch.

use cairn_chats::{Chat, ChatRow, ChatUpdate, MessageId, MessagePath, MessageState, NewChat, SearchHit, TitleSource};

use super::changes::Changed;
use super::error::Error;
use super::handle::ChatSessions;
use super::ids::{TEMPORARY, new_id, owner};
use super::summary::{Summary, Warmth};
use super::title;

/// Most messages of a page.
const MAX_PAGE: usize = 1000;

/// A part of a chat's path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PathPart {
    /// Last message of the path; the chat's head if `None`.
    pub leaf: Option<MessageId>,
    /// Only messages before this one.
    pub before: Option<MessageId>,
    /// Most messages; the last ones are returned.
    pub limit: usize,
}

impl ChatSessions {
    /// Creates a chat with a new id. The preset sets what `new` does not set. Blocks, as all these functions do.
    ///
    /// # Errors
    /// If the preset does not exist, or the chat cannot be written.
    pub fn create_chat(&self, mut new: NewChat, temporary: bool) -> Result<(Chat, Summary), Error> {
        if let Some(name) = &new.preset {
            let preset = self.state.stored(self.now_ms())?.preset(name)?;
            new.model = new.model.or(preset.model);
            new.system = new.system.or(preset.system);
            new.think = new.think.or(preset.think);
            let own = std::mem::replace(&mut new.options, preset.options);
            new.options.extend(own);
        }
        new.id = if temporary { format!("{TEMPORARY}{}", new_id()) } else { new_id() };
        let chat = self.chats_of(&new.id)?.create(&new, self.now_ms())?;
        Ok((chat.clone(), self.notify(chat.row)))
    }

    /// Returns one chat.
    ///
    /// # Errors
    /// If the chat does not exist.
    pub fn kept_chat(&self, id: &str) -> Result<(Chat, Summary), Error> {
        let chat = self.chats_of(id)?.chat(id)?;
        Ok((chat.clone(), self.summary(chat.row)))
    }

    /// Changes a chat.
    ///
    /// # Errors
    /// If the chat does not exist or cannot be written.
    pub fn change_chat(&self, id: &str, mut change: ChatUpdate) -> Result<(Chat, Summary), Error> {
        let chats = self.chats_of(id)?;
        // An empty title requests a generated one.
        if change.title.as_ref().is_some_and(|(title, _)| title.trim().is_empty()) {
            let first = chats.path(id, None, None, usize::MAX)?.messages.into_iter().next();
            let title = first.map(|first| title::first_words(&first.body.content)).unwrap_or_default();
            change.title = Some((title, TitleSource::FirstWords));
        }
        let chat = chats.update(id, &change)?;
        Ok((chat.clone(), self.notify(chat.row)))
    }

    /// Returns a part of the path to a message.
    ///
    /// # Errors
    /// If the chat or message does not exist.
    pub fn chat_path(&self, id: &str, part: PathPart) -> Result<MessagePath, Error> {
        let PathPart { leaf, before, limit } = part;
        let is_idle = || !self.state.live.lock().contains_key(id);
        let was_idle = is_idle();
        let mut path = self.chats_of(id)?.path(id, leaf, before, limit.min(MAX_PAGE))?;
        // An answer without a stored end, for example because the disk was full, is not in progress.
        if was_idle && is_idle() {
            let open = path.messages.iter_mut().filter(|message| message.body.state == MessageState::Answering);
            open.for_each(|message| message.body.state = MessageState::Interrupted);
        }
        Ok(path)
    }

    /// Selects the branch that contains a message, to its end.
    ///
    /// # Errors
    /// If the chat or message does not exist, or the chat cannot be written.
    pub fn show_branch(&self, id: &str, message: MessageId) -> Result<(Chat, Summary), Error> {
        let chats = self.chats_of(id)?;
        self.check_not_answering(id)?;
        chats.select_branch(id, message)?;
        self.kept_chat(id)
    }

    /// Finds titles and messages that have all words of a search.
    ///
    /// # Errors
    /// If the chats cannot be read.
    pub fn search_chats(&self, search: &str, limit: usize) -> Result<Vec<SearchHit>, Error> {
        Ok(self.state.stored(self.now_ms())?.search(search, limit.min(MAX_PAGE))?)
    }

    /// Prefetches the cached rows of an opened chat. Returns their place before, and the number of prefixes to
    /// prefetch.
    ///
    /// # Errors
    /// If the chat does not exist.
    pub fn prefetch_chat(&self, id: &str) -> Result<(Warmth, usize), Error> {
        let (_, summary) = self.kept_chat(id)?;
        let contexts = match summary.warmth {
            Warmth::Disk => self.cache.prefetch_owner(&owner(id)).unwrap_or(0),
            Warmth::Hot | Warmth::Warm | Warmth::Cold => 0,
        };
        Ok((summary.warmth, contexts))
    }

    /// Sends the list row of a changed chat to all subscribers, and returns it.
    pub(super) fn notify(&self, row: ChatRow) -> Summary {
        let summary = self.summary(row);
        // The channel may have no receiver.
        let _ = self.state.changes.send(Changed::Chat(Box::new(summary.clone())));
        summary
    }
}
