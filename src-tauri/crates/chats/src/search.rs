//! Search over all chats outside the trash: titles first, then messages, the newest first.
//!
//! Ranking by relevance would be slower, because every match would need a score, and users mostly look for recent messages.
//!
//! The index is fast for whole words and for prefixes of the indexed lengths (`schema`). For a longer prefix FTS5 collects all
//! matches before it returns the first, which is slow for common words. So the search first reads the texts that match the
//! indexed part of each prefix, the newest first, and filters them. That finds enough hits for a common word. If too many bytes
//! were read without enough hits, the word is rare, and the index is queried for the whole prefix.

use rusqlite::{Connection, Row, params};

use crate::words::{self, Snippet};
use crate::{ChatHit, Chats, ChatsError};

/// Bytes of texts that are filtered before the index is queried for a long prefix.
const MAX_SCAN_BYTES: usize = 512 * 1024;

impl Chats {
    /// Finds titles and messages that contain all words of the search, or words with these prefixes.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn search(&self, search: &str, limit: usize) -> Result<Vec<ChatHit>, ChatsError> {
        let Some(expression) = words::expression(search) else { return Ok(Vec::new()) };
        self.read(|connection| {
            let sql_limit = |left: usize| i64::try_from(left).unwrap_or(i64::MAX);
            let mut statement = connection.prepare_cached(
                "SELECT chats.id, chats.title FROM found_titles JOIN chats ON chats.row = found_titles.rowid
                 WHERE found_titles MATCH ?1 AND chats.deleted_ms IS NULL ORDER BY found_titles.rowid DESC LIMIT ?2",
            )?;
            let titles = statement.query_map(params![expression, sql_limit(limit)], |row| {
                let title: String = row.get(1)?;
                Ok(hit(row.get(0)?, None, words::snippet(&title, search), title))
            })?;
            let mut hits = titles.collect::<Result<Vec<_>, _>>()?;
            let left = limit - hits.len();
            let scanned = match words::short_prefix_expression(search) {
                Some(expression) => search_by_scan(connection, &expression, search, left)?,
                None => None,
            };
            hits.extend(match scanned {
                Some(messages) => messages,
                None => search_by_index(connection, &expression, search, left)?,
            });
            Ok(hits)
        })
    }
}

/// Messages that match an expression, with their chats.
const MATCHES: &str = "SELECT chats.id, chats.title, messages.row, messages.content FROM found_messages
    CROSS JOIN messages ON messages.row = found_messages.rowid CROSS JOIN chats ON chats.row = messages.chat
    WHERE found_messages MATCH ?1 AND chats.deleted_ms IS NULL ORDER BY found_messages.rowid DESC LIMIT ?2";

/// Filters the messages that match `expression`. Returns `limit` hits, or `None` if there are fewer in the first
/// [`MAX_SCAN_BYTES`] of texts.
fn search_by_scan(
    connection: &Connection,
    expression: &str,
    search: &str,
    limit: usize,
) -> Result<Option<Vec<ChatHit>>, ChatsError> {
    let wanted = words::search_words(search);
    let mut statement = connection.prepare_cached(MATCHES)?;
    let (mut rows, mut hits, mut read_bytes) = (statement.query(params![expression, i64::MAX])?, Vec::new(), 0);
    while hits.len() < limit {
        let Some(row) = rows.next()?.filter(|_| read_bytes < MAX_SCAN_BYTES) else { return Ok(None) };
        let content: &str = row.get_ref(3)?.as_str().map_err(rusqlite::Error::from)?;
        read_bytes += content.len();
        if words::contains_all(content, &wanted) {
            hits.push(message_hit(row, search)?);
        }
    }
    Ok(Some(hits))
}

/// Returns the newest messages that match an expression.
fn search_by_index(
    connection: &Connection,
    expression: &str,
    search: &str,
    limit: usize,
) -> Result<Vec<ChatHit>, ChatsError> {
    let mut statement = connection.prepare_cached(MATCHES)?;
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    let hits = statement.query_map(params![expression, limit], |row| message_hit(row, search))?;
    Ok(hits.collect::<Result<_, _>>()?)
}

/// Converts a row of [`MATCHES`].
fn message_hit(row: &Row<'_>, search: &str) -> rusqlite::Result<ChatHit> {
    let snippet = words::snippet(row.get_ref(3)?.as_str()?, search);
    Ok(hit(row.get(0)?, Some(row.get::<_, i64>(2)?.to_string()), snippet, row.get(1)?))
}

/// Makes a hit, with ranges in UTF-16 code units.
fn hit(chat: String, message: Option<String>, snippet: Snippet, title: String) -> ChatHit {
    let Snippet { text, ranges } = snippet;
    let offset = |byte| u32::try_from(text[..byte].encode_utf16().count()).unwrap_or(u32::MAX);
    let ranges = ranges.into_iter().map(|range| [offset(range.start), offset(range.end)]).collect();
    ChatHit { chat, title, message, snippet: text, ranges }
}
