//! Reads the chats of Ollama's own app, which keeps them in `db.sqlite` in `~/Library/Application Support/Ollama` or
//! `%LOCALAPPDATA%\Ollama`.
//!
//! Its file is only ever copied: the app may be running, and opening a database in SQLite's way leaves files beside it. What is read
//! of the copy has been the same from the first layout that was published (2) to that of 2026 (18): `chats (id, title, created_at)`,
//! `messages (id, chat_id, role, content, thinking, model_name, created_at, thinking_time_start, thinking_time_end)`, and since layout
//! 3 `attachments (message_id, filename, data)`. A file without one of these columns is refused, whatever number it has; columns
//! beyond them are passed over. <https://github.com/ollama/ollama/blob/main/app/store/database.go>

use std::fs::{self, File as DiskFile};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use rusqlite::types::ValueRef;
use rusqlite::{Connection, OpenFlags, Row};

use crate::{Brought, BroughtMessage, File, NewChat, Said};

/// The columns that are read.
const NEEDED: &[(&str, &[&str])] = &[
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
/// How pictures begin that models look at: PNG, JPEG, GIF, WebP.
const PICTURES: [&[u8]; 4] = [b"\x89PNG\r\n\x1a\n", b"\xff\xd8\xff", b"GIF8", b"RIFF"];
/// The most bytes of a database that are copied.
const MAX_BYTES: u64 = 16 << 30;
/// How SQLite's files begin. <https://sqlite.org/fileformat.html>
const MAGIC: &[u8; 16] = b"SQLite format 3\0";
/// What SQLite keeps beside a file: what was written to it last, or what undoes the writing under way.
const BESIDE: [&str; 2] = ["-wal", "-journal"];
/// How often a database is copied that is written to meanwhile.
const COPIES: usize = 5;

/// Why a file's chats cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum OllamaError {
    /// It is not there, or cannot be copied.
    #[error("{} cannot be read: {reason}", path.display())]
    File {
        /// Which file.
        path: PathBuf,
        /// Why.
        reason: String,
    },
    /// It is no database, or a damaged one.
    #[error("{} is no whole SQLite database: {reason}", path.display())]
    NoDatabase {
        /// Which file.
        path: PathBuf,
        /// Why.
        reason: String,
    },
    /// It is laid out in a way that this version does not know.
    #[error(
        "{} is not laid out as the database of Ollama's app is known to be: the table {table} has no column {column}; nothing was \
         brought",
        path.display()
    )]
    Layout {
        /// Which file.
        path: PathBuf,
        /// The table.
        table: &'static str,
        /// What it lacks.
        column: &'static str,
    },
}

/// Reads all chats, the oldest first. `scratch` is a folder that is not there, for a copy that is gone when this returns; `id` makes
/// the id of a new chat.
///
/// # Errors
/// Where the file is not there, is damaged, or is laid out otherwise.
pub fn read(path: &Path, scratch: &Path, id: impl FnMut() -> String) -> Result<Vec<Brought>, OllamaError> {
    let unread = |error: io::Error| OllamaError::File { path: path.to_owned(), reason: error.to_string() };
    let damaged = |error: rusqlite::Error| OllamaError::NoDatabase { path: path.to_owned(), reason: error.to_string() };
    // Neither is anything copied that is no database, nor is a pipe opened, which waits for whoever writes into it.
    length(path).map_err(unread)?;
    let mut head = Vec::new();
    DiskFile::open(path).and_then(|file| file.take(16).read_to_end(&mut head)).map_err(unread)?;
    if head != MAGIC {
        return Err(OllamaError::NoDatabase { path: path.to_owned(), reason: "it begins otherwise".to_owned() });
    }
    let scratch = Scratch::new(scratch).map_err(unread)?;
    let copy = scratch.copy(path).map_err(unread)?;
    let connection = Connection::open_with_flags(&copy, OpenFlags::SQLITE_OPEN_READ_WRITE).map_err(damaged)?;
    // What the file demands of its own rows may take for ever to look at.
    connection.pragma_update(None, "ignore_check_constraints", true).map_err(damaged)?;
    // The app may have written while its file was copied.
    let word: String = connection.query_row("PRAGMA quick_check(1)", [], |row| row.get(0)).map_err(damaged)?;
    if word != "ok" {
        return Err(OllamaError::NoDatabase { path: path.to_owned(), reason: word });
    }
    for (table, columns) in NEEDED {
        let lacks = lacking(&connection, table, columns).map_err(damaged)?;
        if let Some(column) = lacks {
            return Err(OllamaError::Layout { path: path.to_owned(), table, column });
        }
    }
    chats(&connection, id).map_err(damaged)
}

/// A folder that is gone with this.
struct Scratch(PathBuf);

impl Scratch {
    fn new(folder: &Path) -> io::Result<Self> {
        use cairn_disk::{Disk, RealDisk};
        RealDisk.create_dir_all(folder).map_err(|error| error.source)?;
        Ok(Self(folder.to_owned()))
    }

    /// Copies a database with what is beside it; once more where somebody wrote meanwhile.
    fn copy(&self, path: &Path) -> io::Result<PathBuf> {
        let copy = self.0.join("db.sqlite");
        for _ in 0..COPIES {
            let before = state(path);
            fs::copy(path, &copy)?;
            for end in BESIDE {
                let (theirs, ours) = (beside(path, end), beside(&copy, end));
                match length(&theirs) {
                    Ok(_) => drop(fs::copy(theirs, ours)?),
                    Err(error) if error.kind() == io::ErrorKind::NotFound => drop(fs::remove_file(ours)),
                    Err(error) => return Err(error),
                }
            }
            if state(path) == before {
                break;
            }
        }
        Ok(copy)
    }
}

fn beside(path: &Path, end: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(end);
    name.into()
}

/// The bytes of a plain file.
fn length(path: &Path) -> io::Result<u64> {
    let found = fs::metadata(path)?;
    if !found.is_file() {
        return Err(io::Error::other("it is a folder, a pipe or a device"));
    }
    match found.len() {
        bytes if bytes > MAX_BYTES => {
            Err(io::Error::other(format!("it has {bytes} bytes, and at most {MAX_BYTES} are copied")))
        }
        bytes => Ok(bytes),
    }
}

/// What changes about a database and the files beside it when somebody writes.
fn state(path: &Path) -> Vec<Option<(u64, Option<SystemTime>)>> {
    let files = [path.to_owned()].into_iter().chain(BESIDE.map(|end| beside(path, end)));
    files.map(|file| fs::metadata(file).ok().map(|found| (found.len(), found.modified().ok()))).collect()
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // It held what somebody has said, so it is not left; after a kill the next import removes it.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn lacking(connection: &Connection, table: &str, columns: &[&'static str]) -> rusqlite::Result<Option<&'static str>> {
    // Of tables alone: a view may have rows without end.
    let mut statement = connection.prepare(
        "SELECT name FROM pragma_table_info(?1) WHERE EXISTS (
             SELECT 1 FROM sqlite_schema WHERE name = ?1 AND type = 'table' AND sql NOT LIKE 'CREATE VIRTUAL%')",
    )?;
    let there = statement.query_map([table], |row| row.get::<_, String>(0))?.collect::<Result<Vec<_>, _>>()?;
    Ok(columns.iter().copied().find(|column| !there.iter().any(|name| name == column)))
}

/// A text, or what stands in its place: one odd value among thousands keeps nobody from the others.
fn text(row: &Row<'_>, column: usize) -> rusqlite::Result<String> {
    Ok(match row.get_ref(column)? {
        ValueRef::Null => String::new(),
        ValueRef::Integer(number) => number.to_string(),
        ValueRef::Real(number) => number.to_string(),
        ValueRef::Text(bytes) | ValueRef::Blob(bytes) => String::from_utf8_lossy(bytes).into_owned(),
    })
}

fn chats(connection: &Connection, mut id: impl FnMut() -> String) -> rusqlite::Result<Vec<Brought>> {
    // Times are written in several ways, all of which SQLite reads.
    let sql = "SELECT id, title, CAST(round(1000 * unixepoch(created_at, 'subsec')) AS INTEGER) AS made
               FROM chats ORDER BY made, id";
    let mut statement = connection.prepare(sql)?;
    let rows = statement
        .query_map([], |row| Ok((text(row, 0)?, text(row, 1)?, row.get::<_, Option<i64>>(2)?.unwrap_or(0))))?;
    let has_attachments = lacking(connection, "attachments", ATTACHMENTS)?.is_none();
    let mut brought = Vec::new();
    for row in rows {
        let (theirs, title, created_ms) = row?;
        let messages = messages(connection, &theirs, created_ms, has_attachments)?;
        let updated_ms = messages.iter().map(|message| message.said.created_ms).max().unwrap_or(created_ms);
        let model = messages.iter().rev().find_map(|message| message.said.model.clone());
        let title = Some(title).filter(|title| !title.trim().is_empty());
        brought.push(Brought {
            chat: NewChat { id: id(), title, model, ..NewChat::default() },
            origin: format!("ollama:{theirs}"),
            pinned: false,
            created_ms,
            updated_ms,
            head: None,
            messages,
        });
    }
    Ok(brought)
}

fn messages(
    connection: &Connection,
    chat: &str,
    created_ms: i64,
    has_attachments: bool,
) -> rusqlite::Result<Vec<BroughtMessage>> {
    let mut statement = connection.prepare_cached(
        "SELECT id, role, content, thinking, model_name, CAST(round(1000 * unixepoch(created_at, 'subsec')) AS INTEGER),
            CAST(round(1000 * (unixepoch(thinking_time_end, 'subsec') - unixepoch(thinking_time_start, 'subsec'))) AS INTEGER)
         FROM messages WHERE chat_id = ?1 ORDER BY id",
    )?;
    let rows = statement.query_map([chat], |row| {
        let said = Said {
            thinking: Some(text(row, 3)?).filter(|thinking| !thinking.is_empty()),
            model: Some(text(row, 4)?).filter(|model| !model.is_empty()),
            thinking_ms: row.get::<_, Option<i64>>(6)?.filter(|ms| *ms >= 0),
            ..Said::new(text(row, 1)?, text(row, 2)?, row.get::<_, Option<i64>>(5)?.unwrap_or(created_ms))
        };
        Ok((row.get::<_, i64>(0)?, said))
    })?;
    let mut messages: Vec<BroughtMessage> = Vec::new();
    for row in rows {
        let (id, mut said) = row?;
        if has_attachments {
            attach(connection, id, &mut said)?;
        }
        let parent = messages.last().map(|last| last.id.clone());
        messages.push(BroughtMessage { id: id.to_string(), parent, said });
    }
    Ok(messages)
}

fn bytes(row: &Row<'_>, column: usize) -> rusqlite::Result<Vec<u8>> {
    Ok(match row.get_ref(column)? {
        ValueRef::Text(bytes) | ValueRef::Blob(bytes) => bytes.to_vec(),
        _ => Vec::new(),
    })
}

/// Adds what came with a message. What is neither a picture nor a text is named in a file without contents.
fn attach(connection: &Connection, message: i64, said: &mut Said) -> rusqlite::Result<()> {
    let sql = "SELECT filename, data FROM attachments WHERE message_id = ?1 ORDER BY id";
    let mut statement = connection.prepare_cached(sql)?;
    let rows = statement.query_map([message], |row| Ok((text(row, 0)?, bytes(row, 1)?)))?;
    for row in rows {
        let (name, data) = row?;
        if PICTURES.iter().any(|start| data.starts_with(start)) {
            said.images.push(BASE64_STANDARD.encode(&data));
        } else {
            said.files.push(File { name, text: String::from_utf8(data).unwrap_or_default() });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
