//! Branches of a chat: edited answers, deletion with its undo, and copies in a new chat.

use cairn_chats::{Chat, ChatRow, ChatsError, DeletedMessages, ExportedChat, ImportedChat, StoredChat, TrashPolicy};

use super::error::Error;
use super::handle::ChatSessions;
use super::ids::{TEMPORARY, is_temporary, new_id};
use super::title;
use crate::values::Timestamp;

impl ChatSessions {
    /// Adds an edited version of an answer and shows it. Blocks, as all these functions do.
    ///
    /// # Errors
    /// If the chat or message does not exist, the message is no answer, an answer is in progress, or the chat cannot be
    /// written.
    pub fn edit_answer(&self, id: &str, message: &str, content: &str) -> Result<Chat, Error> {
        let chats = self.chats_of(id)?;
        self.check_not_answering(id)?;
        if content.trim().is_empty() {
            return Err(Error::Empty);
        }
        if chats.message(id, message)?.role != "assistant" {
            return Err(Error::NotAnAnswer(message.to_owned()));
        }
        chats.edit_answer(id, message, content, self.now_ms())?;
        Ok(self.notify_with(chats.chat(id)?))
    }

    /// Deletes a message and all that follow it, and returns them for [`ChatSessions::restore_messages`].
    ///
    /// # Errors
    /// If the chat or message does not exist, an answer is in progress, or the chat cannot be written.
    pub fn delete_message(&self, id: &str, message: &str) -> Result<DeletedMessages, Error> {
        let chats = self.chats_of(id)?;
        self.check_not_answering(id)?;
        let deleted = chats.delete_branch(id, message, self.now_ms())?;
        if !is_temporary(id) {
            self.state.request_upkeep(&chats);
        }
        self.notify(chats.chat(id)?.row);
        Ok(deleted)
    }

    /// Adds deleted messages again.
    ///
    /// # Errors
    /// If the chat or the parent does not exist, an answer is in progress, or the chat cannot be written.
    pub fn restore_messages(&self, id: &str, deleted: &DeletedMessages) -> Result<Chat, Error> {
        let chats = self.chats_of(id)?;
        self.check_not_answering(id)?;
        chats.restore_branch(id, deleted, self.now_ms())?;
        Ok(self.notify_with(chats.chat(id)?))
    }

    /// Copies the messages up to one into a new chat with the same settings. A copy of a temporary chat is temporary.
    ///
    /// # Errors
    /// If the chat or message does not exist, or the chat cannot be written.
    pub fn fork_chat(&self, id: &str, message: &str, title: Option<String>) -> Result<Chat, Error> {
        let chats = self.chats_of(id)?;
        let original = chats.chat(id)?;
        let mut messages = chats.path(id, Some(message), None, usize::MAX)?.messages;
        messages.iter_mut().for_each(|message| message.versions.clear());
        let new = if is_temporary(id) { format!("{TEMPORARY}{}", new_id()) } else { new_id() };
        let now = Timestamp::from_unix_ms(self.now_ms());
        let mut title = title.filter(|title| !title.trim().is_empty()).unwrap_or_else(|| original.row.title.clone());
        title::bound(&mut title);
        let row = ChatRow {
            id: new.clone(),
            title,
            pinned: false,
            created_at: now,
            updated_at: now,
            deleted_at: None,
            ..original.row.clone()
        };
        let chat = StoredChat { row, head: Some(message.to_owned()), ..original };
        let fork = ImportedChat { origin: format!("cairn:{new}"), export: ExportedChat { chat, messages } };
        let report = chats.import(&[fork], TrashPolicy::Keep)?;
        if report.chats == 0 {
            return Err(ChatsError::MessageNotFound(message.to_owned()).into());
        }
        Ok(self.notify_with(chats.chat(&new)?))
    }
}
