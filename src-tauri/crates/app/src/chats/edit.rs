//! Use cases of one chat: create, read, change, search, prefetch.

use cairn_chats::{
    Chat, ChatChange, ChatEvent, ChatHit, ChatPrefetched, ChatRow, ChatStatus, ChatSummary, MessageState,
    MessagesResponse, NewChatRequest, StoredChat, TitleSource, Warmth,
};

use super::error::Error;
use super::handle::ChatSessions;
use super::ids::{TEMPORARY, new_id, owner};
use super::title;

/// Most messages of a page.
const MAX_PAGE: usize = 1000;

/// A part of a chat's path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PathPart {
    /// Last message of the path; the chat's head if `None`.
    pub leaf: Option<String>,
    /// Only messages before this one.
    pub before: Option<String>,
    /// Most messages; the last ones are returned.
    pub limit: usize,
}

impl ChatSessions {
    /// Creates a chat with a new id. The preset sets what `new` does not set. Blocks, as all these functions do.
    ///
    /// # Errors
    /// If the preset does not exist, or the chat cannot be written.
    pub fn create_chat(&self, mut new: NewChatRequest) -> Result<Chat, Error> {
        if let Some(name) = &new.preset {
            let preset = self.state.stored(self.now_ms())?.preset(name)?;
            new.model = new.model.or(preset.model);
            new.system = new.system.or(preset.system);
            new.think = new.think.or(preset.think);
            let own = new.options.replace(preset.options).unwrap_or_default();
            new.options.get_or_insert_default().extend(own);
        }
        let id = if new.temporary { format!("{TEMPORARY}{}", new_id()) } else { new_id() };
        let chat = self.chats_of(&id)?.create(&id, &new, self.now_ms())?;
        Ok(self.notify_with(chat))
    }

    /// Returns one chat.
    ///
    /// # Errors
    /// If the chat does not exist.
    pub fn chat(&self, id: &str) -> Result<Chat, Error> {
        let stored = self.chats_of(id)?.chat(id)?;
        let status = self.status(id);
        Ok(Chat { stored, status })
    }

    /// Changes a chat.
    ///
    /// # Errors
    /// If the chat does not exist or cannot be written.
    pub fn change_chat(&self, id: &str, mut change: ChatChange) -> Result<Chat, Error> {
        let chats = self.chats_of(id)?;
        let mut source = TitleSource::User;
        // A blank title requests a generated one.
        if change.title.as_ref().is_some_and(|title| title.trim().is_empty()) {
            let first = chats.path(id, None, None, usize::MAX)?.messages.into_iter().next();
            change.title = Some(first.map(|first| title::first_words(&first.content)).unwrap_or_default());
            source = TitleSource::FirstWords;
        }
        Ok(self.notify_with(chats.update(id, &change, source)?))
    }

    /// Returns a part of the path to a message.
    ///
    /// # Errors
    /// If the chat or message does not exist.
    pub fn chat_path(&self, id: &str, part: &PathPart) -> Result<MessagesResponse, Error> {
        let PathPart { leaf, before, limit } = part;
        let is_idle = || !self.state.live.lock().contains_key(id);
        let was_idle = is_idle();
        let limit = (*limit).min(MAX_PAGE);
        let mut path = self.chats_of(id)?.path(id, leaf.as_deref(), before.as_deref(), limit)?;
        // An answer without a stored end, for example because the disk was full, is not in progress.
        if was_idle && is_idle() {
            let open = path.messages.iter_mut().filter(|message| message.state == MessageState::Answering);
            open.for_each(|message| {
                message.state = MessageState::Interrupted;
                message.interrupt_calls();
            });
        }
        Ok(path)
    }

    /// Selects the branch that contains a message, to its end.
    ///
    /// # Errors
    /// If the chat or message does not exist, or the chat cannot be written.
    pub fn show_branch(&self, id: &str, message: &str) -> Result<Chat, Error> {
        let chats = self.chats_of(id)?;
        self.check_not_answering(id)?;
        chats.select_branch(id, message)?;
        self.chat(id)
    }

    /// Finds titles and messages that have all words of a search.
    ///
    /// # Errors
    /// If the chats cannot be read.
    pub fn search_chats(&self, search: &str, limit: usize) -> Result<Vec<ChatHit>, Error> {
        Ok(self.state.stored(self.now_ms())?.search(search, limit.min(MAX_PAGE))?)
    }

    /// Prefetches the cached rows of an opened chat. Returns their place before, and the number of prefixes to
    /// prefetch.
    ///
    /// # Errors
    /// If the chat does not exist.
    pub fn prefetch_chat(&self, id: &str) -> Result<ChatPrefetched, Error> {
        let warmth = self.chat(id)?.status.warmth;
        let contexts = match warmth {
            Warmth::Disk => self.cache.prefetch_owner(&owner(id)).unwrap_or(0),
            Warmth::Hot | Warmth::Warm | Warmth::Cold => 0,
        };
        Ok(ChatPrefetched { warmth, contexts: contexts as u64 })
    }

    /// Sends the list row of a changed chat to all subscribers, and returns its status.
    pub(super) fn notify(&self, row: ChatRow) -> ChatStatus {
        let status = self.status(&row.id);
        // The channel may have no receiver.
        let _ = self.state.changes.send(ChatEvent::Chat(Box::new(ChatSummary { row, status })));
        status
    }

    /// Sends the list row of a changed chat to all subscribers, and returns the chat.
    pub(super) fn notify_with(&self, stored: StoredChat) -> Chat {
        let status = self.notify(stored.row.clone());
        Chat { stored, status }
    }
}
