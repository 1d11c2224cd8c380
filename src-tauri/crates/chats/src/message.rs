//! Messages: a tree for each chat, in which an edited question and a second answer are siblings of the first.

use std::fmt;
use std::str::FromStr;

use rusqlite::{Connection, OptionalExtension, Row, params};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::chat::row_of;
use crate::{Chats, ChatsError, words};

/// Names a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct MessageId(pub(crate) i64);

/// Whether a message is all there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// It is.
    Complete,
    /// It is being computed.
    Answering,
    /// Somebody stopped it.
    Stopped,
    /// The program ended in the middle of it.
    Cut,
    /// Something went wrong in the middle of it.
    Failed,
}

/// A text file that came with a message.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct File {
    /// Its name.
    pub name: String,
    /// What is in it.
    pub text: String,
}

/// A message.
#[derive(Debug, Clone, PartialEq)]
pub struct Message {
    /// Names it.
    pub id: MessageId,
    /// The message before it.
    pub parent: Option<MessageId>,
    /// What it says.
    pub said: Said,
    /// Siblings after the same message, itself among them, in the order in which they were made.
    pub versions: Vec<MessageId>,
}

/// What a message says.
#[derive(Debug, Clone, PartialEq)]
pub struct Said {
    /// `user` or `assistant`, or what another program had.
    pub role: String,
    /// Its text.
    pub content: String,
    /// What the model thought before.
    pub thinking: Option<String>,
    /// For how long.
    pub thinking_ms: Option<i64>,
    /// Images, in base64.
    pub images: Vec<String>,
    /// Text files.
    pub files: Vec<File>,
    /// When it was made, in milliseconds since 1970.
    pub created_ms: i64,
    /// The model that wrote it.
    pub model: Option<String>,
    /// Whether it is all there.
    pub state: State,
    /// Why it failed.
    pub error: Option<String>,
    /// What it cost; it means nothing here.
    pub stats: Option<Value>,
}

/// Some of the messages that lead to a leaf.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Path {
    /// From the first to the last.
    pub messages: Vec<Message>,
    /// All that lead to the leaf.
    pub total: u64,
    /// Those before the first one here.
    pub before: u64,
}

/// How an answer ends, or how far it has come.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Progress {
    /// Its text so far.
    pub content: String,
    /// What the model has thought so far.
    pub thinking: Option<String>,
    /// For how long.
    pub thinking_ms: Option<i64>,
    /// What it has cost so far, as far as that is known.
    pub stats: Option<Value>,
}

const COLUMNS: &str = "row, chat, parent, depth, role, content, thinking, thinking_ms, images, files, created_ms, model, state, error, stats";

impl fmt::Display for MessageId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl FromStr for MessageId {
    type Err = ChatsError;

    fn from_str(text: &str) -> Result<Self, ChatsError> {
        text.parse().map(Self).map_err(|_| ChatsError::NoMessage(text.to_owned()))
    }
}

impl State {
    const ALL: [(Self, &'static str); 5] = [
        (Self::Complete, "complete"),
        (Self::Answering, "answering"),
        (Self::Stopped, "stopped"),
        (Self::Cut, "cut"),
        (Self::Failed, "failed"),
    ];

    fn word(self) -> &'static str {
        Self::ALL.iter().find(|(state, _)| *state == self).map_or("complete", |(_, word)| word)
    }

    fn from_word(word: &str) -> Self {
        Self::ALL.iter().find(|(_, known)| *known == word).map_or(Self::Complete, |(state, _)| *state)
    }
}

impl Said {
    /// A message that is all there, with nothing but a text.
    #[must_use]
    pub fn new(role: impl Into<String>, content: impl Into<String>, created_ms: i64) -> Self {
        Self {
            role: role.into(),
            content: content.into(),
            thinking: None,
            thinking_ms: None,
            images: Vec::new(),
            files: Vec::new(),
            created_ms,
            model: None,
            state: State::Complete,
            error: None,
            stats: None,
        }
    }
}

impl Chats {
    /// Adds messages after one, each after the one before it, and makes the last of them the chat's head. All of them are kept,
    /// or none.
    ///
    /// # Errors
    /// Where there is no such chat or message, or they cannot be written.
    pub fn add(
        &self,
        chat: &str,
        parent: Option<MessageId>,
        said: &[Said],
        now_ms: i64,
    ) -> Result<Vec<Message>, ChatsError> {
        self.write(|connection| {
            let chat_row = row_of(connection, chat)?;
            let mut last = parent;
            let mut added = Vec::with_capacity(said.len());
            for said in said {
                let row = insert(connection, chat_row, last, said)?;
                last = Some(MessageId(row));
                added.push(MessageId(row));
            }
            let sql = "UPDATE chats SET head = ?2, updated_ms = max(updated_ms, ?3) WHERE row = ?1";
            connection.execute(sql, params![chat_row, last.map(|id| id.0), now_ms])?;
            added.into_iter().map(|id| message(connection, chat_row, id)).collect()
        })
    }

    /// One message.
    ///
    /// # Errors
    /// Where there is none.
    pub fn message(&self, chat: &str, id: MessageId) -> Result<Message, ChatsError> {
        self.read(|connection| message(connection, row_of(connection, chat)?, id))
    }

    /// The last `limit` messages that lead to `leaf`, or of those before `before`; to the chat's head where `leaf` is none.
    ///
    /// # Errors
    /// Where there is no such chat or message.
    pub fn path(
        &self,
        chat: &str,
        leaf: Option<MessageId>,
        before: Option<MessageId>,
        limit: usize,
    ) -> Result<Path, ChatsError> {
        self.read(|connection| {
            let chat_row = row_of(connection, chat)?;
            let head: Option<i64> =
                connection.query_row("SELECT head FROM chats WHERE row = ?1", [chat_row], |row| row.get(0))?;
            let Some(leaf) = leaf.or(head.map(MessageId)) else { return Ok(Path::default()) };
            let total = depth(connection, chat_row, leaf)?.unsigned_abs() + 1;
            let mut next = match before {
                None => Some(leaf),
                Some(before) => one(connection, chat_row, before)?.1.parent,
            };
            let mut messages = Vec::new();
            let mut first = 0;
            while let Some(id) = next.filter(|_| messages.len() < limit) {
                let (depth, found) = one(connection, chat_row, id)?;
                next = found.parent;
                first = depth.unsigned_abs();
                messages.push(found);
            }
            messages.reverse();
            for message in &mut messages {
                message.versions = versions(connection, chat_row, message.parent)?;
            }
            Ok(Path { before: if messages.is_empty() { 0 } else { first }, messages, total })
        })
    }

    /// All messages of a chat, each after the one that it follows.
    ///
    /// # Errors
    /// Where there is no such chat.
    pub fn messages(&self, chat: &str) -> Result<Vec<Message>, ChatsError> {
        self.read(|connection| {
            let chat_row = row_of(connection, chat)?;
            let sql = format!("SELECT {COLUMNS} FROM messages WHERE chat = ?1 ORDER BY row");
            let mut statement = connection.prepare_cached(&sql)?;
            let rows = statement.query_map([chat_row], raw)?.collect::<Result<Vec<_>, _>>()?;
            rows.into_iter().map(|raw| raw.read().map(|(_, message)| message)).collect()
        })
    }

    /// Writes down how far an answer has come, unless it has ended.
    ///
    /// # Errors
    /// Where it cannot be written.
    pub fn write_progress(&self, id: MessageId, progress: &Progress) -> Result<(), ChatsError> {
        self.write(|connection| {
            let sql = "SELECT state = 'answering' FROM messages WHERE row = ?1";
            let is_open: Option<bool> =
                connection.prepare_cached(sql)?.query_row([id.0], |row| row.get(0)).optional()?;
            // A write that was begun before the end may come after it.
            if is_open == Some(true) { Ok(put(connection, id, progress)?) } else { Ok(()) }
        })
    }

    /// Writes down an answer that has ended.
    ///
    /// # Errors
    /// Where it cannot be written.
    pub fn finish(
        &self,
        chat: &str,
        id: MessageId,
        progress: &Progress,
        end: (State, Option<&str>),
        now_ms: i64,
    ) -> Result<Message, ChatsError> {
        self.write(|connection| {
            let chat_row = row_of(connection, chat)?;
            put(connection, id, progress)?;
            let (state, error) = end;
            let sql = "UPDATE messages SET state = ?2, error = ?3 WHERE row = ?1";
            connection.execute(sql, params![id.0, state.word(), error])?;
            let sql = "UPDATE chats SET updated_ms = max(updated_ms, ?2) WHERE row = ?1";
            connection.execute(sql, params![chat_row, now_ms])?;
            index(connection, id.0, &progress.content)?;
            message(connection, chat_row, id)
        })
    }

    /// Whether any message comes after one.
    ///
    /// # Errors
    /// Where the file cannot be read.
    pub fn is_followed(&self, id: MessageId) -> Result<bool, ChatsError> {
        self.read(|connection| {
            let sql = "SELECT EXISTS (SELECT 1 FROM messages WHERE parent = ?1)";
            Ok(connection.prepare_cached(sql)?.query_row([id.0], |row| row.get(0))?)
        })
    }

    /// Has an answer that ended go on. Its last end is forgotten.
    ///
    /// # Errors
    /// Where there is no such message, or it cannot be written.
    pub fn reopen(&self, chat: &str, id: MessageId) -> Result<Message, ChatsError> {
        self.write(|connection| {
            let chat_row = row_of(connection, chat)?;
            let sql =
                "UPDATE messages SET state = 'answering', error = NULL, stats = NULL WHERE row = ?1 AND chat = ?2";
            connection.execute(sql, params![id.0, chat_row])?;
            connection.execute("UPDATE chats SET head = ?2 WHERE row = ?1", params![chat_row, id.0])?;
            message(connection, chat_row, id)
        })
    }

    /// Shows the branch that a message is in: of what follows it the last made.
    ///
    /// # Errors
    /// Where there is no such chat or message, or it cannot be written.
    pub fn show(&self, chat: &str, id: MessageId) -> Result<MessageId, ChatsError> {
        self.write(|connection| {
            let chat_row = row_of(connection, chat)?;
            depth(connection, chat_row, id)?;
            let mut head = id.0;
            let mut statement = connection.prepare_cached("SELECT max(row) FROM messages WHERE parent = ?1")?;
            while let Some(next) = statement.query_row([head], |row| row.get::<_, Option<i64>>(0))? {
                head = next;
            }
            connection.execute("UPDATE chats SET head = ?2 WHERE row = ?1", params![chat_row, head])?;
            Ok(MessageId(head))
        })
    }
}

/// Marks what was being computed when the program ended.
pub(crate) fn cut(connection: &Connection) -> rusqlite::Result<usize> {
    let mut statement = connection.prepare("SELECT row, content FROM messages WHERE state = 'answering'")?;
    let rows = statement.query_map([], |row| Ok((row.get::<_, i64>(0)?, row.get::<_, String>(1)?)))?;
    let rows = rows.collect::<Result<Vec<_>, _>>()?;
    for (row, content) in &rows {
        connection.execute("UPDATE messages SET state = 'cut' WHERE row = ?1", [row])?;
        index(connection, *row, content)?;
    }
    Ok(rows.len())
}

/// Adds one message, and returns its row.
pub(crate) fn insert(
    connection: &Connection,
    chat_row: i64,
    parent: Option<MessageId>,
    said: &Said,
) -> Result<i64, ChatsError> {
    let depth = match parent {
        None => 0,
        Some(parent) => depth(connection, chat_row, parent)? + 1,
    };
    let mut statement = connection.prepare_cached(
        "INSERT INTO messages (chat, parent, depth, role, content, thinking, thinking_ms, images, files, created_ms, model, state, error, stats)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14)",
    )?;
    statement.execute(params![
        chat_row,
        parent.map(|id| id.0),
        depth,
        said.role,
        said.content,
        said.thinking,
        said.thinking_ms,
        serde_json::to_string(&said.images)?,
        serde_json::to_string(&said.files)?,
        said.created_ms,
        said.model,
        said.state.word(),
        said.error,
        said.stats.as_ref().map(Value::to_string),
    ])?;
    let row = connection.last_insert_rowid();
    if said.state != State::Answering {
        index(connection, row, &said.content)?;
    }
    connection.prepare_cached("UPDATE chats SET messages = messages + 1 WHERE row = ?1")?.execute([chat_row])?;
    Ok(row)
}

fn put(connection: &Connection, id: MessageId, progress: &Progress) -> rusqlite::Result<()> {
    let Progress { content, thinking, thinking_ms, stats } = progress;
    let sql = "UPDATE messages SET content = ?2, thinking = ?3, thinking_ms = ?4, stats = ?5 WHERE row = ?1";
    let stats = stats.as_ref().map(Value::to_string);
    connection.prepare_cached(sql)?.execute(params![id.0, content, thinking, thinking_ms, stats]).map(drop)
}

fn index(connection: &Connection, row: i64, content: &str) -> rusqlite::Result<()> {
    let words::Indexed { words, singles } = words::indexed(content);
    let sql = "INSERT OR REPLACE INTO found_messages (rowid, words, singles) VALUES (?1, ?2, ?3)";
    connection.prepare_cached(sql)?.execute(params![row, words, singles]).map(drop)
}

/// How many messages come before one.
fn depth(connection: &Connection, chat_row: i64, id: MessageId) -> Result<i64, ChatsError> {
    let mut statement = connection.prepare_cached("SELECT depth FROM messages WHERE row = ?1 AND chat = ?2")?;
    let depth = statement.query_row([id.0, chat_row], |row| row.get(0)).optional()?;
    depth.ok_or_else(|| ChatsError::NoMessage(id.to_string()))
}

fn message(connection: &Connection, chat_row: i64, id: MessageId) -> Result<Message, ChatsError> {
    let (_, message) = one(connection, chat_row, id)?;
    Ok(Message { versions: versions(connection, chat_row, message.parent)?, ..message })
}

/// A message with its depth, and without its versions.
fn one(connection: &Connection, chat_row: i64, id: MessageId) -> Result<(i64, Message), ChatsError> {
    let sql = format!("SELECT {COLUMNS} FROM messages WHERE row = ?1 AND chat = ?2");
    let found = connection.prepare_cached(&sql)?.query_row([id.0, chat_row], raw).optional()?;
    found.ok_or_else(|| ChatsError::NoMessage(id.to_string()))?.read()
}

fn versions(connection: &Connection, chat_row: i64, parent: Option<MessageId>) -> Result<Vec<MessageId>, ChatsError> {
    let sql = "SELECT row FROM messages WHERE parent IS ?1 AND chat = ?2 ORDER BY row";
    let mut statement = connection.prepare_cached(sql)?;
    let rows = statement.query_map(params![parent.map(|id| id.0), chat_row], |row| row.get(0).map(MessageId))?;
    Ok(rows.collect::<Result<_, _>>()?)
}

/// A row whose JSON is not read yet.
struct Raw {
    depth: i64,
    message: Message,
    images: String,
    files: String,
    stats: Option<String>,
}

fn raw(row: &Row<'_>) -> rusqlite::Result<Raw> {
    let said = Said {
        content: row.get("content")?,
        thinking: row.get("thinking")?,
        thinking_ms: row.get("thinking_ms")?,
        model: row.get("model")?,
        state: State::from_word(&row.get::<_, String>("state")?),
        error: row.get("error")?,
        ..Said::new(row.get::<_, String>("role")?, "", row.get("created_ms")?)
    };
    let parent = row.get::<_, Option<i64>>("parent")?.map(MessageId);
    Ok(Raw {
        depth: row.get("depth")?,
        message: Message { id: MessageId(row.get("row")?), parent, said, versions: Vec::new() },
        images: row.get("images")?,
        files: row.get("files")?,
        stats: row.get("stats")?,
    })
}

impl Raw {
    fn read(self) -> Result<(i64, Message), ChatsError> {
        let mut message = self.message;
        message.said.images = serde_json::from_str(&self.images)?;
        message.said.files = serde_json::from_str(&self.files)?;
        message.said.stats = self.stats.map(|text| serde_json::from_str(&text)).transpose()?;
        Ok((self.depth, message))
    }
}
