//! Database schema and migrations.
//!
//! `PRAGMA application_id` identifies Cairn's files. `PRAGMA user_version` is the version of the schema: the number of applied
//! [`MIGRATIONS`]. A file of a newer version is rejected unchanged. All migrations run in one transaction.
//!
//! ```text
//! collections   one row per collection; `model` is the name that the user chose, `vector_model` the digest of the model of all vectors
//! documents     `state` is reading, stored or failed; `vectors` counts its chunks with vectors
//! chunks        text of a document; `start` and `end` are byte offsets in its part, `is_dense` marks scripts without spaces
//! vectors       16-bit floats, little-endian, of length 1
//! models        `reads_dense`: whether a model reads scripts without spaces, by digest
//! found_chunks  contentless FTS5 table: rowid is the row of the chunk, see `cairn-words`
//! ```

use std::path::Path;

use cairn_disk::{Disk, Mode, RealDisk};
use rusqlite::{Connection, TransactionBehavior};

use crate::{CollectionsError, connect};

/// `CrnD`.
const APPLICATION_ID: i64 = 0x4372_6e44;

/// Migrations from each version to the next. The first one creates the tables.
pub(crate) const MIGRATIONS: &[&str] = &["
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
"];

/// Opens a file for writing, after creating or migrating it.
pub(crate) fn open(path: &Path, migrations: &[&str]) -> Result<Connection, CollectionsError> {
    let open_error = |reason: String| CollectionsError::Open { path: path.to_owned(), reason };
    if let Some(folder) = path.parent() {
        RealDisk.create_dir_all(folder).map_err(|error| open_error(error.to_string()))?;
    }
    if !path.exists() {
        // SQLite would create a file that other users can read. An empty file is an empty database.
        RealDisk.write_atomic(path, b"", Mode::Private).map_err(|error| open_error(error.to_string()))?;
    }
    // A connection that can write would copy the write-ahead log into a file that is then rejected.
    check(&connect::open_reader(path)?, path, migrations.len())?;
    let mut connection = connect::open_writer(path)?;
    // A commit is durable, also after a power cut.
    connection.execute_batch("PRAGMA synchronous = FULL; PRAGMA foreign_keys = ON; PRAGMA secure_delete = ON;")?;
    migrate(&mut connection, path, migrations)?;
    Ok(connection)
}

/// Returns the version of a file: the number of applied migrations.
fn check(connection: &Connection, path: &Path, supported: usize) -> Result<usize, CollectionsError> {
    let application = number(connection, "application_id")?;
    let version = number(connection, "user_version")?;
    let tables: i64 = connection.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))?;
    if tables > 0 && application != APPLICATION_ID {
        return Err(CollectionsError::Foreign(path.to_owned()));
    }
    let applied = usize::try_from(version).unwrap_or(usize::MAX);
    if applied > supported {
        return Err(CollectionsError::Newer { path: path.to_owned(), found: version, supported });
    }
    Ok(applied)
}

fn migrate(connection: &mut Connection, path: &Path, migrations: &[&str]) -> Result<(), CollectionsError> {
    let applied = check(connection, path, migrations.len())?;
    // Must run outside a transaction. The mode is stored in the file.
    connection.query_row("PRAGMA journal_mode = WAL", [], |_| Ok(()))?;
    if applied == migrations.len() {
        return Ok(());
    }
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    migrations[applied..].iter().try_for_each(|migration| transaction.execute_batch(migration))?;
    transaction.pragma_update(None, "application_id", APPLICATION_ID)?;
    transaction.pragma_update(None, "user_version", i64::try_from(migrations.len()).expect("few migrations"))?;
    Ok(transaction.commit()?)
}

fn number(connection: &Connection, pragma: &str) -> rusqlite::Result<i64> {
    connection.pragma_query_value(None, pragma, |row| row.get(0))
}

#[cfg(test)]
mod tests {
    use super::*;

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
        assert!(matches!(open(&foreign, MIGRATIONS), Err(CollectionsError::Foreign(_))), "a file of another program");
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
