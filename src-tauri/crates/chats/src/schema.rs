//! The file's layout, and how a file of an older version becomes one of this.
//!
//! `PRAGMA application_id` says that a file is ours, `PRAGMA user_version` which version of the layout it has: as many of [`STEPS`]
//! as were taken. A file of a newer version is refused and left as it is. Before a step changes a file, a copy of it is written
//! beside it, `chats.v1.1767323045678.bak` for instance, and all steps are one transaction.
//!
//! ```text
//! chats      one row for each chat; `head` is the last message of the branch that is shown
//! messages   a tree for each chat; `depth` counts the messages before it
//! presets    what new chats begin with
//! found_messages, found_titles   FTS5 without contents: rowid is the row of the message or chat, see `words`
//! ```

use std::path::Path;
use std::time::Duration;

use cairn_disk::{Disk, Mode, RealDisk};
use rusqlite::{Connection, OpenFlags, Transaction, TransactionBehavior};

use crate::ChatsError;

/// `CrnC`.
const APPLICATION_ID: i64 = 0x4372_6e43;
/// How long to wait for another process that writes, a backup program for instance.
const PATIENCE: Duration = Duration::from_secs(5);

/// What turns each version into the next; the first makes a file.
pub(crate) const STEPS: &[&str] = &["
    CREATE TABLE chats (
        row INTEGER PRIMARY KEY AUTOINCREMENT,
        id TEXT NOT NULL UNIQUE,
        origin TEXT UNIQUE,
        title TEXT NOT NULL,
        titled INTEGER NOT NULL,
        model TEXT,
        folder TEXT,
        pinned INTEGER NOT NULL DEFAULT 0,
        created_ms INTEGER NOT NULL,
        updated_ms INTEGER NOT NULL,
        deleted_ms INTEGER,
        messages INTEGER NOT NULL DEFAULT 0,
        system TEXT,
        options TEXT NOT NULL,
        think TEXT,
        preset TEXT,
        head INTEGER
    ) STRICT;
    CREATE INDEX chats_listed ON chats (updated_ms DESC, row DESC) WHERE deleted_ms IS NULL AND pinned = 0;
    CREATE INDEX chats_pinned ON chats (updated_ms DESC, row DESC) WHERE deleted_ms IS NULL AND pinned = 1;
    CREATE INDEX chats_in_folders ON chats (folder, updated_ms DESC, row DESC)
        WHERE deleted_ms IS NULL AND folder IS NOT NULL;
    CREATE INDEX chats_deleted ON chats (deleted_ms DESC, row DESC) WHERE deleted_ms IS NOT NULL;

    CREATE TABLE messages (
        row INTEGER PRIMARY KEY AUTOINCREMENT,
        chat INTEGER NOT NULL REFERENCES chats (row) ON DELETE CASCADE,
        parent INTEGER REFERENCES messages (row),
        depth INTEGER NOT NULL,
        role TEXT NOT NULL,
        content TEXT NOT NULL,
        thinking TEXT,
        thinking_ms INTEGER,
        images TEXT NOT NULL,
        files TEXT NOT NULL,
        created_ms INTEGER NOT NULL,
        model TEXT,
        state TEXT NOT NULL,
        error TEXT,
        stats TEXT
    ) STRICT;
    CREATE INDEX messages_of_chats ON messages (chat);
    CREATE INDEX messages_after ON messages (parent, chat);
    CREATE INDEX messages_answering ON messages (row) WHERE state = 'answering';

    CREATE TABLE presets (
        name TEXT PRIMARY KEY,
        model TEXT,
        system TEXT,
        options TEXT NOT NULL,
        think TEXT
    ) STRICT;

    CREATE VIRTUAL TABLE found_messages USING fts5 (
        words, singles, content = '', contentless_delete = 1, tokenize = 'unicode61 remove_diacritics 2', prefix = '2 3'
    );
    CREATE VIRTUAL TABLE found_titles USING fts5 (
        words, singles, content = '', contentless_delete = 1, tokenize = 'unicode61 remove_diacritics 2', prefix = '2 3'
    );
"];

/// Opens a file for writing, and makes it or brings it to this version first. `now_ms` names the copy of an older one.
pub(crate) fn open(path: &Path, steps: &[&str], now_ms: i64) -> Result<Connection, ChatsError> {
    let failed = |reason: String| ChatsError::Open { path: path.to_owned(), reason };
    if let Some(folder) = path.parent() {
        RealDisk.create_dir_all(folder).map_err(|error| failed(error.to_string()))?;
    }
    if !path.exists() {
        // SQLite would let others read it. An empty file is an empty database.
        RealDisk.write_atomic(path, b"", Mode::Private).map_err(|error| failed(error.to_string()))?;
    }
    let connection = Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_WRITE);
    let mut connection = connection.map_err(|error| failed(error.to_string()))?;
    prepare(&connection).map_err(|error| failed(error.to_string()))?;
    migrate(&mut connection, path, steps, now_ms)?;
    Ok(connection)
}

/// A second connection to a file that is open, for those that only read.
pub(crate) fn open_reader(path: &Path) -> Result<Connection, ChatsError> {
    let connection = Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_ONLY)?;
    connection.busy_timeout(PATIENCE)?;
    Ok(connection)
}

/// A database that is nowhere but in memory.
pub(crate) fn in_memory() -> Result<Connection, ChatsError> {
    let mut connection = Connection::open_in_memory()?;
    prepare(&connection)?;
    let transaction = connection.transaction()?;
    take(&transaction, STEPS, 0)?;
    transaction.commit()?;
    Ok(connection)
}

fn prepare(connection: &Connection) -> rusqlite::Result<()> {
    connection.busy_timeout(PATIENCE)?;
    // What has been said to be kept is on the disk, also when the power goes.
    connection.execute_batch("PRAGMA synchronous = FULL; PRAGMA foreign_keys = ON; PRAGMA secure_delete = ON;")
}

fn migrate(connection: &mut Connection, path: &Path, steps: &[&str], now_ms: i64) -> Result<(), ChatsError> {
    let application = number(connection, "application_id")?;
    let version = number(connection, "user_version")?;
    let tables: i64 = connection.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))?;
    if tables > 0 && application != APPLICATION_ID {
        return Err(ChatsError::Foreign(path.to_owned()));
    }
    let taken = usize::try_from(version).unwrap_or(usize::MAX);
    if taken > steps.len() {
        return Err(ChatsError::Newer { path: path.to_owned(), found: version, known: steps.len() });
    }
    // Needs to be outside a transaction, and stays with the file.
    connection.query_row("PRAGMA journal_mode = WAL", [], |_| Ok(()))?;
    if taken == steps.len() {
        return Ok(());
    }
    if taken > 0 {
        back_up(connection, path, version, now_ms)?;
    }
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    take(&transaction, steps, taken)?;
    Ok(transaction.commit()?)
}

fn take(transaction: &Transaction<'_>, steps: &[&str], taken: usize) -> rusqlite::Result<()> {
    steps[taken..].iter().try_for_each(|step| transaction.execute_batch(step))?;
    transaction.pragma_update(None, "application_id", APPLICATION_ID)?;
    transaction.pragma_update(None, "user_version", i64::try_from(steps.len()).expect("there are few steps"))
}

/// Writes a whole copy beside the file.
fn back_up(connection: &Connection, path: &Path, version: i64, now_ms: i64) -> Result<(), ChatsError> {
    let copy = path.with_extension(format!("v{version}.{now_ms}.bak"));
    let failed = |reason: String| ChatsError::Backup { path: copy.clone(), reason };
    // SQLite writes into an empty file too, which only its owner can read.
    RealDisk.write_atomic(&copy, b"", Mode::Private).map_err(|error| failed(error.to_string()))?;
    let name = copy.to_str().ok_or_else(|| failed("its path is no text in UTF-8".to_owned()))?;
    if let Err(error) = connection.execute("VACUUM INTO ?1", [name]) {
        // On a full disk each attempt would leave another half of one; that this cannot be removed changes nothing.
        let _ = std::fs::remove_file(&copy);
        return Err(failed(error.to_string()));
    }
    let synced = std::fs::File::open(&copy).and_then(|file| file.sync_all());
    synced.map_err(|error| failed(error.to_string()))
}

fn number(connection: &Connection, pragma: &str) -> rusqlite::Result<i64> {
    connection.pragma_query_value(None, pragma, |row| row.get(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn files(folder: &Path) -> Vec<String> {
        let entries = std::fs::read_dir(folder).expect("the folder is there").flatten();
        let mut names: Vec<String> = entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
        names.retain(|name| !name.ends_with("-wal") && !name.ends_with("-shm"));
        names.sort();
        names
    }

    #[test]
    fn an_older_file_is_copied_and_brought_up() {
        let home = tempfile::tempdir().expect("a temporary folder");
        let path = home.path().join("chats.sqlite");
        drop(open(&path, &STEPS[..1], 5).expect("a new file"));
        assert_eq!(files(home.path()), ["chats.sqlite"], "a new file needs no copy");
        let preset = "INSERT INTO presets (name, options) VALUES ('a', '{}')";
        open(&path, &STEPS[..1], 6).expect("the file").execute(preset, []).expect("a row");

        let later = [STEPS[0], "ALTER TABLE presets ADD COLUMN colour TEXT; UPDATE presets SET colour = 'red';"];
        let connection = open(&path, &later, 7).expect("the next version");
        let colour = |connection: &Connection| {
            connection.query_row("SELECT colour FROM presets WHERE name = 'a'", [], |row| row.get::<_, String>(0))
        };
        assert_eq!(colour(&connection).as_deref(), Ok("red"), "the step was taken");
        assert_eq!(files(home.path()), ["chats.sqlite", "chats.v1.7.bak"], "and a copy was written before");
        let copy = Connection::open(home.path().join("chats.v1.7.bak")).expect("the copy");
        assert!(colour(&copy).is_err(), "which is of the older version");
        let rows: i64 = copy.query_row("SELECT count(*) FROM presets", [], |row| row.get(0)).expect("and whole");
        assert_eq!(rows, 1, "with what was in it");
    }

    #[test]
    fn half_a_copy_is_not_left() {
        let home = tempfile::tempdir().expect("a temporary folder");
        let path = home.path().join("chats.sqlite");
        let connection = open(&path, &STEPS[..1], 5).expect("a new file");
        let root =
            "SELECT rootpage * (SELECT page_size FROM pragma_page_size) FROM sqlite_schema WHERE name = 'presets'";
        let end: i64 = connection.query_row(root, [], |row| row.get(0)).expect("the table is there");
        let end = usize::try_from(end).expect("the file is short");
        drop(connection);
        let mut bytes = std::fs::read(&path).expect("the file is there");
        bytes[end - 4096..end - 4088].fill(0xff);
        std::fs::write(&path, bytes).expect("the folder is writable");
        let later = [STEPS[0], "SELECT 1;"];
        let refused = open(&path, &later, 7);
        assert!(matches!(refused, Err(ChatsError::Backup { .. })), "it cannot be copied: {refused:?}");
        assert_eq!(files(home.path()), ["chats.sqlite"], "each attempt would leave another");
    }

    #[test]
    fn a_step_that_fails_changes_nothing() {
        let home = tempfile::tempdir().expect("a temporary folder");
        let path = home.path().join("chats.sqlite");
        drop(open(&path, &STEPS[..1], 5).expect("a new file"));
        let broken = [STEPS[0], "CREATE TABLE more (a TEXT) STRICT; ALTER TABLE nothing ADD COLUMN b TEXT;"];
        assert!(open(&path, &broken, 7).is_err(), "the second half of the step cannot be");
        let connection = open(&path, &STEPS[..1], 8).expect("the file is of the version before");
        let more: i64 = connection
            .query_row("SELECT count(*) FROM sqlite_schema WHERE name = 'more'", [], |row| row.get(0))
            .expect("it can be asked");
        assert_eq!(more, 0, "nothing of the first half is left");
    }

    #[test]
    fn newer_and_foreign_files_are_refused_and_left() {
        let home = tempfile::tempdir().expect("a temporary folder");
        let path = home.path().join("chats.sqlite");
        drop(open(&path, &[STEPS[0], "CREATE TABLE more (a TEXT) STRICT;"], 5).expect("a file of a version to come"));
        let before = std::fs::read(&path).expect("the file");
        let error = open(&path, STEPS, 6).expect_err("it is newer").to_string();
        assert!(error.contains("version 2") && error.contains("newer version of Cairn"), "{error}");
        assert_eq!(std::fs::read(&path).expect("the file"), before, "not a byte of it changed");

        let foreign = home.path().join("other.sqlite");
        Connection::open(&foreign).expect("a file").execute_batch("CREATE TABLE a (b)").expect("a table");
        assert!(matches!(open(&foreign, STEPS, 6), Err(ChatsError::Foreign(_))), "another program's");
        std::fs::write(
            &foreign,
            b"no database at all, but longer than a header of one hundred bytes would have to be ....",
        )
        .expect("the folder is writable");
        assert!(open(&foreign, STEPS, 6).is_err(), "no database");
    }
}
