//! Messages: one tree per chat. An edited question and a further answer are siblings of the original.

use rusqlite::{Connection, OptionalExtension, Row, params};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::chat::row_of;
use crate::{Chats, ChatsError, MessageId, words};

/// State of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MessageState {
    /// The message is complete.
    Complete,
    /// The answer is being computed.
    Answering,
    /// A user stopped the answer.
    Stopped,
    /// The program ended before the answer was complete. Stored as `cut`.
    Interrupted,
    /// An error ended the answer.
    Failed,
}

/// Text file that is attached to a message.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Attachment {
    /// File name.
    pub name: String,
    /// Contents.
    pub text: String,
}

/// Message with its place in the tree.
#[derive(Debug, Clone, PartialEq)]
pub struct Message {
    /// Id of the message.
    pub id: MessageId,
    /// The message that it follows.
    pub parent: Option<MessageId>,
    /// Contents.
    pub body: MessageBody,
    /// All children of the same parent, this message included, in the order of creation.
    pub versions: Vec<MessageId>,
}

/// Contents of a message.
#[derive(Debug, Clone, PartialEq)]
pub struct MessageBody {
    /// `user` or `assistant`, or another program's role.
    pub role: String,
    /// Text.
    pub content: String,
    /// The model's thinking before the text.
    pub thinking: Option<String>,
    /// Duration of the thinking.
    pub thinking_ms: Option<i64>,
    /// Images, in base64.
    pub images: Vec<String>,
    /// Attached text files.
    pub files: Vec<Attachment>,
    /// Time of creation, in milliseconds since 1970.
    pub created_ms: i64,
    /// Model that wrote it.
    pub model: Option<String>,
    /// State of the message.
    pub state: MessageState,
    /// Error of a failed answer.
    pub error: Option<String>,
    /// Statistics of the answer. This crate does not interpret them.
    pub stats: Option<Value>,
}

/// Part of the path from the root of a tree to a leaf.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct MessagePath {
    /// Messages in order.
    pub messages: Vec<Message>,
    /// Number of messages on the whole path.
    pub total: u64,
    /// Number of messages on the path before `messages`.
    pub before: u64,
}

/// Contents of an answer so far.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct AnswerProgress {
    /// Text.
    pub content: String,
    /// Thinking.
    pub thinking: Option<String>,
    /// Duration of the thinking.
    pub thinking_ms: Option<i64>,
    /// Statistics, as far as they are available.
    pub stats: Option<Value>,
}

const COLUMNS: &str = "row, chat, parent, depth, role, content, thinking, thinking_ms, images, files, created_ms, model, state, error, stats";

impl MessageState {
    const ALL: [(Self, &'static str); 5] = [
        (Self::Complete, "complete"),
        (Self::Answering, "answering"),
        (Self::Stopped, "stopped"),
        (Self::Interrupted, "cut"),
        (Self::Failed, "failed"),
    ];

    fn word(self) -> &'static str {
        Self::ALL.iter().find(|(state, _)| *state == self).map_or("complete", |(_, word)| word)
    }

    fn from_word(word: &str) -> Self {
        Self::ALL.iter().find(|(_, stored)| *stored == word).map_or(Self::Complete, |(state, _)| *state)
    }
}

impl MessageBody {
    /// Creates a complete message that is only text.
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
            state: MessageState::Complete,
            error: None,
            stats: None,
        }
    }
}

impl Chats {
    /// Adds a sequence of messages below `parent` and makes the last one the chat's head. All are written, or none.
    ///
    /// # Errors
    /// If the chat or the parent does not exist, or the file cannot be written.
    pub fn add(
        &self,
        chat: &str,
        parent: Option<MessageId>,
        bodies: &[MessageBody],
        now_ms: i64,
    ) -> Result<Vec<Message>, ChatsError> {
        self.write(|connection| {
            let chat_row = row_of(connection, chat)?;
            let mut last = parent;
            let mut added = Vec::with_capacity(bodies.len());
            for body in bodies {
                let row = insert(connection, chat_row, last, body)?;
                last = Some(MessageId(row));
                added.push(MessageId(row));
            }
            let sql = "UPDATE chats SET head = ?2, updated_ms = max(updated_ms, ?3) WHERE row = ?1";
            connection.execute(sql, params![chat_row, last.map(|id| id.0), now_ms])?;
            added.into_iter().map(|id| message(connection, chat_row, id)).collect()
        })
    }

    /// Returns one message.
    ///
    /// # Errors
    /// If it does not exist.
    pub fn message(&self, chat: &str, id: MessageId) -> Result<Message, ChatsError> {
        self.read(|connection| message(connection, row_of(connection, chat)?, id))
    }

    /// Returns the last `limit` messages of the path to `leaf`, or of its part above `before`. The default leaf is the chat's head.
    ///
    /// # Errors
    /// If the chat or a message does not exist.
    pub fn path(
        &self,
        chat: &str,
        leaf: Option<MessageId>,
        before: Option<MessageId>,
        limit: usize,
    ) -> Result<MessagePath, ChatsError> {
        self.read(|connection| {
            let chat_row = row_of(connection, chat)?;
            let head: Option<i64> =
                connection.query_row("SELECT head FROM chats WHERE row = ?1", [chat_row], |row| row.get(0))?;
            let Some(leaf) = leaf.or(head.map(MessageId)) else { return Ok(MessagePath::default()) };
            let total = depth(connection, chat_row, leaf)?.unsigned_abs() + 1;
            let mut next = match before {
                None => Some(leaf),
                Some(before) => read_message(connection, chat_row, before)?.1.parent,
            };
            let mut messages = Vec::new();
            let mut first = 0;
            while let Some(id) = next.filter(|_| messages.len() < limit) {
                let (depth, message) = read_message(connection, chat_row, id)?;
                next = message.parent;
                first = depth.unsigned_abs();
                messages.push(message);
            }
            messages.reverse();
            for message in &mut messages {
                message.versions = versions(connection, chat_row, message.parent)?;
            }
            Ok(MessagePath { before: if messages.is_empty() { 0 } else { first }, messages, total })
        })
    }

    /// Returns all messages of a chat, parents before children.
    ///
    /// # Errors
    /// If the chat does not exist.
    pub fn messages(&self, chat: &str) -> Result<Vec<Message>, ChatsError> {
        self.read(|connection| {
            let chat_row = row_of(connection, chat)?;
            let sql = format!("SELECT {COLUMNS} FROM messages WHERE chat = ?1 ORDER BY row");
            let mut statement = connection.prepare_cached(&sql)?;
            let rows = statement.query_map([chat_row], raw)?.collect::<Result<Vec<_>, _>>()?;
            rows.into_iter().map(|raw| raw.read().map(|(_, message)| message)).collect()
        })
    }

    /// Stores the current contents of an answer, unless it has ended.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn write_progress(&self, id: MessageId, progress: &AnswerProgress) -> Result<(), ChatsError> {
        self.write(|connection| {
            let sql = "SELECT state = 'answering' FROM messages WHERE row = ?1";
            let is_open: Option<bool> =
                connection.prepare_cached(sql)?.query_row([id.0], |row| row.get(0)).optional()?;
            // A progress write that started before the end of the answer may run after it.
            if is_open == Some(true) { Ok(write_answer(connection, id, progress)?) } else { Ok(()) }
        })
    }

    /// Stores the final contents and state of an answer.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn finish(
        &self,
        chat: &str,
        id: MessageId,
        progress: &AnswerProgress,
        end: (MessageState, Option<&str>),
        now_ms: i64,
    ) -> Result<Message, ChatsError> {
        self.write(|connection| {
            let chat_row = row_of(connection, chat)?;
            write_answer(connection, id, progress)?;
            let (state, error) = end;
            let sql = "UPDATE messages SET state = ?2, error = ?3 WHERE row = ?1";
            connection.execute(sql, params![id.0, state.word(), error])?;
            let sql = "UPDATE chats SET updated_ms = max(updated_ms, ?2) WHERE row = ?1";
            connection.execute(sql, params![chat_row, now_ms])?;
            index(connection, id.0, &progress.content)?;
            message(connection, chat_row, id)
        })
    }

    /// Returns whether any message follows this one.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn has_reply(&self, id: MessageId) -> Result<bool, ChatsError> {
        self.read(|connection| {
            let sql = "SELECT EXISTS (SELECT 1 FROM messages WHERE parent = ?1)";
            Ok(connection.prepare_cached(sql)?.query_row([id.0], |row| row.get(0))?)
        })
    }

    /// Sets an ended answer back to `answering`, without its error and statistics.
    ///
    /// # Errors
    /// If the message does not exist, or the file cannot be written.
    pub fn resume_answer(&self, chat: &str, id: MessageId) -> Result<Message, ChatsError> {
        self.write(|connection| {
            let chat_row = row_of(connection, chat)?;
            let sql =
                "UPDATE messages SET state = 'answering', error = NULL, stats = NULL WHERE row = ?1 AND chat = ?2";
            connection.execute(sql, params![id.0, chat_row])?;
            connection.execute("UPDATE chats SET head = ?2 WHERE row = ?1", params![chat_row, id.0])?;
            message(connection, chat_row, id)
        })
    }

    /// Selects the branch of a message: the path through it and its newest descendants. Returns the new head.
    ///
    /// # Errors
    /// If the chat or the message does not exist, or the file cannot be written.
    pub fn select_branch(&self, chat: &str, id: MessageId) -> Result<MessageId, ChatsError> {
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

/// Marks answers that were being computed when the program ended. Returns their number.
pub(crate) fn mark_interrupted(connection: &Connection) -> rusqlite::Result<usize> {
    let mut statement = connection.prepare("SELECT row, content FROM messages WHERE state = 'answering'")?;
    let rows = statement.query_map([], |row| Ok((row.get::<_, i64>(0)?, row.get::<_, String>(1)?)))?;
    let rows = rows.collect::<Result<Vec<_>, _>>()?;
    for (row, content) in &rows {
        connection.execute("UPDATE messages SET state = 'cut' WHERE row = ?1", [row])?;
        index(connection, *row, content)?;
    }
    Ok(rows.len())
}

/// Adds one message and returns its row id.
pub(crate) fn insert(
    connection: &Connection,
    chat_row: i64,
    parent: Option<MessageId>,
    body: &MessageBody,
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
        body.role,
        body.content,
        body.thinking,
        body.thinking_ms,
        serde_json::to_string(&body.images)?,
        serde_json::to_string(&body.files)?,
        body.created_ms,
        body.model,
        body.state.word(),
        body.error,
        body.stats.as_ref().map(Value::to_string),
    ])?;
    let row = connection.last_insert_rowid();
    if body.state != MessageState::Answering {
        index(connection, row, &body.content)?;
    }
    connection.prepare_cached("UPDATE chats SET messages = messages + 1 WHERE row = ?1")?.execute([chat_row])?;
    Ok(row)
}

fn write_answer(connection: &Connection, id: MessageId, progress: &AnswerProgress) -> rusqlite::Result<()> {
    let AnswerProgress { content, thinking, thinking_ms, stats } = progress;
    let sql = "UPDATE messages SET content = ?2, thinking = ?3, thinking_ms = ?4, stats = ?5 WHERE row = ?1";
    let stats = stats.as_ref().map(Value::to_string);
    connection.prepare_cached(sql)?.execute(params![id.0, content, thinking, thinking_ms, stats]).map(drop)
}

fn index(connection: &Connection, row: i64, content: &str) -> rusqlite::Result<()> {
    let words::Indexed { words, singles } = words::indexed(content);
    let sql = "INSERT OR REPLACE INTO found_messages (rowid, words, singles) VALUES (?1, ?2, ?3)";
    connection.prepare_cached(sql)?.execute(params![row, words, singles]).map(drop)
}

/// Returns the number of messages above one.
fn depth(connection: &Connection, chat_row: i64, id: MessageId) -> Result<i64, ChatsError> {
    let mut statement = connection.prepare_cached("SELECT depth FROM messages WHERE row = ?1 AND chat = ?2")?;
    let depth = statement.query_row([id.0, chat_row], |row| row.get(0)).optional()?;
    depth.ok_or_else(|| ChatsError::MessageNotFound(id.to_string()))
}

fn message(connection: &Connection, chat_row: i64, id: MessageId) -> Result<Message, ChatsError> {
    let (_, message) = read_message(connection, chat_row, id)?;
    Ok(Message { versions: versions(connection, chat_row, message.parent)?, ..message })
}

/// Returns a message with its depth, without its versions.
fn read_message(connection: &Connection, chat_row: i64, id: MessageId) -> Result<(i64, Message), ChatsError> {
    let sql = format!("SELECT {COLUMNS} FROM messages WHERE row = ?1 AND chat = ?2");
    let raw = connection.prepare_cached(&sql)?.query_row([id.0, chat_row], raw).optional()?;
    raw.ok_or_else(|| ChatsError::MessageNotFound(id.to_string()))?.read()
}

fn versions(connection: &Connection, chat_row: i64, parent: Option<MessageId>) -> Result<Vec<MessageId>, ChatsError> {
    let sql = "SELECT row FROM messages WHERE parent IS ?1 AND chat = ?2 ORDER BY row";
    let mut statement = connection.prepare_cached(sql)?;
    let rows = statement.query_map(params![parent.map(|id| id.0), chat_row], |row| row.get(0).map(MessageId))?;
    Ok(rows.collect::<Result<_, _>>()?)
}

/// Row whose JSON columns are not parsed yet.
struct Raw {
    depth: i64,
    message: Message,
    images: String,
    files: String,
    stats: Option<String>,
}

fn raw(row: &Row<'_>) -> rusqlite::Result<Raw> {
    let body = MessageBody {
        content: row.get("content")?,
        thinking: row.get("thinking")?,
        thinking_ms: row.get("thinking_ms")?,
        model: row.get("model")?,
        state: MessageState::from_word(&row.get::<_, String>("state")?),
        error: row.get("error")?,
        ..MessageBody::new(row.get::<_, String>("role")?, "", row.get("created_ms")?)
    };
    let parent = row.get::<_, Option<i64>>("parent")?.map(MessageId);
    Ok(Raw {
        depth: row.get("depth")?,
        message: Message { id: MessageId(row.get("row")?), parent, body, versions: Vec::new() },
        images: row.get("images")?,
        files: row.get("files")?,
        stats: row.get("stats")?,
    })
}

impl Raw {
    fn read(self) -> Result<(i64, Message), ChatsError> {
        let mut message = self.message;
        message.body.images = serde_json::from_str(&self.images)?;
        message.body.files = serde_json::from_str(&self.files)?;
        message.body.stats = self.stats.map(|text| serde_json::from_str(&text)).transpose()?;
        Ok((self.depth, message))
    }
}
