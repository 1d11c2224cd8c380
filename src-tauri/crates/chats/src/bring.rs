//! Whole chats that come from elsewhere: from an export of ours, or from another program.

use std::collections::HashMap;

use rusqlite::{Connection, OptionalExtension, params};
use serde_json::Value;

use crate::chat::index_title;
use crate::message::insert;
use crate::{Chats, ChatsError, MessageId, NewChat, Said, Titled};

/// A chat that is to be brought, with all its branches.
#[derive(Debug, Clone, PartialEq)]
pub struct Brought {
    /// What is new of it. Its id is that of the chat here.
    pub chat: NewChat,
    /// Where it comes from and what it is called there, so that it is brought once.
    pub origin: String,
    /// Whether it stays on top.
    pub pinned: bool,
    /// When it was made, in milliseconds since 1970.
    pub created_ms: i64,
    /// When something was last said.
    pub updated_ms: i64,
    /// What the head is called there; the last message when none.
    pub head: Option<String>,
    /// The messages, each after the one that it follows.
    pub messages: Vec<BroughtMessage>,
}

/// A message of a chat that is to be brought.
#[derive(Debug, Clone, PartialEq)]
pub struct BroughtMessage {
    /// What it is called there.
    pub id: String,
    /// What the message before it is called there.
    pub parent: Option<String>,
    /// What it says.
    pub said: Said,
}

/// What becomes of a chat that is here, but in the trash.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Trashed {
    /// It comes back as it is here: whoever brings an export wants what is in it.
    Back,
    /// It stays there: the same file of another program is brought again and again, for what is new in it.
    Stays,
}

/// What was brought.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Arrived {
    /// Ids of chats that are new, or came out of the trash.
    pub chats: Vec<String>,
    /// Their messages.
    pub messages: u64,
    /// Chats that were here.
    pub present: u64,
    /// Titles of chats that make no sense, and why.
    pub skipped: Vec<(String, String)>,
}

impl Chats {
    /// Adds whole chats: all of those that make sense and are not here, or none when one cannot be written.
    ///
    /// # Errors
    /// Where they cannot be written.
    pub fn bring(&self, brought: &[Brought], trashed: Trashed) -> Result<Arrived, ChatsError> {
        self.write(|connection| {
            let mut arrived = Arrived::default();
            for chat in brought {
                if let Some(here) = here(connection, chat)? {
                    if here.trashed && trashed == Trashed::Back {
                        connection.execute("UPDATE chats SET deleted_ms = NULL WHERE row = ?1", [here.row])?;
                        arrived.chats.push(here.id);
                        arrived.messages += here.messages;
                    } else {
                        arrived.present += 1;
                    }
                } else if let Some(reason) = chat.flaw() {
                    arrived.skipped.push((chat.chat.title.clone().unwrap_or_default(), reason));
                } else {
                    bring(connection, chat)?;
                    arrived.chats.push(chat.chat.id.clone());
                    arrived.messages += chat.messages.len() as u64;
                }
            }
            Ok(arrived)
        })
    }
}

impl Brought {
    /// Why it makes no sense.
    fn flaw(&self) -> Option<String> {
        let mut known = std::collections::HashSet::new();
        for message in &self.messages {
            if let Some(parent) = message.parent.as_deref().filter(|parent| !known.contains(parent)) {
                return Some(format!("the message {:?} follows {parent:?}, which does not come before it", message.id));
            }
            if !known.insert(message.id.as_str()) {
                return Some(format!("two messages are called {:?}", message.id));
            }
        }
        let head = self.head.as_deref().filter(|head| !known.contains(head))?;
        Some(format!("the message {head:?}, which is to be shown, is not among its messages"))
    }
}

/// A chat that is here already.
struct Here {
    row: i64,
    id: String,
    messages: u64,
    trashed: bool,
}

fn here(connection: &Connection, brought: &Brought) -> Result<Option<Here>, ChatsError> {
    let sql = "SELECT row, id, messages, deleted_ms IS NOT NULL FROM chats WHERE origin = ?1 OR id = ?1 OR id = ?2";
    let found = connection.prepare_cached(sql)?.query_row([&brought.origin, &brought.chat.id], |row| {
        let messages = row.get::<_, i64>(2)?.unsigned_abs();
        Ok(Here { row: row.get(0)?, id: row.get(1)?, messages, trashed: row.get(3)? })
    });
    Ok(found.optional()?)
}

fn bring(connection: &Connection, brought: &Brought) -> Result<(), ChatsError> {
    let new = &brought.chat;
    let title = new.title.as_deref().unwrap_or_default();
    let titled = if title.is_empty() { Titled::Not } else { Titled::Person };
    connection.execute(
        "INSERT INTO chats (id, origin, title, titled, model, folder, pinned, created_ms, updated_ms, system, options, think)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12)",
        params![
            new.id,
            brought.origin,
            title,
            titled as i64,
            new.model,
            new.folder,
            brought.pinned,
            brought.created_ms,
            brought.updated_ms,
            new.system,
            serde_json::to_string(&new.options)?,
            new.think.as_ref().map(Value::to_string),
        ],
    )?;
    let chat_row = connection.last_insert_rowid();
    index_title(connection, chat_row, title)?;
    let mut rows: HashMap<&str, i64> = HashMap::new();
    let mut last = None;
    for message in &brought.messages {
        let parent = message.parent.as_deref().and_then(|parent| rows.get(parent)).copied().map(MessageId);
        let row = insert(connection, chat_row, parent, &message.said)?;
        rows.insert(&message.id, row);
        last = Some(row);
    }
    let head = brought.head.as_deref().and_then(|head| rows.get(head)).copied().or(last);
    connection.execute("UPDATE chats SET head = ?2 WHERE row = ?1", params![chat_row, head])?;
    Ok(())
}
