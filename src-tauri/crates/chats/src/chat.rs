//! Chats as a whole: create, list, update, and the trash.

use cairn_wire::Timestamp;
use rusqlite::{Connection, OptionalExtension, Row, params};
use serde_json::Map;

use crate::{ChatChange, ChatFolder, ChatRow, Chats, ChatsError, NewChatRequest, StoredChat, words};

/// Source of a chat's title. A later variant takes precedence over an earlier one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum TitleSource {
    /// The chat has no title yet.
    None,
    /// The beginning of the first message.
    FirstWords,
    /// A model.
    Model,
    /// The user. No program changes such a title.
    User,
}

/// Filter of a chat list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ChatFilter {
    /// Chats that are not pinned.
    Unpinned,
    /// Pinned chats.
    Pinned,
    /// Chats of one folder, pinned or not.
    Folder(String),
    /// Chats in the trash, ordered by deletion time.
    Trash,
}

/// Page of a chat list.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ChatPage {
    /// Chats of the page.
    pub chats: Vec<ChatRow>,
    /// Cursor of the next page; `None` on the last page.
    pub next: Option<String>,
}

const ROW_COLUMNS: &str = "row, id, title, model, folder, pinned, created_ms, updated_ms, deleted_ms, messages";

impl TitleSource {
    fn from_number(number: i64) -> Self {
        match number {
            0 => Self::None,
            1 => Self::FirstWords,
            2 => Self::Model,
            _ => Self::User,
        }
    }
}

impl Chats {
    /// Creates a chat. A preset is only named, not applied.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn create(&self, id: &str, new: &NewChatRequest, now_ms: i64) -> Result<StoredChat, ChatsError> {
        self.write(|connection| {
            let title = new.title.as_deref().filter(|title| !title.trim().is_empty());
            let source = if title.is_some() { TitleSource::User } else { TitleSource::None };
            connection.execute(
                "INSERT INTO chats (id, title, titled, model, folder, created_ms, updated_ms, system, options, think, preset,
                     collection)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?6, ?7, ?8, ?9, ?10, ?11)",
                params![
                    id,
                    title.unwrap_or_default(),
                    source as i64,
                    new.model,
                    new.folder,
                    now_ms,
                    new.system,
                    new.options.as_ref().map_or_else(|| Ok("{}".to_owned()), serde_json::to_string)?,
                    new.think.as_ref().map(serde_json::to_string).transpose()?,
                    new.preset,
                    new.collection,
                ],
            )?;
            let row = connection.last_insert_rowid();
            if let Some(title) = title {
                index_title(connection, row, title)?;
            }
            chat(connection, id)
        })
    }

    /// Returns a chat, also from the trash.
    ///
    /// # Errors
    /// If it does not exist.
    pub fn chat(&self, id: &str) -> Result<StoredChat, ChatsError> {
        self.read(|connection| chat(connection, id))
    }

    /// Returns the source of a chat's title.
    ///
    /// # Errors
    /// If the chat does not exist.
    pub fn title_source(&self, id: &str) -> Result<TitleSource, ChatsError> {
        self.read(|connection| {
            let mut statement = connection.prepare_cached("SELECT titled FROM chats WHERE id = ?1")?;
            let source = statement.query_row([id], |row| row.get(0).map(TitleSource::from_number)).optional()?;
            source.ok_or_else(|| ChatsError::ChatNotFound(id.to_owned()))
        })
    }

    /// Returns a page of chats, the last updated first. `after` is the cursor of the previous page.
    ///
    /// # Errors
    /// If `after` is not a valid cursor.
    pub fn list(&self, filter: &ChatFilter, after: Option<&str>, limit: usize) -> Result<ChatPage, ChatsError> {
        let (condition, order, folder) = match filter {
            ChatFilter::Unpinned => ("deleted_ms IS NULL AND pinned = 0", "updated_ms", None),
            ChatFilter::Pinned => ("deleted_ms IS NULL AND pinned = 1", "updated_ms", None),
            ChatFilter::Folder(folder) => {
                ("deleted_ms IS NULL AND folder IS NOT NULL AND folder = ?4", "updated_ms", Some(folder))
            }
            ChatFilter::Trash => ("deleted_ms IS NOT NULL", "deleted_ms", None),
        };
        let (last_ms, last_row) = match after {
            None => (i64::MAX, i64::MAX),
            Some(text) => parse_cursor(text).ok_or_else(|| ChatsError::InvalidPageCursor(text.to_owned()))?,
        };
        let limit_plus_one = i64::try_from(limit).unwrap_or(i64::MAX).saturating_add(1);
        let sql = format!(
            "SELECT {ROW_COLUMNS} FROM chats WHERE {condition} AND ({order}, row) < (?1, ?2) ORDER BY {order} DESC, row DESC LIMIT ?3"
        );
        self.read(|connection| {
            let mut statement = connection.prepare_cached(&sql)?;
            let read = |row: &Row<'_>| Ok(((row.get::<_, i64>("row")?, row.get::<_, i64>(order)?), chat_row(row)?));
            let rows = match folder {
                None => statement
                    .query_map(params![last_ms, last_row, limit_plus_one], read)?
                    .collect::<Result<Vec<_>, _>>(),
                Some(folder) => statement
                    .query_map(params![last_ms, last_row, limit_plus_one, folder], read)?
                    .collect::<Result<Vec<_>, _>>(),
            };
            let mut rows = rows?;
            let has_next = rows.len() > limit;
            rows.truncate(limit);
            let next = rows.last().filter(|_| has_next).map(|((row, ms), _)| format!("{ms}.{row}"));
            Ok(ChatPage { chats: rows.into_iter().map(|(_, chat)| chat).collect(), next })
        })
    }

    /// Returns all folders by name.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn folders(&self) -> Result<Vec<ChatFolder>, ChatsError> {
        self.read(|connection| {
            let mut statement = connection.prepare_cached(
                "SELECT folder, count(*) FROM chats WHERE deleted_ms IS NULL AND folder IS NOT NULL GROUP BY folder ORDER BY folder",
            )?;
            let rows = statement
                .query_map([], |row| Ok(ChatFolder { name: row.get(0)?, chats: row.get::<_, i64>(1)?.unsigned_abs() }))?;
            Ok(rows.collect::<Result<_, _>>()?)
        })
    }

    /// Changes a chat. `source` is that of a new title.
    ///
    /// # Errors
    /// If it does not exist, or the file cannot be written.
    pub fn update(&self, id: &str, change: &ChatChange, source: TitleSource) -> Result<StoredChat, ChatsError> {
        self.write(|connection| {
            let row = row_of(connection, id)?;
            if let Some(title) = &change.title {
                connection.execute(
                    "UPDATE chats SET title = ?2, titled = ?3 WHERE row = ?1",
                    params![row, title, source as i64],
                )?;
                index_title(connection, row, title)?;
            }
            let texts = [
                ("model", change.model.clone()),
                ("folder", change.folder.clone()),
                ("system", change.system.clone()),
                ("preset", change.preset.clone()),
                ("collection", change.collection.clone()),
                (
                    "think",
                    change
                        .think
                        .map(|think| think.map(|think| serde_json::to_string(&think)).transpose())
                        .transpose()?,
                ),
                ("options", change.options.as_ref().map(serde_json::to_string).transpose()?.map(Some)),
            ];
            for (column, value) in texts {
                if let Some(value) = value {
                    connection
                        .execute(&format!("UPDATE chats SET {column} = ?2 WHERE row = ?1"), params![row, value])?;
                }
            }
            if let Some(pinned) = change.pinned {
                connection.execute("UPDATE chats SET pinned = ?2 WHERE row = ?1", params![row, pinned])?;
            }
            chat(connection, id)
        })
    }

    /// Sets the title if `source` takes precedence over the current [`TitleSource`]. Returns the chat if the title was set.
    ///
    /// # Errors
    /// If the chat does not exist, or the file cannot be written.
    pub fn set_title(&self, id: &str, title: &str, source: TitleSource) -> Result<Option<StoredChat>, ChatsError> {
        self.write(|connection| {
            let row = row_of(connection, id)?;
            let sql = "UPDATE chats SET title = ?2, titled = ?3 WHERE row = ?1 AND titled < ?3";
            if connection.execute(sql, params![row, title, source as i64])? == 0 {
                return Ok(None);
            }
            index_title(connection, row, title)?;
            chat(connection, id).map(Some)
        })
    }

    /// Moves a chat to the trash, or restores it if `deleted_ms` is `None`.
    ///
    /// # Errors
    /// If it does not exist, or the file cannot be written.
    pub fn set_deleted(&self, id: &str, deleted_ms: Option<i64>) -> Result<StoredChat, ChatsError> {
        self.write(|connection| {
            let row = row_of(connection, id)?;
            // After a clock was set back, the deletion time could be before the last message, and the chat would be purged too
            // early. In SQLite `max` with NULL is NULL, which restores the chat.
            let sql = "UPDATE chats SET deleted_ms = max(?2, updated_ms) WHERE row = ?1";
            connection.execute(sql, params![row, deleted_ms])?;
            chat(connection, id)
        })
    }

    /// Deletes a chat forever. [`Chats::erase_deleted`] then removes its copies.
    ///
    /// # Errors
    /// If it does not exist, or the file cannot be written.
    pub fn delete(&self, id: &str) -> Result<(), ChatsError> {
        self.write(|connection| {
            let row = row_of(connection, id)?;
            delete(connection, row)
        })
    }

    /// Deletes all chats forever that were moved to the trash before `before_ms`. Returns their ids. [`Chats::erase_deleted`] then
    /// removes their copies.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn purge(&self, before_ms: i64) -> Result<Vec<String>, ChatsError> {
        // A list of chats purges them, and must not wait for writes.
        let has_expired = self.read(|connection| {
            Ok(connection.prepare_cached("SELECT 1 FROM chats WHERE deleted_ms < ?1")?.exists([before_ms])?)
        })?;
        if !has_expired {
            return Ok(Vec::new());
        }
        self.write(|connection| {
            let mut statement = connection.prepare("SELECT row, id FROM chats WHERE deleted_ms < ?1")?;
            let expired =
                statement.query_map([before_ms], |row| Ok((row.get::<_, i64>(0)?, row.get::<_, String>(1)?)))?;
            let expired = expired.collect::<Result<Vec<_>, _>>()?;
            expired.iter().try_for_each(|(row, _)| delete(connection, *row))?;
            Ok(expired.into_iter().map(|(_, id)| id).collect())
        })
    }
}

/// Returns the SQLite row id of a chat.
pub(crate) fn row_of(connection: &Connection, id: &str) -> Result<i64, ChatsError> {
    let row = connection.query_row("SELECT row FROM chats WHERE id = ?1", [id], |row| row.get(0)).optional()?;
    row.ok_or_else(|| ChatsError::ChatNotFound(id.to_owned()))
}

pub(crate) fn chat(connection: &Connection, id: &str) -> Result<StoredChat, ChatsError> {
    let sql =
        format!("SELECT {ROW_COLUMNS}, system, options, think, preset, collection, head FROM chats WHERE id = ?1");
    let found = connection.prepare_cached(&sql)?.query_row([id], |row| {
        let (options, think): (String, Option<String>) = (row.get("options")?, row.get("think")?);
        let chat = StoredChat {
            row: chat_row(row)?,
            system: row.get("system")?,
            options: Map::new(),
            think: None,
            preset: row.get("preset")?,
            collection: row.get("collection")?,
            head: row.get::<_, Option<i64>>("head")?.map(|head| head.to_string()),
        };
        Ok((chat, options, think))
    });
    let (chat, options, think) = found.optional()?.ok_or_else(|| ChatsError::ChatNotFound(id.to_owned()))?;
    let think = think.and_then(|text| serde_json::from_str(&text).ok());
    Ok(StoredChat { options: serde_json::from_str(&options)?, think, ..chat })
}

fn chat_row(row: &Row<'_>) -> rusqlite::Result<ChatRow> {
    Ok(ChatRow {
        id: row.get("id")?,
        title: row.get("title")?,
        model: row.get("model")?,
        folder: row.get("folder")?,
        pinned: row.get("pinned")?,
        created_at: Timestamp::from_unix_ms(row.get("created_ms")?),
        updated_at: Timestamp::from_unix_ms(row.get("updated_ms")?),
        deleted_at: row.get::<_, Option<i64>>("deleted_ms")?.map(Timestamp::from_unix_ms),
        message_count: row.get::<_, i64>("messages")?.unsigned_abs(),
    })
}

fn parse_cursor(text: &str) -> Option<(i64, i64)> {
    let (ms, row) = text.split_once('.')?;
    Some((ms.parse().ok()?, row.parse().ok()?))
}

pub(crate) fn index_title(connection: &Connection, row: i64, title: &str) -> rusqlite::Result<()> {
    let words::Indexed { words, singles } = words::indexed(title);
    let sql = "INSERT OR REPLACE INTO found_titles (rowid, words, singles) VALUES (?1, ?2, ?3)";
    connection.prepare_cached(sql)?.execute(params![row, words, singles]).map(drop)
}

fn delete(connection: &Connection, row: i64) -> Result<(), ChatsError> {
    connection
        .execute("DELETE FROM found_messages WHERE rowid IN (SELECT row FROM messages WHERE chat = ?1)", [row])?;
    connection.execute("DELETE FROM found_titles WHERE rowid = ?1", [row])?;
    connection.execute("DELETE FROM chats WHERE row = ?1", [row])?;
    connection.execute("INSERT OR IGNORE INTO erasures VALUES (?1)", [row])?;
    Ok(())
}
