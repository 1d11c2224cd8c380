//! Repair of a damaged file: `cairn-sqlite` copies the readable rows, and this module makes chats of them.

use std::path::PathBuf;

use cairn_sqlite::raise_sequence;
use rusqlite::Connection;

use crate::chat::index_title;
use crate::message;

/// First version with the table `erasures`.
const ERASURES_VERSION: usize = 3;

/// Result of a repair.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Repair {
    /// Damage that SQLite reported.
    pub reason: String,
    /// Path of the damaged file.
    pub set_aside: PathBuf,
    /// Number of chats in the new file.
    pub chats: u64,
    /// Number of messages in the new file.
    pub messages: u64,
    /// Whether some rows are from a backup. False if the new file is from an earlier attempt that failed.
    pub used_backup: bool,
}

impl From<cairn_sqlite::Repair> for Repair {
    fn from(repair: cairn_sqlite::Repair) -> Self {
        let (chats, messages) = (repair.rows("chats"), repair.rows("messages"));
        let cairn_sqlite::Repair { reason, set_aside, used_backup, .. } = repair;
        Self { reason, set_aside, chats, messages, used_backup }
    }
}

/// Completes a new file of this version with the readable rows: deletes chats that were deleted forever, connects messages and chats,
/// and fills the search index.
pub(crate) fn finish(connection: &Connection, version: usize) -> rusqlite::Result<()> {
    if version >= ERASURES_VERSION {
        connection.execute_batch(
            "DELETE FROM messages WHERE chat IN (SELECT chat FROM erasures);
             DELETE FROM chats WHERE row IN (SELECT chat FROM erasures);",
        )?;
        let erased = connection.query_row("SELECT coalesce(max(chat), 0) FROM erasures", [], |row| row.get(0))?;
        raise_sequence(connection, "chats", erased)?;
    }
    connect_rows(connection)?;
    index_all(connection)
}

/// Creates a chat for messages without their chat. Removes references to missing messages. Computes depths, counts and heads. A
/// message has a higher row than its parent, so there is no cycle.
fn connect_rows(connection: &Connection) -> rusqlite::Result<()> {
    connection.execute_batch(
        "INSERT INTO chats (row, id, title, titled, created_ms, updated_ms, options)
             SELECT chat, printf('%024x', chat), '', 0, min(created_ms), max(created_ms), '{}' FROM messages
             WHERE chat NOT IN (SELECT row FROM chats) GROUP BY chat;
         UPDATE messages SET parent = NULL WHERE parent IS NOT NULL AND NOT EXISTS (
             SELECT 1 FROM messages AS above
             WHERE above.row = messages.parent AND above.chat = messages.chat AND above.row < messages.row);
         WITH RECURSIVE tree (row, depth) AS (
             SELECT row, 0 FROM messages WHERE parent IS NULL
             UNION ALL SELECT messages.row, tree.depth + 1 FROM tree JOIN messages ON messages.parent = tree.row)
         UPDATE messages SET depth = tree.depth FROM tree WHERE tree.row = messages.row;
         UPDATE chats SET messages = (SELECT count(*) FROM messages WHERE chat = chats.row);
         UPDATE chats SET head = (SELECT max(row) FROM messages WHERE chat = chats.row)
             WHERE head IS NULL OR NOT EXISTS (SELECT 1 FROM messages WHERE row = chats.head AND chat = chats.row);",
    )
}

/// Fills the search index.
fn index_all(connection: &Connection) -> rusqlite::Result<()> {
    let mut titles = connection.prepare("SELECT row, title FROM chats WHERE title <> ''")?;
    let mut rows = titles.query([])?;
    while let Some(row) = rows.next()? {
        index_title(connection, row.get(0)?, row.get_ref(1)?.as_str()?)?;
    }
    let mut messages = connection.prepare("SELECT row, content FROM messages WHERE state <> 'answering'")?;
    let mut rows = messages.query([])?;
    while let Some(row) = rows.next()? {
        message::index(connection, row.get(0)?, row.get_ref(1)?.as_str()?)?;
    }
    Ok(())
}
