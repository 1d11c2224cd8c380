//! Database schema and migrations.
//!
//! The version of a file is the number of applied [`MIGRATIONS`]. `cairn-sqlite` opens the file, and documents how.
//!
//! ```text
//! chats      one row per chat; `head` is the last message of the selected branch
//! messages   one tree per chat; `depth` counts the messages above
//! presets    named settings of new chats
//! erasures   rows of chats that were deleted forever, or lost messages, and may have copies in files; 0 is for deletions before version 3
//! found_messages, found_titles   contentless FTS5 tables: rowid is the row of the message or chat, see `words`
//! ```

use cairn_sqlite::{Format, Schema, Table};

use crate::{message, repair};

/// The file of chats.
pub(crate) const FORMAT: Format = Format {
    schema: Schema { application_id: APPLICATION_ID, migrations: MIGRATIONS, not_in_backups: "" },
    main_table: "chats",
    indexes: &["found_messages", "found_titles"],
    tables: &[
        Table { name: "chats", has_stable_rows: true, backup_condition: "" },
        Table {
            name: "messages",
            has_stable_rows: true,
            backup_condition: "WHERE EXISTS (SELECT 1 FROM chats WHERE row = ?2)",
        },
        Table { name: "presets", has_stable_rows: false, backup_condition: "" },
    ],
    begin: message::mark_interrupted,
    finish_repair: repair::finish,
};

/// `CrnC`.
const APPLICATION_ID: i32 = 0x4372_6e43;

/// Migrations from each version to the next. The first one creates the tables.
pub(crate) const MIGRATIONS: &[&str] = &[
    "
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
",
    // Code and parameters of the error, as JSON. The column `error` has its text.
    "ALTER TABLE messages ADD COLUMN error_detail TEXT;",
    // The table `sqlite_sequence` is empty in a new file, which needs no erasure.
    "
    CREATE TABLE erasures (chat INTEGER PRIMARY KEY) STRICT;
    INSERT INTO erasures SELECT 0 WHERE EXISTS (SELECT 1 FROM sqlite_sequence);
",
    // Whether the user wrote this version of an answer.
    "ALTER TABLE messages ADD COLUMN edited INTEGER NOT NULL DEFAULT 0;",
    // Calls of tools before the text of an answer, and why tools were left out of it, as JSON. NULL for none.
    "ALTER TABLE messages ADD COLUMN steps TEXT; ALTER TABLE messages ADD COLUMN left_out TEXT;",
    // The collection of documents of a chat, and the passages for a question, as JSON. NULL for none.
    "ALTER TABLE chats ADD COLUMN collection TEXT; ALTER TABLE messages ADD COLUMN sources TEXT;",
];

/// Opens a file for writing, with other migrations.
#[cfg(test)]
pub(crate) fn open(
    path: &std::path::Path,
    migrations: &[&str],
    now_ms: i64,
) -> Result<rusqlite::Connection, crate::ChatsError> {
    Ok(Schema { migrations, ..FORMAT.schema }.open(path, now_ms)?)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use rusqlite::Connection;

    use super::*;
    use crate::ChatsError;

    fn files(folder: &Path) -> Vec<String> {
        let entries = std::fs::read_dir(folder).expect("the folder exists").flatten();
        let mut names: Vec<String> = entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
        names.retain(|name| !name.ends_with("-wal") && !name.ends_with("-shm"));
        names.sort();
        names
    }

    #[test]
    fn older_file_is_backed_up_and_migrated() {
        let home = tempfile::tempdir().expect("a temporary folder");
        let path = home.path().join("chats.sqlite");
        drop(open(&path, &MIGRATIONS[..1], 5).expect("a new file"));
        assert_eq!(files(home.path()), ["chats.sqlite"], "a new file needs no backup");
        let preset = "INSERT INTO presets (name, options) VALUES ('a', '{}')";
        open(&path, &MIGRATIONS[..1], 6).expect("the file").execute(preset, []).expect("a row");

        let later = [MIGRATIONS[0], "ALTER TABLE presets ADD COLUMN colour TEXT; UPDATE presets SET colour = 'red';"];
        let connection = open(&path, &later, 7).expect("the next version");
        let colour = |connection: &Connection| {
            connection.query_row("SELECT colour FROM presets WHERE name = 'a'", [], |row| row.get::<_, String>(0))
        };
        assert_eq!(colour(&connection).as_deref(), Ok("red"), "the migration was applied");
        assert_eq!(files(home.path()), ["chats.sqlite", "chats.v1.7.bak"], "a backup was written");
        let copy = Connection::open(home.path().join("chats.v1.7.bak")).expect("the backup");
        assert!(colour(&copy).is_err(), "the backup has the older version");
        let rows: i64 =
            copy.query_row("SELECT count(*) FROM presets", [], |row| row.get(0)).expect("the backup is readable");
        assert_eq!(rows, 1, "rows of the backup");
    }

    #[test]
    fn messages_of_version_1_keep_their_errors() {
        let home = tempfile::tempdir().expect("a temporary folder");
        let path = home.path().join("chats.sqlite");
        let rows = "
            INSERT INTO chats (id, title, titled, created_ms, updated_ms, options) VALUES ('c', '', 0, 1, 1, '{}');
            INSERT INTO messages (chat, depth, role, content, images, files, created_ms, state, error, stats)
                VALUES (1, 0, 'assistant', '', '[]', '[]', 1, 'failed', 'out of memory', '{\"answer_tokens\": 3}');";
        open(&path, &MIGRATIONS[..1], 5).expect("a new file").execute_batch(rows).expect("rows of version 1");
        let chats = crate::Chats::open(&path, 6).expect("the file is migrated");
        let [message] = &chats.messages("c").expect("messages")[..] else { panic!("one message") };
        assert_eq!(message.error, Some(cairn_wire::ErrorBody::text("out of memory")), "an error without a code");
        assert_eq!(message.usage.as_ref().map(|usage| usage.answer_tokens), Some(3), "the usage");
    }

    #[test]
    fn messages_of_version_4_have_no_steps() {
        let home = tempfile::tempdir().expect("a temporary folder");
        let path = home.path().join("chats.sqlite");
        let rows = "
            INSERT INTO chats (id, title, titled, created_ms, updated_ms, options) VALUES ('c', '', 0, 1, 1, '{}');
            INSERT INTO messages (chat, depth, role, content, images, files, created_ms, state, edited)
                VALUES (1, 0, 'assistant', 'hi', '[]', '[]', 1, 'complete', 1);";
        open(&path, &MIGRATIONS[..4], 5).expect("a new file").execute_batch(rows).expect("rows of version 4");
        let chats = crate::Chats::open(&path, 6).expect("the file is migrated");
        assert_eq!(files(home.path()), ["chats.sqlite", "chats.v4.6.bak"], "a backup was written");
        let [message] = &chats.messages("c").expect("messages")[..] else { panic!("one message") };
        assert_eq!((&*message.content, message.edited), ("hi", true), "the message is unchanged");
        assert!(message.steps.is_empty() && message.tools_left_out.is_empty(), "{message:?}");
    }

    #[test]
    fn chats_of_version_5_have_no_collection() {
        let home = tempfile::tempdir().expect("a temporary folder");
        let path = home.path().join("chats.sqlite");
        let rows = "
            INSERT INTO chats (id, title, titled, created_ms, updated_ms, options) VALUES ('c', '', 0, 1, 1, '{}');
            INSERT INTO messages (chat, depth, role, content, images, files, created_ms, state)
                VALUES (1, 0, 'user', 'hi', '[]', '[]', 1, 'complete');";
        open(&path, &MIGRATIONS[..5], 5).expect("a new file").execute_batch(rows).expect("rows of version 5");
        let chats = crate::Chats::open(&path, 6).expect("the file is migrated");
        assert_eq!(chats.chat("c").expect("the chat").collection, None);
        assert_eq!(chats.messages("c").expect("messages")[0].sources, None);
    }

    #[test]
    fn failed_backup_is_removed() {
        let home = tempfile::tempdir().expect("a temporary folder");
        let path = home.path().join("chats.sqlite");
        let connection = open(&path, &MIGRATIONS[..1], 5).expect("a new file");
        let root =
            "SELECT rootpage * (SELECT page_size FROM pragma_page_size) FROM sqlite_schema WHERE name = 'presets'";
        let end: i64 = connection.query_row(root, [], |row| row.get(0)).expect("the table exists");
        let end = usize::try_from(end).expect("the file is small");
        drop(connection);
        let mut bytes = std::fs::read(&path).expect("the file exists");
        bytes[end - 4096..end - 4088].fill(0xff);
        std::fs::write(&path, bytes).expect("the file is written");
        let later = [MIGRATIONS[0], "SELECT 1;"];
        let outcome = open(&path, &later, 7);
        assert!(matches!(outcome, Err(ChatsError::Damaged(_))), "the damaged file has no backup: {outcome:?}");
        assert_eq!(files(home.path()), ["chats.sqlite"], "the incomplete backup is removed");
    }

    #[test]
    fn failed_migration_changes_nothing() {
        let home = tempfile::tempdir().expect("a temporary folder");
        let path = home.path().join("chats.sqlite");
        drop(open(&path, &MIGRATIONS[..1], 5).expect("a new file"));
        let broken = [MIGRATIONS[0], "CREATE TABLE more (a TEXT) STRICT; ALTER TABLE nothing ADD COLUMN b TEXT;"];
        assert!(open(&path, &broken, 7).is_err(), "the second statement fails");
        let connection = open(&path, &MIGRATIONS[..1], 8).expect("the file has the old version");
        let more: i64 = connection
            .query_row("SELECT count(*) FROM sqlite_schema WHERE name = 'more'", [], |row| row.get(0))
            .expect("the query succeeds");
        assert_eq!(more, 0, "the first statement was rolled back");
    }

    #[test]
    fn newer_and_foreign_files_are_rejected_unchanged() {
        let home = tempfile::tempdir().expect("a temporary folder");
        let path = home.path().join("chats.sqlite");
        drop(
            open(&path, &[MIGRATIONS, &["CREATE TABLE more (a TEXT) STRICT;"]].concat(), 5)
                .expect("a file of a newer version"),
        );
        let before = std::fs::read(&path).expect("the file");
        let error = open(&path, MIGRATIONS, 6).expect_err("the file is newer").to_string();
        let newer = format!("version {}", MIGRATIONS.len() + 1);
        assert!(error.contains(&newer) && error.contains("newer version of Cairn"), "{error}");
        assert_eq!(std::fs::read(&path).expect("the file"), before, "the file is unchanged");

        let foreign = home.path().join("other.sqlite");
        Connection::open(&foreign).expect("a file").execute_batch("CREATE TABLE a (b)").expect("a table");
        assert!(matches!(open(&foreign, MIGRATIONS, 6), Err(ChatsError::Foreign(_))), "a file of another program");
        std::fs::write(
            &foreign,
            b"no database at all, but longer than a header of one hundred bytes would have to be ....",
        )
        .expect("the file is written");
        assert!(open(&foreign, MIGRATIONS, 6).is_err(), "not a database");
    }
}
