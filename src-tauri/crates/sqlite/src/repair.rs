//! Repair of a damaged file.
//!
//! All rows that can be read are copied to a new file. Rows that are missing there are copied from the newest good backup. The
//! damaged file is set aside, for example as `chats.damaged.1767323045678.sqlite`, with its write-ahead log. The number is the time
//! in milliseconds since 1970. A backup may contain rows that were deleted forever and are not erased yet. The table `erasures`
//! lists them, and the repair does not restore them.
//!
//! A kill or an error at any step loses nothing: `chats.repaired` is complete before the damaged file is renamed, and
//! [`finish_interrupted`] does the rest at the next start or at the next attempt.

use std::path::{Path, PathBuf};

use cairn_disk::{Disk, DiskError, Mode, RealDisk};
use rusqlite::{Connection, OptionalExtension};

use crate::salvage::{EVERY_ROW, copy, copy_table, keep_sequence};
use crate::{FileError, Format, backup, connect};

/// Result of a repair.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Repair {
    /// Damage that SQLite reported.
    pub reason: String,
    /// Path of the damaged file.
    pub set_aside: PathBuf,
    /// Whether some rows are from a backup. False if the new file is from an earlier attempt that failed.
    pub used_backup: bool,
    /// Tables of the new file, each with its number of rows.
    rows: Vec<(&'static str, u64)>,
}

impl Repair {
    /// Returns the number of rows of a table of the new file.
    #[must_use]
    pub fn rows(&self, table: &str) -> u64 {
        self.rows.iter().find(|(name, _)| *name == table).map_or(0, |(_, rows)| *rows)
    }
}

/// Ends of the names of files that SQLite keeps beside a database.
const SUFFIXES: [&str; 3] = ["-journal", "-wal", "-shm"];
/// Extension of the new file while it is filled.
const PARTIAL: &str = "repaired-partial";
/// Extension of the complete new file.
const NEW: &str = "repaired";
/// Table of deleted rows that may have copies in files.
const ERASURES: &str = "erasures";

/// Returns whether the file must be checked: the last process did not close it.
pub(crate) fn is_unclean(path: &Path) -> bool {
    beside(path, "-wal").metadata().is_ok_and(|log| log.len() > 0)
}

/// Checks all pages. Does not compare indexes with tables.
///
/// # Errors
/// If the check finds a fault.
pub fn quick_check(connection: &Connection) -> Result<(), FileError> {
    let found: String = connection.query_row("PRAGMA quick_check(1)", [], |row| row.get(0))?;
    if found == "ok" { Ok(()) } else { Err(FileError::CheckFailed(found)) }
}

/// Returns the files that repairs set aside, and what an interrupted repair or backup left. Other files belong to the user.
#[must_use]
pub fn files_set_aside(path: &Path) -> Vec<PathBuf> {
    let is_ours = |extension: &str| {
        let database = SUFFIXES.iter().find_map(|suffix| extension.strip_suffix(suffix)).unwrap_or(extension);
        [NEW, PARTIAL, backup::PARTIAL].contains(&database) || set_aside_ms(database).is_some()
    };
    backup::files_beside(path).into_iter().filter(|(extension, _)| is_ours(extension)).map(|(_, path)| path).collect()
}

/// Returns the time of the newest damaged file that was set aside.
fn newest_set_aside_ms(path: &Path) -> Option<i64> {
    backup::files_beside(path).iter().filter_map(|(extension, _)| set_aside_ms(extension)).max()
}

/// Returns the time in the extension of a database that was set aside.
fn set_aside_ms(extension: &str) -> Option<i64> {
    extension.strip_prefix("damaged.")?.strip_suffix(".sqlite")?.parse().ok()
}

fn set_aside_path(path: &Path, ms: i64) -> PathBuf {
    path.with_extension(format!("damaged.{ms}.sqlite"))
}

/// Puts the complete new file of an interrupted repair in its place.
pub(crate) fn finish_interrupted(path: &Path) -> Result<(), FileError> {
    let new = path.with_extension(NEW);
    if path.exists() || !new.exists() {
        return Ok(());
    }
    // SQLite would replay the log and the journal of the damaged file into the new one. The log may have rows that are lost
    // elsewhere, so it stays with the damaged file.
    let log = beside(path, "-wal");
    if log.exists() {
        let set_aside = set_aside_path(path, newest_set_aside_ms(path).unwrap_or_default());
        RealDisk.rename(&log, &beside(&set_aside, "-wal")).map_err(|error| repair_error(path, &error))?;
    }
    backup::remove(&beside(path, "-shm"))?;
    backup::remove(&beside(path, "-journal"))?;
    RealDisk.rename(&new, path).map_err(|error| repair_error(path, &error))
}

/// Replaces a damaged file. The caller must close all its connections first.
pub(crate) fn repair(path: &Path, format: &Format, reason: &str, now_ms: i64) -> Result<Repair, FileError> {
    let new = path.with_extension(NEW);
    let mut used_backup = false;
    // Otherwise, the last attempt failed between its renames, and its new file has all rows.
    if path.exists() || !new.exists() {
        used_backup = write_new(path, &new, format, now_ms)?;
        // `finish_interrupted` adds the log to the newest file that was set aside, also if the clock was set back.
        let ms = newest_set_aside_ms(path).map_or(now_ms, |newest| now_ms.max(newest.saturating_add(1)));
        // Rename the database before its log. SQLite ignores a log without a database, but would replay this log into a different
        // database.
        RealDisk.rename(path, &set_aside_path(path, ms)).map_err(|error| repair_error(path, &error))?;
    }
    let connection = connect::open_reader(&new)?;
    let count = |table: &str| {
        let sql = format!("SELECT count(*) FROM {table}");
        connection.query_row(&sql, [], |row| row.get::<_, i64>(0).map(i64::unsigned_abs))
    };
    let rows = format.tables.iter().map(|table| Ok((table.name, count(table.name)?)));
    let rows = rows.collect::<rusqlite::Result<Vec<_>>>()?;
    backup::close(connection)?;
    finish_interrupted(path)?;
    let set_aside = set_aside_path(path, newest_set_aside_ms(path).unwrap_or_default());
    Ok(Repair { reason: reason.to_owned(), set_aside, used_backup, rows })
}

/// Writes the new file and returns whether it has rows that were only in the backup.
fn write_new(path: &Path, new: &Path, format: &Format, now_ms: i64) -> Result<bool, FileError> {
    let partial = path.with_extension(PARTIAL);
    SUFFIXES.iter().try_for_each(|suffix| backup::remove(&beside(&partial, suffix)))?;
    RealDisk.write_atomic(&partial, b"", Mode::Private).map_err(|error| repair_error(path, &error))?;
    let used_backup = rescue(path, &partial, format, now_ms)?;
    // The last commit synced the contents.
    RealDisk.rename(&partial, new).map_err(|error| repair_error(path, &error))?;
    Ok(used_backup)
}

/// Fills the new file with rows of the damaged one and of the newest good backup. Returns whether there were rows only in the
/// backup.
fn rescue(path: &Path, new: &Path, format: &Format, now_ms: i64) -> Result<bool, FileError> {
    let schema = &format.schema;
    let open = |path: &Path, is_damaged: bool| {
        let connection = connect::open_reader(path).ok()?;
        // SQLite rejects a truncated file, unless it may have to be corrected. This connection is read-only.
        connection.pragma_update(None, "writable_schema", is_damaged).ok()?;
        let version = schema.check(&connection, path).ok().filter(|version| *version > 0)?;
        Some((connection, version))
    };
    let damaged = open(path, true);
    let good = |copy: backup::Backup| {
        let (connection, version) = open(&copy.path, false)?;
        let is_usable = damaged.as_ref().is_none_or(|(_, damaged)| *damaged == version);
        (is_usable && quick_check(&connection).is_ok()).then_some((connection, version))
    };
    let backup = backup::list(path, now_ms).into_iter().find_map(good);
    let version = damaged.as_ref().or(backup.as_ref()).map_or(schema.version(), |(_, version)| *version);
    let target = schema.up_to(version).open(new, now_ms)?;
    // A row may be readable while the row that it belongs to is not.
    target.execute_batch("PRAGMA foreign_keys = OFF; PRAGMA journal_mode = DELETE; BEGIN")?;
    let damaged = damaged.as_ref().map(|(connection, _)| connection);
    let backup = backup.as_ref().map(|(connection, _)| connection);
    if let Some(damaged) = damaged.filter(|_| has_erasures(&target).unwrap_or(false)) {
        copy(damaged, &target, ERASURES, &[EVERY_ROW], "")?;
    }
    let mut used_backup = false;
    for table in format.tables {
        used_backup |= copy_table(table, damaged, backup, &target)?;
    }
    for table in format.tables {
        [damaged, backup].into_iter().flatten().try_for_each(|from| keep_sequence(from, &target, table.name))?;
    }
    (format.finish_repair)(&target, version)?;
    target.execute_batch("COMMIT")?;
    backup::close(target)?;
    Ok(used_backup)
}

/// Returns whether a file has the table of erasures: older versions do not.
fn has_erasures(connection: &Connection) -> rusqlite::Result<bool> {
    let sql = "SELECT 1 FROM sqlite_schema WHERE name = ?1";
    Ok(connection.query_row(sql, [ERASURES], |_| Ok(())).optional()?.is_some())
}

/// Returns the path of a file that SQLite keeps beside a database.
fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

fn repair_error(path: &Path, error: &DiskError) -> FileError {
    FileError::Repair { path: path.to_owned(), reason: error.to_string() }
}
