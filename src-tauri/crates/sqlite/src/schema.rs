//! Schema of a file, and its migrations.
//!
//! `PRAGMA application_id` identifies the files of a [`Schema`]. `PRAGMA user_version` is the version: the number of applied
//! migrations. A file of a newer version is rejected unchanged. Before a migration, a backup is written beside the file, see
//! `backup`. All migrations run in one transaction.

use std::path::Path;

use cairn_disk::{Disk, Mode, RealDisk};
use rusqlite::{Connection, Transaction, TransactionBehavior};

use crate::{FileError, backup, connect};

/// Schema of a file in all its versions.
#[derive(Debug, Clone, Copy)]
pub struct Schema<'a> {
    /// Number that identifies the file.
    pub application_id: i32,
    /// Migrations from each version to the next. The first one creates the tables.
    pub migrations: &'a [&'a str],
    /// Statements that remove from a backup the rows that can be computed again. They must be valid for all versions.
    pub not_in_backups: &'a str,
}

impl Schema<'_> {
    /// Opens a file for writing, after creating or migrating it. `now_ms` is part of the backup's name.
    ///
    /// # Errors
    /// If the file cannot be opened or migrated, or belongs to another program or a newer version. It is unchanged then.
    pub fn open(&self, path: &Path, now_ms: i64) -> Result<Connection, FileError> {
        let open_error = |reason: String| FileError::Open { path: path.to_owned(), reason };
        if let Some(folder) = path.parent() {
            RealDisk.create_dir_all(folder).map_err(|error| open_error(error.to_string()))?;
        }
        if !path.exists() {
            // SQLite would create a file that other users can read. An empty file is an empty database.
            RealDisk.write_atomic(path, b"", Mode::Private).map_err(|error| open_error(error.to_string()))?;
        }
        // A connection that can write would copy the write-ahead log into a file that is then rejected.
        self.check(&connect::open_reader(path)?, path)?;
        let mut connection = connect::open_writer(path)?;
        prepare(&connection)?;
        self.migrate(&mut connection, path, now_ms)?;
        Ok(connection)
    }

    /// Creates a database in memory.
    pub(crate) fn in_memory(&self) -> Result<Connection, FileError> {
        let mut connection = Connection::open_in_memory()?;
        prepare(&connection)?;
        let transaction = connection.transaction()?;
        self.apply(&transaction, 0)?;
        transaction.commit()?;
        Ok(connection)
    }

    /// Returns the version of a file: the number of applied migrations.
    ///
    /// # Errors
    /// If the file belongs to another program or a newer version.
    pub(crate) fn check(&self, connection: &Connection, path: &Path) -> Result<usize, FileError> {
        let application = number(connection, "application_id")?;
        let version = number(connection, "user_version")?;
        let tables: i64 = connection.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))?;
        if tables > 0 && application != i64::from(self.application_id) {
            return Err(FileError::Foreign(path.to_owned()));
        }
        let applied = usize::try_from(version).unwrap_or(usize::MAX);
        if applied > self.version() {
            return Err(FileError::Newer { path: path.to_owned(), found: version, supported: self.version() });
        }
        Ok(applied)
    }

    /// Newest version.
    pub(crate) fn version(&self) -> usize {
        self.migrations.len()
    }

    /// Returns the schema as it was in an older version.
    pub(crate) fn up_to(&self, version: usize) -> Self {
        Self { migrations: &self.migrations[..version], ..*self }
    }

    fn migrate(&self, connection: &mut Connection, path: &Path, now_ms: i64) -> Result<(), FileError> {
        let applied = self.check(connection, path)?;
        // Must run outside a transaction. The mode is stored in the file.
        connection.query_row("PRAGMA journal_mode = WAL", [], |_| Ok(()))?;
        if applied == self.version() {
            return Ok(());
        }
        if applied > 0 {
            backup::write(path, applied, self.not_in_backups, now_ms)?;
        }
        let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        self.apply(&transaction, applied)?;
        Ok(transaction.commit()?)
    }

    fn apply(&self, transaction: &Transaction<'_>, applied: usize) -> rusqlite::Result<()> {
        self.migrations[applied..].iter().try_for_each(|migration| transaction.execute_batch(migration))?;
        transaction.pragma_update(None, "application_id", self.application_id)?;
        transaction.pragma_update(None, "user_version", i64::try_from(self.version()).expect("few migrations"))
    }
}

fn prepare(connection: &Connection) -> rusqlite::Result<()> {
    // A commit is durable, also after a power cut.
    connection.execute_batch("PRAGMA synchronous = FULL; PRAGMA foreign_keys = ON; PRAGMA secure_delete = ON;")
}

fn number(connection: &Connection, pragma: &str) -> rusqlite::Result<i64> {
    connection.pragma_query_value(None, pragma, |row| row.get(0))
}
