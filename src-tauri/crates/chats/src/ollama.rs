//! Reader of the chats of Ollama's desktop app. They are in `db.sqlite` in `~/Library/Application Support/Ollama` or
//! `%LOCALAPPDATA%\Ollama`.
//!
//! The file is copied before it is read: the app may be running, and opening the database would create files beside it. The columns
//! read here are the same from the first published schema (2) to that of 2026 (18): `chats (id, title, created_at)`,
//! `messages (id, chat_id, role, content, thinking, model_name, created_at, thinking_time_start, thinking_time_end)`, and since
//! schema 3 `attachments (message_id, filename, data)`. A file without one of these columns is rejected, whatever its version;
//! further columns are ignored. <https://github.com/ollama/ollama/blob/main/app/store/database.go>

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use rusqlite::types::ValueRef;
use rusqlite::{Connection, OpenFlags, Row};
use serde_json::Map;

use cairn_wire::Timestamp;

use crate::{AttachedFile, ChatMessage, ChatRow, ExportedChat, ImportedChat, StoredChat};

/// Required columns.
const REQUIRED: &[(&str, &[&str])] = &[
    ("chats", &["id", "title", "created_at"]),
    (
        "messages",
        &[
            "id",
            "chat_id",
            "role",
            "content",
            "thinking",
            "model_name",
            "created_at",
            "thinking_time_start",
            "thinking_time_end",
        ],
    ),
];
const ATTACHMENTS: &[&str] = &["message_id", "filename", "data"];
/// Magic bytes of images that models accept: PNG, JPEG, GIF, WebP.
const IMAGE_MAGICS: [&[u8]; 4] = [b"\x89PNG\r\n\x1a\n", b"\xff\xd8\xff", b"GIF8", b"RIFF"];
/// Maximum size of a database.
const MAX_BYTES: u64 = 16 << 30;
/// Magic bytes of SQLite files. <https://sqlite.org/fileformat.html>
const MAGIC: &[u8; 16] = b"SQLite format 3\0";
/// Suffixes of SQLite's write-ahead log and rollback journal.
const LOG_SUFFIXES: [&str; 2] = ["-wal", "-journal"];
/// Attempts to copy a database that is written to meanwhile.
const COPY_ATTEMPTS: usize = 5;

/// Error when reading another app's chats.
#[derive(Debug, thiserror::Error)]
pub enum OllamaError {
    /// The file is missing or cannot be copied.
    #[error("{} cannot be read: {reason}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The reason.
        reason: String,
    },
    /// The file is not a database, or damaged.
    #[error("{} is not an intact SQLite database: {reason}", path.display())]
    NoDatabase {
        /// The file.
        path: PathBuf,
        /// The reason.
        reason: String,
    },
    /// The schema is not supported.
    #[error(
        "{} does not have the schema of the Ollama app's database: the table {table} has no column {column}; nothing was imported",
        path.display()
    )]
    Layout {
        /// The file.
        path: PathBuf,
        /// The table.
        table: &'static str,
        /// The missing column.
        column: &'static str,
    },
}

/// Reads all chats, the oldest first. `scratch` is a folder that this function creates for a temporary copy and removes. `id`
/// generates ids of new chats.
///
/// # Errors
/// If the file is missing or damaged, or has another schema.
pub fn read(path: &Path, scratch: &Path, id: impl FnMut() -> String) -> Result<Vec<ImportedChat>, OllamaError> {
    let unreadable = |error: io::Error| OllamaError::File { path: path.to_owned(), reason: error.to_string() };
    let damaged = |error: rusqlite::Error| OllamaError::NoDatabase { path: path.to_owned(), reason: error.to_string() };
    // Checked before the file is opened: opening a named pipe would block.
    check_file(path).map_err(unreadable)?;
    let mut head = Vec::new();
    File::open(path).and_then(|file| file.take(16).read_to_end(&mut head)).map_err(unreadable)?;
    if head != MAGIC {
        return Err(OllamaError::NoDatabase { path: path.to_owned(), reason: "it has no SQLite header".to_owned() });
    }
    let scratch = Scratch::new(scratch).map_err(unreadable)?;
    let copy = scratch.copy(path).map_err(unreadable)?;
    let connection = Connection::open_with_flags(&copy, OpenFlags::SQLITE_OPEN_READ_WRITE).map_err(damaged)?;
    // A check constraint of an untrusted file may run forever.
    connection.pragma_update(None, "ignore_check_constraints", true).map_err(damaged)?;
    // The copy may be inconsistent, because the app wrote during the copy.
    let check: String = connection.query_row("PRAGMA quick_check(1)", [], |row| row.get(0)).map_err(damaged)?;
    if check != "ok" {
        return Err(OllamaError::NoDatabase { path: path.to_owned(), reason: check });
    }
    for (table, columns) in REQUIRED {
        let missing = missing_column(&connection, table, columns).map_err(damaged)?;
        if let Some(column) = missing {
            return Err(OllamaError::Layout { path: path.to_owned(), table, column });
        }
    }
    chats(&connection, id).map_err(damaged)
}

/// Folder that is removed on drop.
struct Scratch(PathBuf);

impl Scratch {
    fn new(folder: &Path) -> io::Result<Self> {
        use cairn_disk::{Disk, RealDisk};
        RealDisk.create_dir_all(folder).map_err(|error| error.source)?;
        Ok(Self(folder.to_owned()))
    }

    /// Copies a database with its log files. Repeats the copy if the database was written to meanwhile.
    fn copy(&self, path: &Path) -> io::Result<PathBuf> {
        let copy = self.0.join("db.sqlite");
        for _ in 0..COPY_ATTEMPTS {
            let before = stamps(path);
            fs::copy(path, &copy)?;
            for suffix in LOG_SUFFIXES {
                let (from, to) = (with_suffix(path, suffix), with_suffix(&copy, suffix));
                match check_file(&from) {
                    Ok(()) => drop(fs::copy(from, to)?),
                    Err(error) if error.kind() == io::ErrorKind::NotFound => drop(fs::remove_file(to)),
                    Err(error) => return Err(error),
                }
            }
            if stamps(path) == before {
                break;
            }
        }
        Ok(copy)
    }
}

fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

/// Checks that the path is a regular file of acceptable size.
fn check_file(path: &Path) -> io::Result<()> {
    let metadata = fs::metadata(path)?;
    if !metadata.is_file() {
        return Err(io::Error::other("it is a folder, a pipe or a device"));
    }
    match metadata.len() {
        bytes if bytes > MAX_BYTES => {
            Err(io::Error::other(format!("it has {bytes} bytes, more than the limit of {MAX_BYTES}")))
        }
        _ => Ok(()),
    }
}

/// Returns the lengths and times of a database and its log files, which change with every write.
fn stamps(path: &Path) -> Vec<Option<(u64, Option<SystemTime>)>> {
    let files = [path.to_owned()].into_iter().chain(LOG_SUFFIXES.map(|suffix| with_suffix(path, suffix)));
    files.map(|file| fs::metadata(file).ok().map(|metadata| (metadata.len(), metadata.modified().ok()))).collect()
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // The copy is private data. If the process is killed, the next import removes it.
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Returns the first of the columns that a table does not have.
fn missing_column(
    connection: &Connection,
    table: &str,
    columns: &[&'static str],
) -> rusqlite::Result<Option<&'static str>> {
    // Only real tables count: a view of an untrusted file may have endless rows.
    let mut statement = connection.prepare(
        "SELECT name FROM pragma_table_info(?1) WHERE EXISTS (
             SELECT 1 FROM sqlite_schema WHERE name = ?1 AND type = 'table' AND sql NOT LIKE 'CREATE VIRTUAL%')",
    )?;
    let present = statement.query_map([table], |row| row.get::<_, String>(0))?.collect::<Result<Vec<_>, _>>()?;
    Ok(columns.iter().copied().find(|column| !present.iter().any(|name| name == column)))
}

/// Returns a value as text, whatever its type. One value of a wrong type must not fail the whole import.
fn text(row: &Row<'_>, column: usize) -> rusqlite::Result<String> {
    Ok(match row.get_ref(column)? {
        ValueRef::Null => String::new(),
        ValueRef::Integer(number) => number.to_string(),
        ValueRef::Real(number) => number.to_string(),
        ValueRef::Text(bytes) | ValueRef::Blob(bytes) => String::from_utf8_lossy(bytes).into_owned(),
    })
}

fn chats(connection: &Connection, mut id: impl FnMut() -> String) -> rusqlite::Result<Vec<ImportedChat>> {
    // Times have several formats, all of which SQLite parses.
    let sql = "SELECT id, title, CAST(round(1000 * unixepoch(created_at, 'subsec')) AS INTEGER) AS made
               FROM chats ORDER BY made, id";
    let mut statement = connection.prepare(sql)?;
    let rows = statement
        .query_map([], |row| Ok((text(row, 0)?, text(row, 1)?, row.get::<_, Option<i64>>(2)?.unwrap_or(0))))?;
    let has_attachments = missing_column(connection, "attachments", ATTACHMENTS)?.is_none();
    let mut imported = Vec::new();
    for row in rows {
        let (original_id, title, created_ms) = row?;
        let messages = messages(connection, &original_id, created_ms, has_attachments)?;
        let created_at = Timestamp::from_unix_ms(created_ms);
        let row = ChatRow {
            id: id(),
            title: if title.trim().is_empty() { String::new() } else { title },
            model: messages.iter().rev().find_map(|message| message.model.clone()),
            folder: None,
            pinned: false,
            created_at,
            updated_at: messages.iter().map(|message| message.created_at).max().unwrap_or(created_at),
            deleted_at: None,
            message_count: messages.len() as u64,
        };
        let chat = StoredChat {
            row,
            system: None,
            options: Map::new(),
            think: None,
            preset: None,
            collection: None,
            head: None,
        };
        imported
            .push(ImportedChat { origin: format!("ollama:{original_id}"), export: ExportedChat { chat, messages } });
    }
    Ok(imported)
}

fn messages(
    connection: &Connection,
    chat: &str,
    created_ms: i64,
    has_attachments: bool,
) -> rusqlite::Result<Vec<ChatMessage>> {
    let mut statement = connection.prepare_cached(
        "SELECT id, role, content, thinking, model_name, CAST(round(1000 * unixepoch(created_at, 'subsec')) AS INTEGER),
            CAST(round(1000 * (unixepoch(thinking_time_end, 'subsec') - unixepoch(thinking_time_start, 'subsec'))) AS INTEGER)
         FROM messages WHERE chat_id = ?1 ORDER BY id",
    )?;
    let rows = statement.query_map([chat], |row| {
        let created_at = Timestamp::from_unix_ms(row.get::<_, Option<i64>>(5)?.unwrap_or(created_ms));
        Ok(ChatMessage {
            id: row.get::<_, i64>(0)?.to_string(),
            thinking: Some(text(row, 3)?).filter(|thinking| !thinking.is_empty()),
            model: Some(text(row, 4)?).filter(|model| !model.is_empty()),
            thinking_ms: row.get::<_, Option<i64>>(6)?.and_then(|ms| u64::try_from(ms).ok()),
            ..ChatMessage::new(text(row, 1)?, text(row, 2)?, created_at)
        })
    })?;
    let mut messages: Vec<ChatMessage> = Vec::new();
    for row in rows {
        let mut message = row?;
        if has_attachments {
            attach(connection, &mut message)?;
        }
        message.parent = messages.last().map(|last| last.id.clone());
        messages.push(message);
    }
    Ok(messages)
}

fn bytes(row: &Row<'_>, column: usize) -> rusqlite::Result<Vec<u8>> {
    Ok(match row.get_ref(column)? {
        ValueRef::Text(bytes) | ValueRef::Blob(bytes) => bytes.to_vec(),
        _ => Vec::new(),
    })
}

/// Adds the attachments of a message. A file that is neither an image nor UTF-8 text gets no contents.
fn attach(connection: &Connection, message: &mut ChatMessage) -> rusqlite::Result<()> {
    let sql = "SELECT filename, data FROM attachments WHERE message_id = CAST(?1 AS INTEGER) ORDER BY id";
    let mut statement = connection.prepare_cached(sql)?;
    let rows = statement.query_map([&message.id], |row| Ok((text(row, 0)?, bytes(row, 1)?)))?;
    for row in rows {
        let (name, data) = row?;
        if IMAGE_MAGICS.iter().any(|magic| data.starts_with(magic)) {
            message.images.push(BASE64_STANDARD.encode(&data));
        } else {
            message.files.push(AttachedFile { name, text: String::from_utf8(data).unwrap_or_default() });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
