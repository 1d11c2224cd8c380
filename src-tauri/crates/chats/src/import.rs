//! Imports of whole chats from an export of Cairn or from another program.

use std::collections::{HashMap, HashSet};

use rusqlite::{Connection, OptionalExtension, params};
use serde_json::Value;

use crate::chat::index_title;
use crate::message::insert;
use crate::{Chats, ChatsError, MessageBody, MessageId, NewChat, TitleSource};

/// Chat to import, with all its branches.
#[derive(Debug, Clone, PartialEq)]
pub struct ImportedChat {
    /// Fields of the chat. The id is the new one.
    pub chat: NewChat,
    /// Source and the chat's id there. A chat is imported only once per origin.
    pub origin: String,
    /// Whether the chat is pinned.
    pub pinned: bool,
    /// Time of creation, in milliseconds since 1970.
    pub created_ms: i64,
    /// Time of the last message.
    pub updated_ms: i64,
    /// Id of the head in `messages`; by default the last message.
    pub head: Option<String>,
    /// Messages, parents before children.
    pub messages: Vec<ImportedMessage>,
}

/// Message of a chat to import.
#[derive(Debug, Clone, PartialEq)]
pub struct ImportedMessage {
    /// Id in the source.
    pub id: String,
    /// Id of the parent in the source.
    pub parent: Option<String>,
    /// Contents.
    pub body: MessageBody,
}

/// Handling of imported chats that exist in the trash.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TrashPolicy {
    /// Restore the chat unchanged: the user imports an export to get its chats.
    Restore,
    /// Keep the chat in the trash: another program's file is imported repeatedly, for its new chats.
    Keep,
}

/// Result of an import.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ImportReport {
    /// Ids of chats that were added or restored.
    pub chats: Vec<String>,
    /// Number of messages in `chats`.
    pub messages: u64,
    /// Number of chats that existed already.
    pub present: u64,
    /// Titles of inconsistent chats, each with the reason.
    pub skipped: Vec<(String, String)>,
}

impl Chats {
    /// Adds all consistent chats that do not exist yet, in one transaction.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn import(&self, chats: &[ImportedChat], trash: TrashPolicy) -> Result<ImportReport, ChatsError> {
        self.write(|connection| {
            let mut report = ImportReport::default();
            for chat in chats {
                if let Some(existing) = find_existing(connection, chat)? {
                    if existing.in_trash && trash == TrashPolicy::Restore {
                        connection.execute("UPDATE chats SET deleted_ms = NULL WHERE row = ?1", [existing.row])?;
                        report.chats.push(existing.id);
                        report.messages += existing.messages;
                    } else {
                        report.present += 1;
                    }
                } else if let Some(reason) = chat.inconsistency() {
                    report.skipped.push((chat.chat.title.clone().unwrap_or_default(), reason));
                } else {
                    insert_chat(connection, chat)?;
                    report.chats.push(chat.chat.id.clone());
                    report.messages += chat.messages.len() as u64;
                }
            }
            Ok(report)
        })
    }
}

impl ImportedChat {
    /// Returns the reason why the messages do not form a tree.
    fn inconsistency(&self) -> Option<String> {
        let mut ids = HashSet::new();
        for message in &self.messages {
            if let Some(parent) = message.parent.as_deref().filter(|parent| !ids.contains(parent)) {
                return Some(format!("the message {:?} follows {parent:?}, which does not come before it", message.id));
            }
            if !ids.insert(message.id.as_str()) {
                return Some(format!("two messages have the id {:?}", message.id));
            }
        }
        let head = self.head.as_deref().filter(|head| !ids.contains(head))?;
        Some(format!("the head {head:?} is not among the messages"))
    }
}

/// A chat that is here already.
struct ExistingChat {
    row: i64,
    id: String,
    messages: u64,
    in_trash: bool,
}

fn find_existing(connection: &Connection, imported: &ImportedChat) -> Result<Option<ExistingChat>, ChatsError> {
    let sql = "SELECT row, id, messages, deleted_ms IS NOT NULL FROM chats WHERE origin = ?1 OR id = ?1 OR id = ?2";
    let found = connection.prepare_cached(sql)?.query_row([&imported.origin, &imported.chat.id], |row| {
        let messages = row.get::<_, i64>(2)?.unsigned_abs();
        Ok(ExistingChat { row: row.get(0)?, id: row.get(1)?, messages, in_trash: row.get(3)? })
    });
    Ok(found.optional()?)
}

fn insert_chat(connection: &Connection, imported: &ImportedChat) -> Result<(), ChatsError> {
    let new = &imported.chat;
    let title = new.title.as_deref().unwrap_or_default();
    let title_source = if title.is_empty() { TitleSource::None } else { TitleSource::User };
    connection.execute(
        "INSERT INTO chats (id, origin, title, titled, model, folder, pinned, created_ms, updated_ms, system, options, think)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12)",
        params![
            new.id,
            imported.origin,
            title,
            title_source as i64,
            new.model,
            new.folder,
            imported.pinned,
            imported.created_ms,
            imported.updated_ms,
            new.system,
            serde_json::to_string(&new.options)?,
            new.think.as_ref().map(Value::to_string),
        ],
    )?;
    let chat_row = connection.last_insert_rowid();
    index_title(connection, chat_row, title)?;
    let mut rows: HashMap<&str, i64> = HashMap::new();
    let mut last = None;
    for message in &imported.messages {
        let parent = message.parent.as_deref().and_then(|parent| rows.get(parent)).copied().map(MessageId);
        let row = insert(connection, chat_row, parent, &message.body)?;
        rows.insert(&message.id, row);
        last = Some(row);
    }
    let head = imported.head.as_deref().and_then(|head| rows.get(head)).copied().or(last);
    connection.execute("UPDATE chats SET head = ?2 WHERE row = ?1", params![chat_row, head])?;
    Ok(())
}
