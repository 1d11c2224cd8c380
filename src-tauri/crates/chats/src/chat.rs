//! Chats as a whole: making, listing, changing, and the trash.

use rusqlite::{Connection, OptionalExtension, Row, params};
use serde_json::{Map, Value};

use crate::{Chats, ChatsError, MessageId, words};

/// Who gave a chat its title.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Titled {
    /// Nobody yet.
    Not,
    /// It is how the first message begins.
    FirstWords,
    /// A model.
    Model,
    /// A person, whose title no program changes.
    Person,
}

/// What lists say of a chat. Times are milliseconds since 1970.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listed {
    /// Names it.
    pub id: String,
    /// What it is called.
    pub title: String,
    /// The model that answers next.
    pub model: Option<String>,
    /// The folder that it is in.
    pub folder: Option<String>,
    /// Whether it stays on top.
    pub pinned: bool,
    /// When it was made.
    pub created_ms: i64,
    /// When something was last said.
    pub updated_ms: i64,
    /// When it was put into the trash.
    pub deleted_ms: Option<i64>,
    /// Messages of all its branches.
    pub messages: u64,
}

/// A chat.
#[derive(Debug, Clone, PartialEq)]
pub struct Chat {
    /// What lists say of it.
    pub listed: Listed,
    /// Who gave it its title.
    pub titled: Titled,
    /// What the model is told first.
    pub system: Option<String>,
    /// Options of each request; they mean nothing here.
    pub options: Map<String, Value>,
    /// Whether the model thinks; it means nothing here.
    pub think: Option<Value>,
    /// The preset that it was made from.
    pub preset: Option<String>,
    /// The last message of the branch that is shown.
    pub head: Option<MessageId>,
}

/// A chat that is to be made.
#[derive(Debug, Clone, Default, PartialEq)]
#[expect(missing_docs, reason = "the names mean what they mean in `Chat`")]
pub struct NewChat {
    pub id: String,
    pub title: Option<String>,
    pub model: Option<String>,
    pub folder: Option<String>,
    pub system: Option<String>,
    pub options: Map<String, Value>,
    pub think: Option<Value>,
    pub preset: Option<String>,
}

/// What is to change of a chat; what is none stays.
#[derive(Debug, Clone, Default, PartialEq)]
#[expect(missing_docs, reason = "the names mean what they mean in `Chat`")]
pub struct Change {
    pub title: Option<(String, Titled)>,
    pub model: Option<Option<String>>,
    pub folder: Option<Option<String>>,
    pub pinned: Option<bool>,
    pub system: Option<Option<String>>,
    pub options: Option<Map<String, Value>>,
    pub think: Option<Option<Value>>,
    pub preset: Option<Option<String>>,
}

/// Which chats are to be listed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Which {
    /// Those that are not pinned.
    Loose,
    /// Those that are pinned.
    Pinned,
    /// Those in one folder, pinned or not.
    Folder(String),
    /// Those in the trash, the last deleted first.
    Trash,
}

/// A page of a list.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Page {
    /// The chats.
    pub chats: Vec<Listed>,
    /// Where the next page begins; none where there is none.
    pub next: Option<String>,
}

const LISTED: &str = "row, id, title, model, folder, pinned, created_ms, updated_ms, deleted_ms, messages";

impl Titled {
    fn from_number(number: i64) -> Self {
        match number {
            0 => Self::Not,
            1 => Self::FirstWords,
            2 => Self::Model,
            _ => Self::Person,
        }
    }
}

impl Chats {
    /// Makes a chat.
    ///
    /// # Errors
    /// Where it cannot be written.
    pub fn create(&self, new: &NewChat, now_ms: i64) -> Result<Chat, ChatsError> {
        self.write(|connection| {
            let titled = if new.title.is_some() { Titled::Person } else { Titled::Not };
            connection.execute(
                "INSERT INTO chats (id, title, titled, model, folder, created_ms, updated_ms, system, options, think, preset)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?6, ?7, ?8, ?9, ?10)",
                params![
                    new.id,
                    new.title.as_deref().unwrap_or_default(),
                    titled as i64,
                    new.model,
                    new.folder,
                    now_ms,
                    new.system,
                    serde_json::to_string(&new.options)?,
                    new.think.as_ref().map(Value::to_string),
                    new.preset,
                ],
            )?;
            let row = connection.last_insert_rowid();
            if let Some(title) = &new.title {
                index_title(connection, row, title)?;
            }
            chat(connection, &new.id)
        })
    }

    /// One chat, in the trash or not.
    ///
    /// # Errors
    /// Where there is none.
    pub fn chat(&self, id: &str) -> Result<Chat, ChatsError> {
        self.read(|connection| chat(connection, id))
    }

    /// A page of chats, the last changed first, after the end of another one.
    ///
    /// # Errors
    /// Where `after` is no end of a page.
    pub fn list(&self, which: &Which, after: Option<&str>, limit: usize) -> Result<Page, ChatsError> {
        let (condition, order, folder) = match which {
            Which::Loose => ("deleted_ms IS NULL AND pinned = 0", "updated_ms", None),
            Which::Pinned => ("deleted_ms IS NULL AND pinned = 1", "updated_ms", None),
            Which::Folder(folder) => {
                ("deleted_ms IS NULL AND folder IS NOT NULL AND folder = ?4", "updated_ms", Some(folder))
            }
            Which::Trash => ("deleted_ms IS NOT NULL", "deleted_ms", None),
        };
        let (last_ms, last_row) = match after {
            None => (i64::MAX, i64::MAX),
            Some(text) => page_end(text).ok_or_else(|| ChatsError::NoPage(text.to_owned()))?,
        };
        let one_more = i64::try_from(limit).unwrap_or(i64::MAX).saturating_add(1);
        let sql = format!(
            "SELECT {LISTED} FROM chats WHERE {condition} AND ({order}, row) < (?1, ?2) ORDER BY {order} DESC, row DESC LIMIT ?3"
        );
        self.read(|connection| {
            let mut statement = connection.prepare_cached(&sql)?;
            let found = |row: &Row<'_>| Ok((row.get::<_, i64>("row")?, listed(row)?));
            let rows = match folder {
                None => {
                    statement.query_map(params![last_ms, last_row, one_more], found)?.collect::<Result<Vec<_>, _>>()
                }
                Some(folder) => statement
                    .query_map(params![last_ms, last_row, one_more, folder], found)?
                    .collect::<Result<Vec<_>, _>>(),
            };
            let mut rows = rows?;
            let more = rows.len() > limit;
            rows.truncate(limit);
            let ms =
                |chat: &Listed| if *which == Which::Trash { chat.deleted_ms.unwrap_or(0) } else { chat.updated_ms };
            let next = rows.last().filter(|_| more).map(|(row, chat)| format!("{}.{row}", ms(chat)));
            Ok(Page { chats: rows.into_iter().map(|(_, chat)| chat).collect(), next })
        })
    }

    /// All folders, by name, with how many chats are in each.
    ///
    /// # Errors
    /// Where the file cannot be read.
    pub fn folders(&self) -> Result<Vec<(String, u64)>, ChatsError> {
        self.read(|connection| {
            let mut statement = connection.prepare_cached(
                "SELECT folder, count(*) FROM chats WHERE deleted_ms IS NULL AND folder IS NOT NULL GROUP BY folder ORDER BY folder",
            )?;
            let rows = statement.query_map([], |row| Ok((row.get(0)?, row.get::<_, i64>(1)?.unsigned_abs())))?;
            Ok(rows.collect::<Result<_, _>>()?)
        })
    }

    /// Changes a chat.
    ///
    /// # Errors
    /// Where there is none, or it cannot be written.
    pub fn change(&self, id: &str, change: &Change) -> Result<Chat, ChatsError> {
        self.write(|connection| {
            let row = row_of(connection, id)?;
            if let Some((title, titled)) = &change.title {
                connection.execute(
                    "UPDATE chats SET title = ?2, titled = ?3 WHERE row = ?1",
                    params![row, title, *titled as i64],
                )?;
                index_title(connection, row, title)?;
            }
            let texts = [
                ("model", change.model.clone()),
                ("folder", change.folder.clone()),
                ("system", change.system.clone()),
                ("preset", change.preset.clone()),
                ("think", change.think.as_ref().map(|think| think.as_ref().map(Value::to_string))),
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

    /// Gives a chat a title, unless somebody who matters more has: a person before a model before the first words.
    /// Returns the chat where it has the title now.
    ///
    /// # Errors
    /// Where there is none, or it cannot be written.
    pub fn entitle(&self, id: &str, title: &str, titled: Titled) -> Result<Option<Chat>, ChatsError> {
        self.write(|connection| {
            let row = row_of(connection, id)?;
            let sql = "UPDATE chats SET title = ?2, titled = ?3 WHERE row = ?1 AND titled < ?3";
            if connection.execute(sql, params![row, title, titled as i64])? == 0 {
                return Ok(None);
            }
            index_title(connection, row, title)?;
            chat(connection, id).map(Some)
        })
    }

    /// Puts a chat into the trash, or takes it out.
    ///
    /// # Errors
    /// Where there is none, or it cannot be written.
    pub fn set_deleted(&self, id: &str, deleted_ms: Option<i64>) -> Result<Chat, ChatsError> {
        self.write(|connection| {
            let row = row_of(connection, id)?;
            // By a clock that was set back it would have been deleted before its last word was said, and soon be purged. The greater
            // of nothing and something is nothing.
            let sql = "UPDATE chats SET deleted_ms = max(?2, updated_ms) WHERE row = ?1";
            connection.execute(sql, params![row, deleted_ms])?;
            chat(connection, id)
        })
    }

    /// Deletes a chat for ever.
    ///
    /// # Errors
    /// Where there is none, or it cannot be written.
    pub fn delete(&self, id: &str) -> Result<(), ChatsError> {
        self.write(|connection| {
            let row = row_of(connection, id)?;
            delete(connection, row)
        })
    }

    /// Deletes for ever what was put into the trash before `before_ms`. Returns the ids.
    ///
    /// # Errors
    /// Where it cannot be written.
    pub fn purge(&self, before_ms: i64) -> Result<Vec<String>, ChatsError> {
        self.write(|connection| {
            let mut statement = connection.prepare("SELECT row, id FROM chats WHERE deleted_ms < ?1")?;
            let old = statement.query_map([before_ms], |row| Ok((row.get::<_, i64>(0)?, row.get::<_, String>(1)?)))?;
            let old = old.collect::<Result<Vec<_>, _>>()?;
            old.iter().try_for_each(|(row, _)| delete(connection, *row))?;
            Ok(old.into_iter().map(|(_, id)| id).collect())
        })
    }
}

/// The row of a chat.
pub(crate) fn row_of(connection: &Connection, id: &str) -> Result<i64, ChatsError> {
    let row = connection.query_row("SELECT row FROM chats WHERE id = ?1", [id], |row| row.get(0)).optional()?;
    row.ok_or_else(|| ChatsError::NoChat(id.to_owned()))
}

pub(crate) fn chat(connection: &Connection, id: &str) -> Result<Chat, ChatsError> {
    let sql = format!("SELECT {LISTED}, titled, system, options, think, preset, head FROM chats WHERE id = ?1");
    let found = connection.prepare_cached(&sql)?.query_row([id], |row| {
        let (options, think): (String, Option<String>) = (row.get("options")?, row.get("think")?);
        let chat = Chat {
            listed: listed(row)?,
            titled: Titled::from_number(row.get("titled")?),
            system: row.get("system")?,
            options: Map::new(),
            think: None,
            preset: row.get("preset")?,
            head: row.get::<_, Option<i64>>("head")?.map(MessageId),
        };
        Ok((chat, options, think))
    });
    let (chat, options, think) = found.optional()?.ok_or_else(|| ChatsError::NoChat(id.to_owned()))?;
    let think = think.map(|text| serde_json::from_str(&text)).transpose()?;
    Ok(Chat { options: serde_json::from_str(&options)?, think, ..chat })
}

fn listed(row: &Row<'_>) -> rusqlite::Result<Listed> {
    Ok(Listed {
        id: row.get("id")?,
        title: row.get("title")?,
        model: row.get("model")?,
        folder: row.get("folder")?,
        pinned: row.get("pinned")?,
        created_ms: row.get("created_ms")?,
        updated_ms: row.get("updated_ms")?,
        deleted_ms: row.get("deleted_ms")?,
        messages: row.get::<_, i64>("messages")?.unsigned_abs(),
    })
}

fn page_end(text: &str) -> Option<(i64, i64)> {
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
    Ok(())
}
