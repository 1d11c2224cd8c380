//! A search over all chats that are not in the trash: titles first, then messages, the newest first.
//!
//! By relevance would be slower, because every match would have to be weighed, and whoever looks for something said in a chat
//! mostly means what was said lately.
//!
//! The index answers at once where it knows a word, or the beginning of one as long as those that it keeps (`schema`). For a longer
//! one it would gather all texts that have it before it names the first, which takes the longer the more there are. So the texts
//! that have the kept part of it are read, the newest first: of what many texts have, some of those have enough. Only where they have
//! not is the index asked for all of it, which then are few.

use rusqlite::{Connection, Row, params};

use crate::{Chats, ChatsError, MessageId, Snippet, words};

/// How much is read before the index is asked for a long beginning.
const READ_BYTES: usize = 512 * 1024;

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
            let left = limit - hits.len();
            let read = match words::likely(search) {
                Some(likely) => by_reading(connection, &likely, search, left)?,
                None => None,
            };
            hits.extend(match read {
                Some(messages) => messages,
                None => by_index(connection, &expression, search, left)?,
            });
            Ok(hits)
        })
    }
}

/// The messages that an expression finds, with their chats.
const FOUND: &str = "SELECT chats.id, chats.title, messages.row, messages.content FROM found_messages
    CROSS JOIN messages ON messages.row = found_messages.rowid CROSS JOIN chats ON chats.row = messages.chat
    WHERE found_messages MATCH ?1 AND chats.deleted_ms IS NULL ORDER BY found_messages.rowid DESC LIMIT ?2";

/// As many messages as are wanted, if those that a likely expression finds have so many before too much of them was read.
fn by_reading(
    connection: &Connection,
    likely: &str,
    search: &str,
    limit: usize,
) -> Result<Option<Vec<Hit>>, ChatsError> {
    let wanted = words::wanted(search);
    let mut statement = connection.prepare_cached(FOUND)?;
    let (mut rows, mut hits, mut read_bytes) = (statement.query(params![likely, i64::MAX])?, Vec::new(), 0);
    while hits.len() < limit {
        let Some(row) = rows.next()?.filter(|_| read_bytes < READ_BYTES) else { return Ok(None) };
        let content: &str = row.get_ref(3)?.as_str().map_err(rusqlite::Error::from)?;
        read_bytes += content.len();
        if words::has_all(content, &wanted) {
            hits.push(hit(row, search)?);
        }
    }
    Ok(Some(hits))
}

/// The newest messages that the index finds.
fn by_index(connection: &Connection, expression: &str, search: &str, limit: usize) -> Result<Vec<Hit>, ChatsError> {
    let mut statement = connection.prepare_cached(FOUND)?;
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    let hits = statement.query_map(params![expression, limit], |row| hit(row, search))?;
    Ok(hits.collect::<Result<_, _>>()?)
}

/// A message, of a row with its chat, the chat's title, itself and its text.
fn hit(row: &Row<'_>, search: &str) -> rusqlite::Result<Hit> {
    let snippet = words::snippet(row.get_ref(3)?.as_str()?, search);
    Ok(Hit { chat: row.get(0)?, title: row.get(1)?, message: Some(MessageId(row.get(2)?)), snippet })
}
