//! Database schema and migrations.
//!
//! The version of a file is the number of applied [`MIGRATIONS`]. `cairn-sqlite` opens the file, and documents how.
//!
//! ```text
//! collections   one row per collection; `model` is the name that the user chose, `vector_model` the digest of the model of all vectors
//! documents     `state` is reading, stored or failed; `vectors` counts its chunks with vectors
//! chunks        text of a document; `start` and `end` are byte offsets in its part, `is_dense` marks scripts without spaces
//! vectors       16-bit floats, little-endian, of length 1
//! models        `reads_dense`: whether a model reads scripts without spaces, by digest
//! erasures      collections and documents that were deleted and may have copies in files; row 0 is for deletions before version 2
//! found_chunks  contentless FTS5 table: rowid is the row of the chunk, see `cairn-words`
//! ```
//!
//! **A backup has no vectors.** Cairn does not keep the documents, so a backup must have their text. Vectors are computed again from the
//! text, in the background, and a search uses words until then. They would be the largest part of a backup: 768 to 2,048 bytes for each
//! chunk, beside about 800 bytes of text and as many in the index. Two backups are kept, so a collection of 100,000 chunks would need up
//! to 400 MB more. The index stays in a backup, so that it is a complete database for searches by words.
//! A repair copies no vectors either: SQLite cannot find a wrong number in a damaged vector, and wrong vectors would make searches worse
//! without a sign.

use cairn_sqlite::{Format, Schema, Table};

use crate::{document, repair};

/// The file of collections.
pub(crate) const FORMAT: Format = Format {
    schema: Schema {
        application_id: APPLICATION_ID,
        migrations: MIGRATIONS,
        not_in_backups: "DELETE FROM vectors; UPDATE documents SET vectors = 0; UPDATE collections SET vector_model = NULL;",
    },
    main_table: "collections",
    indexes: &["found_chunks"],
    tables: &[
        Table { name: "collections", has_stable_rows: true, backup_condition: "" },
        Table {
            name: "documents",
            has_stable_rows: true,
            backup_condition: "WHERE EXISTS (SELECT 1 FROM collections WHERE row = ?2)",
        },
        Table {
            name: "chunks",
            has_stable_rows: true,
            backup_condition: "WHERE EXISTS (SELECT 1 FROM documents WHERE row = ?3)",
        },
        Table { name: "models", has_stable_rows: false, backup_condition: "" },
    ],
    begin: document::mark_interrupted,
    finish_repair: repair::finish,
};

/// `CrnD`.
const APPLICATION_ID: i32 = 0x4372_6e44;

/// Migrations from each version to the next. The first one creates the tables.
pub(crate) const MIGRATIONS: &[&str] = &[
    "
    CREATE TABLE collections (
        row INTEGER PRIMARY KEY AUTOINCREMENT,
        id TEXT NOT NULL UNIQUE,
        name TEXT NOT NULL,
        model TEXT,
        vector_model TEXT,
        created_ms INTEGER NOT NULL
    ) STRICT;

    CREATE TABLE documents (
        row INTEGER PRIMARY KEY AUTOINCREMENT,
        collection INTEGER NOT NULL REFERENCES collections (row),
        name TEXT NOT NULL,
        digest TEXT NOT NULL,
        bytes INTEGER NOT NULL,
        added_ms INTEGER NOT NULL,
        state TEXT NOT NULL,
        error TEXT,
        format TEXT,
        pages INTEGER,
        text_bytes INTEGER NOT NULL DEFAULT 0,
        chunks INTEGER NOT NULL DEFAULT 0,
        dense_chunks INTEGER NOT NULL DEFAULT 0,
        vectors INTEGER NOT NULL DEFAULT 0
    ) STRICT;
    CREATE INDEX documents_of_collections ON documents (collection, digest);

    CREATE TABLE chunks (
        row INTEGER PRIMARY KEY AUTOINCREMENT,
        collection INTEGER NOT NULL,
        document INTEGER NOT NULL REFERENCES documents (row),
        ordinal INTEGER NOT NULL,
        place TEXT NOT NULL,
        text TEXT NOT NULL,
        start INTEGER NOT NULL,
        end INTEGER NOT NULL,
        is_dense INTEGER NOT NULL
    ) STRICT;
    CREATE INDEX chunks_of_documents ON chunks (document, ordinal);

    CREATE TABLE vectors (
        collection INTEGER NOT NULL,
        chunk INTEGER NOT NULL,
        vector BLOB NOT NULL,
        PRIMARY KEY (collection, chunk)
    ) STRICT, WITHOUT ROWID;

    CREATE TABLE models (
        digest TEXT PRIMARY KEY,
        reads_dense INTEGER NOT NULL
    ) STRICT;

    CREATE VIRTUAL TABLE found_chunks USING fts5 (
        words, singles, content = '', contentless_delete = 1, tokenize = 'porter unicode61 remove_diacritics 2'
    );
",
    // The table `sqlite_sequence` is empty in a new file, which needs no erasure.
    "
    CREATE TABLE erasures (row INTEGER PRIMARY KEY, collection INTEGER, document INTEGER) STRICT;
    INSERT INTO erasures (row) SELECT 0 WHERE EXISTS (SELECT 1 FROM sqlite_sequence);
",
];

#[cfg(test)]
mod tests {
    use std::path::Path;

    use cairn_sqlite::FileError;
    use rusqlite::Connection;

    use super::*;

    fn open(path: &Path, migrations: &[&str]) -> Result<Connection, FileError> {
        Schema { migrations, ..FORMAT.schema }.open(path, 5)
    }

    #[test]
    fn later_migrations_are_applied_once() {
        let home = tempfile::tempdir().expect("a temporary folder");
        let path = home.path().join("new/collections.sqlite");
        let row = "INSERT INTO collections (id, name, created_ms) VALUES ('a', 'A', 1)";
        open(&path, MIGRATIONS).expect("a new file").execute(row, []).expect("a row");
        let later = [MIGRATIONS, &["ALTER TABLE collections ADD COLUMN color TEXT NOT NULL DEFAULT 'red'"]].concat();
        for _ in 0..2 {
            let connection = open(&path, &later).expect("the next version");
            let color: String =
                connection.query_row("SELECT color FROM collections", [], |row| row.get(0)).expect("the row is kept");
            assert_eq!(color, "red", "the new column");
        }
    }

    #[test]
    fn newer_and_foreign_files_are_rejected_unchanged() {
        let home = tempfile::tempdir().expect("a temporary folder");
        let path = home.path().join("collections.sqlite");
        drop(open(&path, &[MIGRATIONS, &["CREATE TABLE more (a TEXT) STRICT;"]].concat()).expect("a newer file"));
        let before = std::fs::read(&path).expect("the file");
        let error = open(&path, MIGRATIONS).expect_err("the file is newer").to_string();
        assert!(error.contains(&format!("version {}", MIGRATIONS.len() + 1)), "{error}");
        assert_eq!(std::fs::read(&path).expect("the file"), before, "the file is unchanged");

        let foreign = home.path().join("other.sqlite");
        Connection::open(&foreign).expect("a file").execute_batch("CREATE TABLE a (b)").expect("a table");
        assert!(matches!(open(&foreign, MIGRATIONS), Err(FileError::Foreign(_))), "a file of another program");
    }

    #[test]
    fn failed_migration_changes_nothing() {
        let home = tempfile::tempdir().expect("a temporary folder");
        let path = home.path().join("collections.sqlite");
        drop(open(&path, MIGRATIONS).expect("a new file"));
        let broken = "CREATE TABLE more (a TEXT) STRICT; ALTER TABLE nothing ADD COLUMN b TEXT;";
        assert!(open(&path, &[MIGRATIONS, &[broken]].concat()).is_err(), "the second statement fails");
        let connection = open(&path, MIGRATIONS).expect("the file has the old version");
        let sql = "SELECT count(*) FROM sqlite_schema WHERE name = 'more'";
        let more: i64 = connection.query_row(sql, [], |row| row.get(0)).expect("the query succeeds");
        assert_eq!(more, 0, "the first statement was rolled back");
    }
}
