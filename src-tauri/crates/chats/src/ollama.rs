//! Reads the chats of Ollama's own app, which keeps them in `db.sqlite` in `~/Library/Application Support/Ollama` or
//! `%LOCALAPPDATA%\Ollama`.
//!
//! Its file is only ever copied: the app may be running, and opening a database in SQLite's way leaves files beside it. What is read
//! of the copy has been the same from the first layout that was published (2) to that of 2026 (18): `chats (id, title, created_at)`,
//! `messages (id, chat_id, role, content, thinking, model_name, created_at, thinking_time_start, thinking_time_end)`, and since layout
//! 3 `attachments (message_id, filename, data)`. A file without one of these columns is refused, whatever number it has; columns
//! beyond them are passed over. <https://github.com/ollama/ollama/blob/main/app/store/database.go>

use std::path::{Path, PathBuf};

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use rusqlite::{Connection, OpenFlags};

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
    let scratch = Scratch::new(scratch).map_err(|reason| OllamaError::File { path: path.to_owned(), reason })?;
    let copy = scratch.copy(path).map_err(|reason| OllamaError::File { path: path.to_owned(), reason })?;
    let damaged = |error: rusqlite::Error| OllamaError::NoDatabase { path: path.to_owned(), reason: error.to_string() };
    let connection = Connection::open_with_flags(&copy, OpenFlags::SQLITE_OPEN_READ_WRITE).map_err(damaged)?;
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
    fn new(folder: &Path) -> Result<Self, String> {
        use cairn_disk::{Disk, RealDisk};
        RealDisk.create_dir_all(folder).map_err(|error| error.to_string())?;
        Ok(Self(folder.to_owned()))
    }

    /// Copies a database, with what was written to it last, which is in a file beside it.
    fn copy(&self, path: &Path) -> Result<PathBuf, String> {
        let bytes = std::fs::metadata(path).map_err(|error| error.to_string())?.len();
        if bytes > MAX_BYTES {
            return Err(format!("it has {bytes} bytes, and at most {MAX_BYTES} are copied"));
        }
        let copy = self.0.join("db.sqlite");
        std::fs::copy(path, &copy).map_err(|error| error.to_string())?;
        let mut log = path.as_os_str().to_owned();
        log.push("-wal");
        if Path::new(&log).exists() {
            std::fs::copy(&log, self.0.join("db.sqlite-wal")).map_err(|error| error.to_string())?;
        }
        Ok(copy)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // It held what somebody has said, so it is not left; after a kill the next import removes it.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn lacking(connection: &Connection, table: &str, columns: &[&'static str]) -> rusqlite::Result<Option<&'static str>> {
    let mut statement = connection.prepare("SELECT name FROM pragma_table_info(?1)")?;
    let there = statement.query_map([table], |row| row.get::<_, String>(0))?.collect::<Result<Vec<_>, _>>()?;
    Ok(columns.iter().copied().find(|column| !there.iter().any(|name| name == column)))
}

fn chats(connection: &Connection, mut id: impl FnMut() -> String) -> rusqlite::Result<Vec<Brought>> {
    // Times are written in several ways, all of which SQLite reads.
    let sql = "SELECT id, title, CAST(round(1000 * unixepoch(created_at, 'subsec')) AS INTEGER) AS made
               FROM chats ORDER BY made, id";
    let mut statement = connection.prepare(sql)?;
    let rows = statement.query_map([], |row| {
        Ok((row.get::<_, String>(0)?, row.get::<_, String>(1)?, row.get::<_, Option<i64>>(2)?.unwrap_or(0)))
    })?;
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
            thinking: row.get::<_, Option<String>>(3)?.filter(|thinking| !thinking.is_empty()),
            model: row.get::<_, Option<String>>(4)?.filter(|model| !model.is_empty()),
            thinking_ms: row.get::<_, Option<i64>>(6)?.filter(|ms| *ms >= 0),
            ..Said::new(
                row.get::<_, String>(1)?,
                row.get::<_, String>(2)?,
                row.get::<_, Option<i64>>(5)?.unwrap_or(created_ms),
            )
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

/// Adds what came with a message. What is neither a picture nor a text is named in a file without contents.
fn attach(connection: &Connection, message: i64, said: &mut Said) -> rusqlite::Result<()> {
    let sql = "SELECT filename, data FROM attachments WHERE message_id = ?1 ORDER BY id";
    let mut statement = connection.prepare_cached(sql)?;
    let rows = statement.query_map([message], |row| Ok((row.get::<_, String>(0)?, row.get::<_, Vec<u8>>(1)?)))?;
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
mod tests {
    use super::*;
    use crate::{Chats, Trashed, Which};

    /// As layout 2 had it, which had no attachments.
    const FIRST: &str = "
        CREATE TABLE settings (id INTEGER PRIMARY KEY, schema_version INTEGER NOT NULL DEFAULT 2);
        CREATE TABLE chats (id TEXT PRIMARY KEY, title TEXT NOT NULL DEFAULT '',
            created_at TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP);
        CREATE TABLE messages (id INTEGER PRIMARY KEY AUTOINCREMENT, chat_id TEXT NOT NULL, role TEXT NOT NULL,
            content TEXT NOT NULL DEFAULT '', thinking TEXT NOT NULL DEFAULT '', stream BOOLEAN NOT NULL DEFAULT 0,
            model_name TEXT, created_at TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP,
            updated_at TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP, thinking_time_start TIMESTAMP, thinking_time_end TIMESTAMP);
        INSERT INTO chats VALUES ('b7', 'Bread', '2025-08-01 10:00:00.5+02:00'), ('a1', '', '2025-07-01 00:00:00');
        INSERT INTO messages (chat_id, role, content, created_at) VALUES ('b7', 'user', 'How long?', '2025-08-01T08:00:01Z');
        INSERT INTO messages (chat_id, role, content, thinking, model_name, created_at, thinking_time_start, thinking_time_end)
            VALUES ('b7', 'assistant', 'An hour.', 'Hm.', 'llama3.2', '2025-08-01 10:00:09.25+02:00',
                    '2025-08-01 10:00:02.5+02:00', '2025-08-01 10:00:04+02:00');";
    const LATER: &str = "
        ALTER TABLE chats ADD COLUMN browser_state TEXT;
        ALTER TABLE messages ADD COLUMN tool_result TEXT;
        CREATE TABLE attachments (id INTEGER PRIMARY KEY AUTOINCREMENT, message_id INTEGER NOT NULL, filename TEXT NOT NULL,
            data BLOB NOT NULL);
        INSERT INTO attachments (message_id, filename, data) VALUES (1, 'oven.png', X'89504E470D0A1A0A00'),
            (1, 'notes.txt', CAST('a note' AS BLOB)), (1, 'odd.bin', X'FFFE00');";

    /// Makes a database of these statements and reads it, with what is left in its folder.
    fn check(statements: &str) -> (Result<Vec<Brought>, OllamaError>, Vec<String>) {
        let home = tempfile::tempdir().expect("a temporary folder");
        let path = home.path().join("db.sqlite");
        let connection = Connection::open(&path).expect("a file");
        connection.execute_batch("PRAGMA journal_mode = WAL;").expect("as the app has it");
        connection.execute_batch(statements).expect("tables");
        // It stays open, as if the app was running.
        let mut made = 0;
        let read = read(&path, &home.path().join("scratch"), || {
            made += 1;
            format!("new{made}")
        });
        let entries = std::fs::read_dir(home.path()).expect("the folder is there").flatten();
        let mut left: Vec<String> = entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
        left.sort();
        (read, left)
    }

    #[test]
    fn chats_of_the_first_layout_and_of_later_ones() {
        let (first, left) = check(FIRST);
        assert_eq!(left, ["db.sqlite", "db.sqlite-shm", "db.sqlite-wal"], "no copy is left, and nothing of ours");
        let first = first.expect("it can be read");
        let [a, b] = &first[..] else { panic!("two chats: {first:?}") };
        assert_eq!(
            (a.origin.as_str(), a.chat.title.as_deref(), a.messages.len()),
            ("ollama:a1", None, 0),
            "an empty one"
        );
        assert_eq!((b.created_ms, b.updated_ms), (1_754_035_200_500, 1_754_035_209_250), "times with a zone");
        assert_eq!(b.chat.model.as_deref(), Some("llama3.2"), "the model that answered last");
        let answer = &b.messages[1].said;
        assert_eq!((answer.thinking.as_deref(), answer.thinking_ms), (Some("Hm."), Some(1500)), "what it thought");
        assert_eq!(b.messages[1].parent.as_deref(), Some("1"), "after the question");

        let later = check(&format!("{FIRST}{LATER}")).0.expect("it can be read");
        let said = &later[1].messages[0].said;
        assert_eq!(said.images.len(), 1, "the picture");
        let files: Vec<_> = said.files.iter().map(|file| (file.name.as_str(), file.text.as_str())).collect();
        assert_eq!(files, [("notes.txt", "a note"), ("odd.bin", "")], "the text, and the name of the rest");
    }

    #[test]
    fn what_was_brought_is_not_brought_again() {
        let brought = check(FIRST).0.expect("it can be read");
        let chats = Chats::in_memory().expect("a database");
        let arrived = chats.bring(&brought, Trashed::Stays).expect("it can be written");
        assert_eq!((arrived.chats.len(), arrived.messages, arrived.present), (2, 2, 0), "all of it");
        let again = chats.bring(&check(FIRST).0.expect("it can be read"), Trashed::Stays).expect("it can be written");
        assert_eq!((again.chats.len(), again.messages, again.present), (0, 0, 2), "once");
        let page = chats.list(&Which::Loose, None, 10).expect("a list");
        assert_eq!(page.chats[0].title, "Bread", "the last changed first");
        assert_eq!(chats.search("hour", 5).expect("a search").len(), 1, "it is found");
    }

    #[test]
    fn other_layouts_are_refused() {
        let refused = |statements: &str, part: &str| {
            let error = check(statements).0.expect_err(part).to_string();
            assert!(error.contains(part), "{part}: {error}");
        };
        refused("CREATE TABLE a (b);", "the table chats has no column id");
        refused(
            &format!("{FIRST} ALTER TABLE messages DROP COLUMN thinking;"),
            "the table messages has no column thinking",
        );
        let home = tempfile::tempdir().expect("a temporary folder");
        let path = home.path().join("db.sqlite");
        let error = read(&path, &home.path().join("s"), String::new).expect_err("it is not there").to_string();
        assert!(error.contains("cannot be read"), "{error}");
        std::fs::write(&path, "no database ".repeat(100)).expect("the folder is writable");
        let error = read(&path, &home.path().join("s"), String::new).expect_err("it is none").to_string();
        assert!(error.contains("no whole SQLite database"), "{error}");
    }
}
