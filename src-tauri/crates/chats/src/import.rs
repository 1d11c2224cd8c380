//! Imports of whole chats from an export of Cairn or from another program.

use std::collections::{HashMap, HashSet};

use cairn_wire::excerpt;
use rusqlite::{Connection, OptionalExtension, params};

use crate::chat::index_title;
use crate::message::insert;
use crate::{
    ChatMessage, Chats, ChatsError, ChatsImported, ExportedChat, MessageState, SkippedChat, StoredChat, TitleSource,
};

/// Chat to import. Ids of messages are those of the source; the chat's id is the new one.
#[derive(Debug, Clone, PartialEq)]
pub struct ImportedChat {
    /// Source and the chat's id there. A chat is imported only once per origin.
    pub origin: String,
    /// The chat and its messages. The default of the head is the last message.
    pub export: ExportedChat,
}

/// Handling of imported chats that exist in the trash.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TrashPolicy {
    /// Restore the chat unchanged: the user imports an export to get its chats.
    Restore,
    /// Keep the chat in the trash: another program's file is imported repeatedly, for its new chats.
    Keep,
}

impl Chats {
    /// Adds all consistent chats that do not exist yet, in one transaction.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn import(&self, chats: &[ImportedChat], trash: TrashPolicy) -> Result<ChatsImported, ChatsError> {
        self.write(|connection| {
            let mut report = ChatsImported::default();
            for chat in chats {
                if let Some(existing) = find_existing(connection, chat)? {
                    if existing.in_trash && trash == TrashPolicy::Restore {
                        connection.execute("UPDATE chats SET deleted_ms = NULL WHERE row = ?1", [existing.row])?;
                        report.chats += 1;
                        report.messages += existing.messages;
                    } else {
                        report.present += 1;
                    }
                } else if let Some(reason) = chat.inconsistency() {
                    report.skipped.push(SkippedChat { title: chat.export.chat.row.title.clone(), reason });
                } else {
                    insert_chat(connection, chat)?;
                    report.chats += 1;
                    report.messages += chat.export.messages.len() as u64;
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
        for message in &self.export.messages {
            if let Some(parent) = message.parent.as_deref().filter(|parent| !ids.contains(parent)) {
                return Some(format!(
                    "the message {:?} follows {:?}, which does not come before it",
                    excerpt(&message.id),
                    excerpt(parent)
                ));
            }
            if !ids.insert(message.id.as_str()) {
                return Some(format!("two messages have the id {:?}", excerpt(&message.id)));
            }
        }
        let head = self.export.chat.head.as_deref().filter(|head| !ids.contains(head))?;
        Some(format!("the head {:?} is not among the messages", excerpt(head)))
    }
}

/// A chat that is here already.
struct ExistingChat {
    row: i64,
    messages: u64,
    in_trash: bool,
}

fn find_existing(connection: &Connection, imported: &ImportedChat) -> Result<Option<ExistingChat>, ChatsError> {
    let sql = "SELECT row, messages, deleted_ms IS NOT NULL FROM chats WHERE origin = ?1 OR id = ?1 OR id = ?2";
    let found = connection.prepare_cached(sql)?.query_row([&imported.origin, &imported.export.chat.row.id], |row| {
        let messages = row.get::<_, i64>(1)?.unsigned_abs();
        Ok(ExistingChat { row: row.get(0)?, messages, in_trash: row.get(2)? })
    });
    Ok(found.optional()?)
}

fn insert_chat(connection: &Connection, imported: &ImportedChat) -> Result<(), ChatsError> {
    let ExportedChat { chat: StoredChat { row, system, options, think, collection, head, .. }, messages } =
        &imported.export;
    let title_source = if row.title.is_empty() { TitleSource::None } else { TitleSource::User };
    connection.execute(
        "INSERT INTO chats (id, origin, title, titled, model, folder, pinned, created_ms, updated_ms, system, options, think,
             collection)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13)",
        params![
            row.id,
            imported.origin,
            row.title,
            title_source as i64,
            row.model,
            row.folder,
            row.pinned,
            row.created_at.unix_ms(),
            row.updated_at.unix_ms(),
            system,
            serde_json::to_string(options)?,
            think.as_ref().map(serde_json::to_string).transpose()?,
            collection,
        ],
    )?;
    let chat_row = connection.last_insert_rowid();
    index_title(connection, chat_row, &row.title)?;
    let mut rows: HashMap<&str, i64> = HashMap::new();
    let mut last = None;
    for message in messages {
        let parent = message.parent.as_deref().and_then(|parent| rows.get(parent)).copied();
        let new = match message.state {
            // An answer that was in progress during the export.
            MessageState::Answering => insert(
                connection,
                chat_row,
                parent,
                &ChatMessage { state: MessageState::Interrupted, ..message.clone() },
            )?,
            _ => insert(connection, chat_row, parent, message)?,
        };
        rows.insert(&message.id, new);
        last = Some(new);
    }
    let head = head.as_deref().and_then(|head| rows.get(head)).copied().or(last);
    connection.execute("UPDATE chats SET head = ?2 WHERE row = ?1", params![chat_row, head])?;
    Ok(())
}
