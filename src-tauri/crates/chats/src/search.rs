//! A search over all chats that are not in the trash: titles first, then messages, the newest first.
//!
//! By relevance would be slower, because every match would have to be weighed, and whoever looks for something said in a chat
//! mostly means what was said lately.

use rusqlite::params;

use crate::{Chats, ChatsError, MessageId, Snippet, words};

/// Something that was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hit {
    /// The chat.
    pub chat: String,
    /// Its title.
    pub title: String,
    /// The message; none where the title was found.
    pub message: Option<MessageId>,
    /// What was found.
    pub snippet: Snippet,
}

impl Chats {
    /// Titles and messages that have all the words, or words that begin so.
    ///
    /// # Errors
    /// Where the file cannot be read.
    pub fn search(&self, search: &str, limit: usize) -> Result<Vec<Hit>, ChatsError> {
        let Some(expression) = words::expression(search) else { return Ok(Vec::new()) };
        self.read(|connection| {
            let most = |left: usize| i64::try_from(left).unwrap_or(i64::MAX);
            let mut statement = connection.prepare_cached(
                "SELECT chats.id, chats.title FROM found_titles JOIN chats ON chats.row = found_titles.rowid
                 WHERE found_titles MATCH ?1 AND chats.deleted_ms IS NULL ORDER BY found_titles.rowid DESC LIMIT ?2",
            )?;
            let titles = statement.query_map(params![expression, most(limit)], |row| {
                let title: String = row.get(1)?;
                let snippet = words::snippet(&title, search);
                Ok(Hit { chat: row.get(0)?, title, message: None, snippet })
            })?;
            let mut hits = titles.collect::<Result<Vec<_>, _>>()?;
            let mut statement = connection.prepare_cached(
                "SELECT chats.id, chats.title, messages.row, messages.content FROM found_messages
                 CROSS JOIN messages ON messages.row = found_messages.rowid CROSS JOIN chats ON chats.row = messages.chat
                 WHERE found_messages MATCH ?1 AND chats.deleted_ms IS NULL ORDER BY found_messages.rowid DESC LIMIT ?2",
            )?;
            let messages = statement.query_map(params![expression, most(limit - hits.len())], |row| {
                let snippet = words::snippet(&row.get::<_, String>(3)?, search);
                Ok(Hit { chat: row.get(0)?, title: row.get(1)?, message: Some(MessageId(row.get(2)?)), snippet })
            })?;
            hits.extend(messages.collect::<Result<Vec<_>, _>>()?);
            Ok(hits)
        })
    }
}
