//! Branches of a chat's tree: edited answers, deletion, and its undo.

use std::collections::HashMap;

use cairn_wire::Timestamp;
use rusqlite::{Connection, params};

use crate::chat::row_of;
use crate::message::{insert, message, newest_leaf, row_id};
use crate::{ChatMessage, Chats, ChatsError, DeletedMessages, MessageState};

impl Chats {
    /// Adds an edited version of an answer and makes it the chat's head. It keeps the name of the model and the calls of tools, but
    /// not the thinking and the usage, which belong to the generated text.
    ///
    /// # Errors
    /// If the chat or the answer does not exist, or the file cannot be written.
    pub fn edit_answer(&self, chat: &str, id: &str, content: &str, now_ms: i64) -> Result<ChatMessage, ChatsError> {
        let row = row_id(id)?;
        self.write(|connection| {
            let chat_row = row_of(connection, chat)?;
            let original = message(connection, chat_row, row)?;
            let parent = original.parent.as_deref().map(row_id).transpose()?;
            let edited = ChatMessage {
                model: original.model,
                edited: true,
                steps: original.steps,
                ..ChatMessage::new(original.role, content, Timestamp::from_unix_ms(now_ms))
            };
            let added = insert(connection, chat_row, parent, &edited)?;
            set_head(connection, chat_row, Some(added), now_ms)?;
            message(connection, chat_row, added)
        })
    }

    /// Deletes a message and all that follow it. If the head is among them, the new head is the end of the newest other
    /// version of the message, or else its parent. [`Chats::erase_deleted`] then removes their copies.
    ///
    /// # Errors
    /// If the chat or the message does not exist, or the file cannot be written.
    pub fn delete_branch(&self, chat: &str, id: &str, now_ms: i64) -> Result<DeletedMessages, ChatsError> {
        let row = row_id(id)?;
        self.write(|connection| {
            let chat_row = row_of(connection, chat)?;
            let parent = message(connection, chat_row, row)?.parent.as_deref().map(row_id).transpose()?;
            let rows = branch(connection, row)?;
            let messages = rows.iter().map(|row| message(connection, chat_row, *row)).collect::<Result<Vec<_>, _>>()?;
            let head: Option<i64> =
                connection.query_row("SELECT head FROM chats WHERE row = ?1", [chat_row], |row| row.get(0))?;
            // A child has a greater row than its parent.
            for row in rows.iter().rev() {
                connection.prepare_cached("DELETE FROM found_messages WHERE rowid = ?1")?.execute([row])?;
                connection.prepare_cached("DELETE FROM messages WHERE row = ?1")?.execute([row])?;
            }
            let sql = "UPDATE chats SET messages = messages - ?2 WHERE row = ?1";
            connection.execute(sql, params![chat_row, i64::try_from(rows.len()).unwrap_or(i64::MAX)])?;
            connection.execute("INSERT OR IGNORE INTO erasures VALUES (?1)", [chat_row])?;
            if head.is_none_or(|head| rows.binary_search(&head).is_ok()) {
                let sql = "SELECT max(row) FROM messages WHERE parent IS ?1 AND chat = ?2";
                let sibling: Option<i64> = connection.query_row(sql, params![parent, chat_row], |row| row.get(0))?;
                let next = sibling.map(|sibling| newest_leaf(connection, sibling)).transpose()?;
                set_head(connection, chat_row, next.or(parent), now_ms)?;
            }
            let messages = messages.into_iter().map(|message| ChatMessage { versions: Vec::new(), ..message });
            Ok(DeletedMessages { messages: messages.collect(), head: head.map(|head| head.to_string()) })
        })
    }

    /// Adds deleted messages again, with new ids: the first below its parent, and each other one below a message before
    /// it. The head is that of before the deletion, if it is among them.
    ///
    /// # Errors
    /// If the chat or a parent does not exist, or the file cannot be written. Nothing is added then.
    pub fn restore_branch(&self, chat: &str, deleted: &DeletedMessages, now_ms: i64) -> Result<(), ChatsError> {
        self.write(|connection| {
            let chat_row = row_of(connection, chat)?;
            let mut rows: HashMap<&str, i64> = HashMap::new();
            for message in &deleted.messages {
                let parent = match message.parent.as_deref() {
                    Some(parent) if rows.is_empty() => Some(row_id(parent)?),
                    Some(parent) => {
                        let found = rows.get(parent).copied();
                        Some(found.ok_or_else(|| ChatsError::MessageNotFound(parent.to_owned()))?)
                    }
                    None if rows.is_empty() => None,
                    None => return Err(ChatsError::MessageNotFound(String::new())),
                };
                let row = match message.state {
                    // Nothing computes the rest of an answer that was deleted.
                    MessageState::Answering => {
                        let interrupted = ChatMessage { state: MessageState::Interrupted, ..message.clone() };
                        insert(connection, chat_row, parent, &interrupted)?
                    }
                    _ => insert(connection, chat_row, parent, message)?,
                };
                rows.insert(&message.id, row);
            }
            match deleted.head.as_deref().and_then(|head| rows.get(head)) {
                Some(head) => set_head(connection, chat_row, Some(*head), now_ms),
                None => Ok(()),
            }
        })
    }
}

/// Returns the rows of a message and all that follow it, in order.
fn branch(connection: &Connection, row: i64) -> rusqlite::Result<Vec<i64>> {
    let mut statement = connection.prepare_cached(
        "WITH RECURSIVE branch (row) AS (
             VALUES (?1) UNION ALL SELECT messages.row FROM messages JOIN branch ON messages.parent = branch.row
         )
         SELECT row FROM branch ORDER BY row",
    )?;
    statement.query_map([row], |row| row.get(0))?.collect()
}

fn set_head(connection: &Connection, chat_row: i64, head: Option<i64>, now_ms: i64) -> Result<(), ChatsError> {
    let sql = "UPDATE chats SET head = ?2, updated_ms = max(updated_ms, ?3) WHERE row = ?1";
    connection.prepare_cached(sql)?.execute(params![chat_row, head, now_ms])?;
    Ok(())
}
