//! Use cases over one chat: create, read, change, search, prefetch.

use cairn_chats::{Chat, ChatRow, ChatUpdate, MessageId, MessagePath, MessageState, NewChat, SearchHit, TitleSource};

use super::changes::Changed;
use super::error::Error;
use super::handle::ChatSessions;
use super::ids::{TEMPORARY, new_id, owner};
use super::summary::{Summary, Warmth};
use super::title;

/// The most messages that a page has, whatever is asked for.
const MAX_PAGE: usize = 1000;

/// What of a chat's path is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PathPart {
    /// To which message it leads; to the chat's head when none.
    pub leaf: Option<MessageId>,
    /// Only what comes before this message.
    pub before: Option<MessageId>,
    /// How many messages at most, the last of them.
    pub limit: usize,
}

impl ChatSessions {
    /// Makes a chat. Its id is made here; what a preset says holds where `new` says nothing. Blocks, as all of these do.
    ///
    /// # Errors
    /// When there is no such preset, or it cannot be written.
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

    /// One chat.
    ///
    /// # Errors
    /// When there is none.
    pub fn kept_chat(&self, id: &str) -> Result<(Chat, Summary), Error> {
        let chat = self.chats_of(id)?.chat(id)?;
        Ok((chat.clone(), self.summary(chat.row)))
    }

    /// Changes a chat.
    ///
    /// # Errors
    /// When there is none, or it cannot be written.
    pub fn change_chat(&self, id: &str, mut change: ChatUpdate) -> Result<(Chat, Summary), Error> {
        let chats = self.chats_of(id)?;
        // An empty title is a wish for another one.
        if change.title.as_ref().is_some_and(|(title, _)| title.trim().is_empty()) {
            let first = chats.path(id, None, None, usize::MAX)?.messages.into_iter().next();
            let title = first.map(|first| title::first_words(&first.body.content)).unwrap_or_default();
            change.title = Some((title, TitleSource::FirstWords));
        }
        let chat = chats.update(id, &change)?;
        Ok((chat.clone(), self.notify(chat.row)))
    }

    /// Some of the messages that lead to one, the chat's head unless another is asked for.
    ///
    /// # Errors
    /// When there is no such chat or message.
    pub fn chat_path(&self, id: &str, part: PathPart) -> Result<MessagePath, Error> {
        let PathPart { leaf, before, limit } = part;
        let is_quiet = || !self.state.live.lock().contains_key(id);
        let was_quiet = is_quiet();
        let mut path = self.chats_of(id)?.path(id, leaf, before, limit.min(MAX_PAGE))?;
        // The end of an answer that could not be written, on a full disk for instance, is not waited for.
        if was_quiet && is_quiet() {
            let open = path.messages.iter_mut().filter(|message| message.body.state == MessageState::Answering);
            open.for_each(|message| message.body.state = MessageState::Interrupted);
        }
        Ok(path)
    }

    /// Shows the branch of a message from now on, as far as it goes.
    ///
    /// # Errors
    /// When there is no such chat or message, or it cannot be written.
    pub fn show_branch(&self, id: &str, message: MessageId) -> Result<(Chat, Summary), Error> {
        let chats = self.chats_of(id)?;
        self.not_answering(id)?;
        chats.select_branch(id, message)?;
        self.kept_chat(id)
    }

    /// Titles and messages that have all the words of a search.
    ///
    /// # Errors
    /// When the chats cannot be read.
    pub fn search_chats(&self, search: &str, limit: usize) -> Result<Vec<SearchHit>, Error> {
        Ok(self.state.stored(self.now_ms())?.search(search, limit.min(MAX_PAGE))?)
    }

    /// Brings what was computed for a chat near, since it was opened. Returns how near it was, and how many prefixes come.
    ///
    /// # Errors
    /// When there is no such chat.
    pub fn prefetch_chat(&self, id: &str) -> Result<(Warmth, usize), Error> {
        let (_, summary) = self.kept_chat(id)?;
        let contexts = match summary.warmth {
            Warmth::Disk => self.cache.prefetch_owner(&owner(id)).unwrap_or(0),
            Warmth::Hot | Warmth::Warm | Warmth::Cold => 0,
        };
        Ok((summary.warmth, contexts))
    }

    /// The list row of a chat that has changed, after all subscribers have received it.
    pub(super) fn notify(&self, row: ChatRow) -> Summary {
        let summary = self.summary(row);
        // There may be no receiver.
        let _ = self.state.changes.send(Changed::Chat(Box::new(summary.clone())));
        summary
    }
}
