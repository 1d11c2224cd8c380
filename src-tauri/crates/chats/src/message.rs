//! Messages: one tree per chat. An edited question and a further answer are siblings of the original.

use std::collections::BTreeMap;

use cairn_wire::{ErrorBody, ErrorCode, Timestamp, Usage};
use rusqlite::{Connection, OptionalExtension, Row, params};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::chat::row_of;
use crate::{ChatMessage, Chats, ChatsError, MessageState, MessagesResponse, ToolStep, ToolsLeftOut, words};

/// Contents of an answer so far.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct AnswerProgress {
    /// Text.
    pub content: String,
    /// Thinking.
    pub thinking: Option<String>,
    /// Duration of the thinking.
    pub thinking_ms: Option<u64>,
    /// Usage, as far as it is available.
    pub usage: Option<Usage>,
    /// Steps before the text.
    pub steps: Vec<ToolStep>,
    /// Why tools were left out.
    pub tools_left_out: Vec<ToolsLeftOut>,
}

impl AnswerProgress {
    /// Returns the contents of an answer.
    #[must_use]
    pub fn of(answer: &ChatMessage) -> Self {
        Self {
            content: answer.content.clone(),
            thinking: answer.thinking.clone(),
            thinking_ms: answer.thinking_ms,
            usage: answer.usage.clone(),
            steps: answer.steps.clone(),
            tools_left_out: answer.tools_left_out.clone(),
        }
    }

    /// Returns an answer with these contents.
    #[must_use]
    pub fn in_answer(self, answer: &ChatMessage) -> ChatMessage {
        let Self { content, thinking, thinking_ms, usage, steps, tools_left_out } = self;
        ChatMessage { content, thinking, thinking_ms, usage, steps, tools_left_out, ..answer.clone() }
    }
}

const COLUMNS: &str = "row, chat, parent, depth, role, content, thinking, thinking_ms, images, files, created_ms, model, state, error, error_detail, stats, edited, steps, left_out, sources";

/// Returns the word of a state in the database.
fn word_of(state: MessageState) -> &'static str {
    match state {
        MessageState::Complete => "complete",
        MessageState::Answering => "answering",
        MessageState::Stopped => "stopped",
        MessageState::Interrupted => "cut",
        MessageState::Failed => "failed",
    }
}

fn state_of(word: &str) -> MessageState {
    match word {
        "answering" => MessageState::Answering,
        "stopped" => MessageState::Stopped,
        "cut" => MessageState::Interrupted,
        "failed" => MessageState::Failed,
        _ => MessageState::Complete,
    }
}

/// Code and parameters of an error, in the column `error_detail`. The column `error` has the text.
#[derive(Serialize, Deserialize)]
struct ErrorDetail {
    code: Option<ErrorCode>,
    params: BTreeMap<String, String>,
}

impl Chats {
    /// Adds a sequence of messages below `parent` and makes the last one the chat's head. All are written, or none. Ids,
    /// parents and versions of `messages` are ignored.
    ///
    /// # Errors
    /// If the chat or the parent does not exist, or the file cannot be written.
    pub fn add(
        &self,
        chat: &str,
        parent: Option<&str>,
        messages: &[ChatMessage],
        now_ms: i64,
    ) -> Result<Vec<ChatMessage>, ChatsError> {
        self.write(|connection| {
            let chat_row = row_of(connection, chat)?;
            let mut last = parent.map(row_id).transpose()?;
            let mut added = Vec::with_capacity(messages.len());
            for message in messages {
                let row = insert(connection, chat_row, last, message)?;
                last = Some(row);
                added.push(row);
            }
            let sql = "UPDATE chats SET head = ?2, updated_ms = max(updated_ms, ?3) WHERE row = ?1";
            connection.execute(sql, params![chat_row, last, now_ms])?;
            added.into_iter().map(|row| message(connection, chat_row, row)).collect()
        })
    }

    /// Returns one message.
    ///
    /// # Errors
    /// If it does not exist.
    pub fn message(&self, chat: &str, id: &str) -> Result<ChatMessage, ChatsError> {
        self.read(|connection| message(connection, row_of(connection, chat)?, row_id(id)?))
    }

    /// Returns the last `limit` messages of the path to `leaf`, or of its part above `before`. The default leaf is the chat's head.
    ///
    /// # Errors
    /// If the chat or a message does not exist.
    pub fn path(
        &self,
        chat: &str,
        leaf: Option<&str>,
        before: Option<&str>,
        limit: usize,
    ) -> Result<MessagesResponse, ChatsError> {
        self.read(|connection| {
            let chat_row = row_of(connection, chat)?;
            let head: Option<i64> =
                connection.query_row("SELECT head FROM chats WHERE row = ?1", [chat_row], |row| row.get(0))?;
            let leaf = leaf.map(row_id).transpose()?;
            let Some(leaf) = leaf.or(head) else { return Ok(MessagesResponse::default()) };
            let total = depth(connection, chat_row, leaf)?.unsigned_abs() + 1;
            let mut next = match before {
                None => Some(leaf),
                Some(before) => read_message(connection, chat_row, row_id(before)?)?.parent,
            };
            let mut messages = Vec::new();
            let mut first = 0;
            while let Some(row) = next.filter(|_| messages.len() < limit) {
                let read = read_message(connection, chat_row, row)?;
                (next, first) = (read.parent, read.depth.unsigned_abs());
                let versions = versions(connection, chat_row, read.parent)?;
                messages.push(ChatMessage { versions, ..read.message });
            }
            messages.reverse();
            Ok(MessagesResponse { before: if messages.is_empty() { 0 } else { first }, messages, total })
        })
    }

    /// Returns all messages of a chat without their versions, parents before children.
    ///
    /// # Errors
    /// If the chat does not exist.
    pub fn messages(&self, chat: &str) -> Result<Vec<ChatMessage>, ChatsError> {
        self.read(|connection| {
            let chat_row = row_of(connection, chat)?;
            let sql = format!("SELECT {COLUMNS} FROM messages WHERE chat = ?1 ORDER BY row");
            let mut statement = connection.prepare_cached(&sql)?;
            let mut rows = statement.query([chat_row])?;
            let mut messages = Vec::new();
            while let Some(row) = rows.next()? {
                messages.push(read(row)?.message);
            }
            Ok(messages)
        })
    }

    /// Stores the current contents of an answer, unless it has ended.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn write_progress(&self, id: &str, progress: &AnswerProgress) -> Result<(), ChatsError> {
        let row = row_id(id)?;
        self.write(|connection| {
            let sql = "SELECT state = 'answering' FROM messages WHERE row = ?1";
            let is_open: Option<bool> =
                connection.prepare_cached(sql)?.query_row([row], |row| row.get(0)).optional()?;
            // A progress write that started before the end of the answer may run after it.
            if is_open == Some(true) { write_answer(connection, row, progress) } else { Ok(()) }
        })
    }

    /// Stores the final contents and state of an answer. Calls of tools without a result are stored as interrupted.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn finish(
        &self,
        chat: &str,
        id: &str,
        progress: &AnswerProgress,
        end: (MessageState, Option<&ErrorBody>),
        now_ms: i64,
    ) -> Result<ChatMessage, ChatsError> {
        let row = row_id(id)?;
        self.write(|connection| {
            let chat_row = row_of(connection, chat)?;
            let mut progress = progress.clone();
            progress.steps.iter_mut().for_each(|step| {
                step.interrupt();
            });
            write_answer(connection, row, &progress)?;
            let (state, error) = end;
            let sql = "UPDATE messages SET state = ?2, error = ?3, error_detail = ?4 WHERE row = ?1";
            let text = error.map(|error| &error.error);
            connection.execute(sql, params![row, word_of(state), text, detail(error)?])?;
            let sql = "UPDATE chats SET updated_ms = max(updated_ms, ?2) WHERE row = ?1";
            connection.execute(sql, params![chat_row, now_ms])?;
            index(connection, row, &progress.content)?;
            message(connection, chat_row, row)
        })
    }

    /// Returns whether any message follows this one.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn has_reply(&self, id: &str) -> Result<bool, ChatsError> {
        let row = row_id(id)?;
        self.read(|connection| {
            let sql = "SELECT EXISTS (SELECT 1 FROM messages WHERE parent = ?1)";
            Ok(connection.prepare_cached(sql)?.query_row([row], |row| row.get(0))?)
        })
    }

    /// Sets an ended answer back to `answering`, without its error and usage.
    ///
    /// # Errors
    /// If the message does not exist, or the file cannot be written.
    pub fn resume_answer(&self, chat: &str, id: &str) -> Result<ChatMessage, ChatsError> {
        let row = row_id(id)?;
        self.write(|connection| {
            let chat_row = row_of(connection, chat)?;
            let sql = "UPDATE messages SET state = 'answering', error = NULL, error_detail = NULL, stats = NULL
                       WHERE row = ?1 AND chat = ?2";
            connection.execute(sql, params![row, chat_row])?;
            connection.execute("UPDATE chats SET head = ?2 WHERE row = ?1", params![chat_row, row])?;
            message(connection, chat_row, row)
        })
    }

    /// Selects the branch of a message: the path through it and its newest descendants.
    ///
    /// # Errors
    /// If the chat or the message does not exist, or the file cannot be written.
    pub fn select_branch(&self, chat: &str, id: &str) -> Result<(), ChatsError> {
        let mut head = row_id(id)?;
        self.write(|connection| {
            let chat_row = row_of(connection, chat)?;
            depth(connection, chat_row, head)?;
            head = newest_leaf(connection, head)?;
            connection.execute("UPDATE chats SET head = ?2 WHERE row = ?1", params![chat_row, head])?;
            Ok(())
        })
    }
}

/// Marks answers that were being computed when the program ended, and their calls of tools. Returns their number.
pub(crate) fn mark_interrupted(connection: &Connection) -> rusqlite::Result<usize> {
    let mut statement = connection.prepare("SELECT row, content, steps FROM messages WHERE state = 'answering'")?;
    let open = |row: &Row<'_>| Ok((row.get::<_, i64>(0)?, row.get::<_, String>(1)?, row.get::<_, Option<String>>(2)?));
    let rows = statement.query_map([], open)?.collect::<Result<Vec<_>, _>>()?;
    for (row, content, steps) in &rows {
        let mut steps: Vec<ToolStep> = list(steps.as_deref());
        connection.execute("UPDATE messages SET state = 'cut' WHERE row = ?1", [row])?;
        if steps.iter_mut().fold(false, |is_changed, step| step.interrupt() | is_changed) {
            // Steps that were read can be written.
            let steps = serde_json::to_string(&steps).ok();
            connection.execute("UPDATE messages SET steps = ?2 WHERE row = ?1", params![row, steps])?;
        }
        index(connection, *row, content)?;
    }
    Ok(rows.len())
}

/// Adds one message and returns its row id.
pub(crate) fn insert(
    connection: &Connection,
    chat_row: i64,
    parent: Option<i64>,
    message: &ChatMessage,
) -> Result<i64, ChatsError> {
    let depth = match parent {
        None => 0,
        Some(parent) => depth(connection, chat_row, parent)? + 1,
    };
    let mut steps = message.steps.clone();
    if message.state != MessageState::Answering {
        // Nothing runs the calls of an imported answer.
        steps.iter_mut().for_each(|step| {
            step.interrupt();
        });
    }
    let mut statement = connection.prepare_cached(
        "INSERT INTO messages (chat, parent, depth, role, content, thinking, thinking_ms, images, files, created_ms, model, state, error,
             error_detail, stats, edited, steps, left_out, sources)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19)",
    )?;
    statement.execute(params![
        chat_row,
        parent,
        depth,
        message.role,
        message.content,
        message.thinking,
        message.thinking_ms.and_then(|ms| i64::try_from(ms).ok()),
        serde_json::to_string(&message.images)?,
        serde_json::to_string(&message.files)?,
        message.created_at.unix_ms(),
        message.model,
        word_of(message.state),
        message.error.as_ref().map(|error| &error.error),
        detail(message.error.as_ref())?,
        message.usage.as_ref().map(serde_json::to_string).transpose()?,
        message.edited,
        json_of(&steps)?,
        json_of(&message.tools_left_out)?,
        message.sources.as_ref().map(serde_json::to_string).transpose()?,
    ])?;
    let row = connection.last_insert_rowid();
    if message.state != MessageState::Answering {
        index(connection, row, &message.content)?;
    }
    connection.prepare_cached("UPDATE chats SET messages = messages + 1 WHERE row = ?1")?.execute([chat_row])?;
    Ok(row)
}

fn write_answer(connection: &Connection, row: i64, progress: &AnswerProgress) -> Result<(), ChatsError> {
    let AnswerProgress { content, thinking, thinking_ms, usage, steps, tools_left_out } = progress;
    let sql = "UPDATE messages SET content = ?2, thinking = ?3, thinking_ms = ?4, stats = ?5, steps = ?6, left_out = ?7
               WHERE row = ?1";
    let usage = usage.as_ref().map(serde_json::to_string).transpose()?;
    let thinking_ms = thinking_ms.and_then(|ms| i64::try_from(ms).ok());
    let (steps, left_out) = (json_of(steps)?, json_of(tools_left_out)?);
    connection.prepare_cached(sql)?.execute(params![row, content, thinking, thinking_ms, usage, steps, left_out])?;
    Ok(())
}

/// Returns the value of a column with a list, which is NULL for an empty one.
fn json_of<T: Serialize>(list: &[T]) -> Result<Option<String>, ChatsError> {
    Ok((!list.is_empty()).then(|| serde_json::to_string(list)).transpose()?)
}

/// Reads a column with a list. One of another version may be unreadable; the message is still shown.
fn list<T: DeserializeOwned>(json: Option<&str>) -> Vec<T> {
    json.and_then(|json| serde_json::from_str(json).ok()).unwrap_or_default()
}

/// Returns the value of the column `error_detail`.
fn detail(error: Option<&ErrorBody>) -> Result<Option<String>, ChatsError> {
    let detail = error.filter(|error| error.code.is_some());
    let detail = detail.map(|error| ErrorDetail { code: error.code, params: error.params.clone() });
    Ok(detail.map(|detail| serde_json::to_string(&detail)).transpose()?)
}

pub(crate) fn index(connection: &Connection, row: i64, content: &str) -> rusqlite::Result<()> {
    let words::Indexed { words, singles } = words::indexed(content);
    let sql = "INSERT OR REPLACE INTO found_messages (rowid, words, singles) VALUES (?1, ?2, ?3)";
    connection.prepare_cached(sql)?.execute(params![row, words, singles]).map(drop)
}

/// Returns the row of a message by its id.
pub(crate) fn row_id(id: &str) -> Result<i64, ChatsError> {
    id.parse().map_err(|_| ChatsError::MessageNotFound(id.to_owned()))
}

/// Returns the number of messages above one.
fn depth(connection: &Connection, chat_row: i64, row: i64) -> Result<i64, ChatsError> {
    let mut statement = connection.prepare_cached("SELECT depth FROM messages WHERE row = ?1 AND chat = ?2")?;
    let depth = statement.query_row([row, chat_row], |row| row.get(0)).optional()?;
    depth.ok_or_else(|| ChatsError::MessageNotFound(row.to_string()))
}

/// Returns the last message of the branch through a message and its newest descendants.
pub(crate) fn newest_leaf(connection: &Connection, mut row: i64) -> Result<i64, ChatsError> {
    let mut statement = connection.prepare_cached("SELECT max(row) FROM messages WHERE parent = ?1")?;
    while let Some(next) = statement.query_row([row], |row| row.get::<_, Option<i64>>(0))? {
        row = next;
    }
    Ok(row)
}

pub(crate) fn message(connection: &Connection, chat_row: i64, row: i64) -> Result<ChatMessage, ChatsError> {
    let read = read_message(connection, chat_row, row)?;
    Ok(ChatMessage { versions: versions(connection, chat_row, read.parent)?, ..read.message })
}

fn read_message(connection: &Connection, chat_row: i64, row: i64) -> Result<ReadMessage, ChatsError> {
    let sql = format!("SELECT {COLUMNS} FROM messages WHERE row = ?1 AND chat = ?2");
    let mut statement = connection.prepare_cached(&sql)?;
    let mut rows = statement.query([row, chat_row])?;
    read(rows.next()?.ok_or_else(|| ChatsError::MessageNotFound(row.to_string()))?)
}

fn versions(connection: &Connection, chat_row: i64, parent: Option<i64>) -> Result<Vec<String>, ChatsError> {
    let sql = "SELECT row FROM messages WHERE parent IS ?1 AND chat = ?2 ORDER BY row";
    let mut statement = connection.prepare_cached(sql)?;
    let rows = statement.query_map(params![parent, chat_row], |row| Ok(row.get::<_, i64>(0)?.to_string()))?;
    Ok(rows.collect::<Result<_, _>>()?)
}

/// Message without its versions, with its place in the tree.
struct ReadMessage {
    depth: i64,
    parent: Option<i64>,
    message: ChatMessage,
}

fn read(row: &Row<'_>) -> Result<ReadMessage, ChatsError> {
    let parent: Option<i64> = row.get("parent")?;
    let text = |column: &str| row.get::<_, String>(column);
    let json = |column: &str| row.get::<_, Option<String>>(column);
    // A usage or an error code of another version may be unreadable; the message is still shown.
    let detail = json("error_detail")?.and_then(|json| serde_json::from_str::<ErrorDetail>(&json).ok());
    let error = row.get::<_, Option<String>>("error")?.map(|error| match detail {
        Some(ErrorDetail { code, params }) => ErrorBody { error, code, params },
        None => ErrorBody::text(error),
    });
    let created_at = Timestamp::from_unix_ms(row.get("created_ms")?);
    let message = ChatMessage {
        id: row.get::<_, i64>("row")?.to_string(),
        parent: parent.map(|parent| parent.to_string()),
        thinking: row.get("thinking")?,
        thinking_ms: row.get::<_, Option<i64>>("thinking_ms")?.map(i64::unsigned_abs),
        images: serde_json::from_str(&text("images")?)?,
        files: serde_json::from_str(&text("files")?)?,
        model: row.get("model")?,
        state: state_of(&text("state")?),
        error,
        usage: json("stats")?.and_then(|json| serde_json::from_str(&json).ok()),
        edited: row.get("edited")?,
        steps: list(json("steps")?.as_deref()),
        tools_left_out: list(json("left_out")?.as_deref()),
        sources: json("sources")?.and_then(|json| serde_json::from_str(&json).ok()),
        ..ChatMessage::new(text("role")?, text("content")?, created_at)
    };
    Ok(ReadMessage { depth: row.get("depth")?, parent, message })
}
