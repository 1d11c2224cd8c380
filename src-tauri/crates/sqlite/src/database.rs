//! A database with its connections, and what happens to it over time: repair, backups, erasure.

use std::path::{Path, PathBuf};

use cairn_disk::{Disk, RealDisk};
use parking_lot::Mutex;
use rusqlite::{Connection, TransactionBehavior};

use crate::repair::{self, Repair};
use crate::{DatabaseError, FileError, Format, backup, connect, erase};

/// A database in a file, or in memory.
#[derive(Debug)]
pub struct Database {
    format: &'static Format,
    /// `None` for a database in memory.
    path: Option<PathBuf>,
    /// `None` for a database in memory, which has only one connection. Declared and dropped before `writer`: SQLite copies the log
    /// into the file and removes it only if the last connection can write.
    reader: Option<Mutex<Connection>>,
    writer: Mutex<Connection>,
    unfinished: usize,
    /// The damage that an operation found. All operations fail until the file is repaired.
    damage: Mutex<Option<String>>,
    repaired: Mutex<Option<Repair>>,
    /// Held while backups and other copies of the file are written or removed. Locked before the connections.
    copies: Mutex<()>,
}

impl Database {
    /// Opens or creates a file. A file of an older version is backed up and migrated. A damaged file is repaired; see
    /// [`Database::last_repair`].
    ///
    /// # Errors
    /// If the file cannot be opened, or belongs to another program or a newer version. It is unchanged then.
    pub fn open(path: &Path, format: &'static Format, now_ms: i64) -> Result<Self, FileError> {
        repair::finish_interrupted(path)?;
        let mut opened = open_checked(path, format, now_ms);
        let mut repaired = None;
        if let Some(reason) = opened.as_ref().err().and_then(FileError::damage) {
            repaired = Some(repair::repair(path, format, &reason, now_ms)?);
            opened = open_checked(path, format, now_ms);
        }
        let (writer, reader, unfinished) = opened?;
        Ok(Self {
            format,
            path: Some(path.to_owned()),
            writer: Mutex::new(writer),
            reader: Some(Mutex::new(reader)),
            unfinished,
            damage: Mutex::default(),
            repaired: Mutex::new(repaired),
            copies: Mutex::default(),
        })
    }

    /// Creates an empty database in memory.
    ///
    /// # Errors
    /// If SQLite cannot create it.
    pub fn in_memory(format: &'static Format) -> Result<Self, FileError> {
        Ok(Self {
            format,
            path: None,
            writer: Mutex::new(format.schema.in_memory()?),
            reader: None,
            unfinished: 0,
            damage: Mutex::default(),
            repaired: Mutex::default(),
            copies: Mutex::default(),
        })
    }

    /// Returns the number of rows that the last process left unfinished.
    #[must_use]
    pub fn unfinished(&self) -> usize {
        self.unfinished
    }

    /// Returns the last repair since the file was opened.
    #[must_use]
    pub fn last_repair(&self) -> Option<Repair> {
        self.repaired.lock().clone()
    }

    /// Reports damage that the caller found. All operations fail until the file is repaired.
    pub fn report_damage(&self, found: String) {
        if self.path.is_some() {
            *self.damage.lock() = Some(found);
        }
    }

    /// Repairs the file if an operation found damage. Returns the repair.
    ///
    /// # Errors
    /// If the file cannot be repaired. All operations fail then, and the next call tries again.
    pub fn repair_if_damaged(&self, now_ms: i64) -> Result<Option<Repair>, FileError> {
        let (Some(path), Some(reader)) = (&self.path, &self.reader) else { return Ok(None) };
        if self.damage.lock().is_none() {
            return Ok(None);
        }
        let _copies = self.copies.lock();
        let (mut writer, mut reader, mut damage) = (self.writer.lock(), reader.lock(), self.damage.lock());
        let Some(reason) = &*damage else { return Ok(None) };
        // Closes both connections.
        *writer = Connection::open_in_memory()?;
        *reader = Connection::open_in_memory()?;
        let repaired = repair::repair(path, self.format, reason, now_ms)?;
        let (new_writer, new_reader, _) = open_checked(path, self.format, now_ms)?;
        (*writer, *reader, *damage) = (new_writer, new_reader, None);
        *self.repaired.lock() = Some(repaired.clone());
        Ok(Some(repaired))
    }

    /// Writes a backup if there are rows to back up and the last one is older than a day. Removes old backups. The file can be read
    /// and written meanwhile.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn back_up_if_due(&self, now_ms: i64) -> Result<(), FileError> {
        let Some(path) = &self.path else { return Ok(()) };
        let _copies = self.copies.lock();
        let schema = &self.format.schema;
        self.guard(|| {
            if !backup::is_due(path, schema.version(), now_ms) {
                return Ok(());
            }
            let is_empty = format!("SELECT NOT EXISTS (SELECT 1 FROM {})", self.format.main_table);
            if connect::open_reader(path)?.query_row(&is_empty, [], |row| row.get(0))? {
                return Ok(());
            }
            backup::write(path, schema.version(), schema.not_in_backups, now_ms)?;
            backup::remove_old(path, now_ms)
        })
    }

    /// Removes all copies of deleted rows from the files of the folder. Does nothing if there is no pending erasure. Writes wait while
    /// the file is rewritten, so one call should serve many deletions.
    ///
    /// # Errors
    /// If a file cannot be written or removed, or another process reads the database. The rows are deleted nevertheless, and the next
    /// call repeats the erasure.
    pub fn erase_deleted(&self, now_ms: i64) -> Result<(), FileError> {
        let Some(path) = &self.path else { return Ok(()) };
        let _copies = self.copies.lock();
        let erased = self.with_writer(|writer| {
            let pending = erase::pending(writer)?;
            if !pending.is_empty() {
                // The rewritten pages go to the log first. A log that another program reads would grow at each attempt.
                self.read(|_| erase::truncate_log(writer))?;
                erase::rewrite(writer, self.format)?;
                self.read(|_| erase::truncate_log(writer))?;
            }
            Ok::<_, FileError>(pending)
        })?;
        if erased.is_empty() {
            return Ok(());
        }
        for file in repair::files_set_aside(path) {
            backup::remove(&file)?;
        }
        let schema = &self.format.schema;
        backup::replace_all(path, schema.version(), schema.not_in_backups, now_ms)?;
        if let Some(folder) = path.parent() {
            let stale = RealDisk.remove_stale_temp_files(folder);
            stale.map_err(|error| FileError::Remove { path: folder.to_owned(), reason: error.to_string() })?;
        }
        // Rows that were deleted meanwhile may be in the new backup. They stay for the next call.
        self.write(|connection| Ok(erase::complete(connection, &erased)?))
    }

    /// Runs a read-only operation.
    ///
    /// # Errors
    /// If the operation fails, or the file is damaged.
    pub fn read<T, E: DatabaseError>(&self, read: impl FnOnce(&Connection) -> Result<T, E>) -> Result<T, E> {
        let reader = self.reader.as_ref().unwrap_or(&self.writer);
        let reader = reader.lock();
        self.guard(|| read(&reader))
    }

    /// Runs a write operation in one transaction.
    ///
    /// # Errors
    /// If the operation fails, or the file is damaged. Nothing is written then.
    pub fn write<T, E: DatabaseError>(&self, write: impl FnOnce(&Connection) -> Result<T, E>) -> Result<T, E> {
        self.with_writer(|writer| {
            // A deferred transaction that reads first would fail instead of waiting while another process writes, such as a backup.
            let transaction = writer.transaction_with_behavior(TransactionBehavior::Immediate)?;
            let written = write(&transaction)?;
            transaction.commit()?;
            Ok(written)
        })
    }

    /// Runs an operation on the write connection, outside a transaction.
    ///
    /// # Errors
    /// If the operation fails, or the file is damaged.
    pub fn with_writer<T, E: DatabaseError>(&self, work: impl FnOnce(&mut Connection) -> Result<T, E>) -> Result<T, E> {
        let mut writer = self.writer.lock();
        self.guard(|| work(&mut writer))
    }

    /// Runs an operation, unless damage was found before. Damage that it finds is repaired by [`Database::repair_if_damaged`].
    fn guard<T, E: DatabaseError>(&self, work: impl FnOnce() -> Result<T, E>) -> Result<T, E> {
        if let Some(damage) = &*self.damage.lock() {
            return Err(FileError::CheckFailed(damage.clone()).into());
        }
        work().inspect_err(|error| {
            if let Some(found) = error.damage() {
                self.report_damage(found);
            }
        })
    }
}

/// Opens the write and the read connection of a file. Checks the file first if the last process did not close it. Returns also the
/// number of rows that the last process left unfinished.
fn open_checked(path: &Path, format: &Format, now_ms: i64) -> Result<(Connection, Connection, usize), FileError> {
    let is_unclean = repair::is_unclean(path);
    let mut writer = format.schema.open(path, now_ms)?;
    if is_unclean {
        repair::quick_check(&writer)?;
    }
    let transaction = writer.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let unfinished = (format.begin)(&transaction)?;
    transaction.commit()?;
    Ok((writer, connect::open_reader(path)?, unfinished))
}
