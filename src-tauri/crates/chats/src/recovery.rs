//! Routine backups of the chats, and the recovery of a damaged file.
//!
//! A routine backup is made once a day, and one before each migration. The newest [`KEPT`] stay. A file that SQLite cannot read is
//! set aside under a name with the time, and the newest backup that is valid replaces it.

use std::fs;
use std::path::{Path, PathBuf};

use rusqlite::{Connection, ErrorCode};

use crate::backup::{backups, remove, time_of, write};
use crate::{Chats, ChatsError, schema};

/// Number of backups that stay.
const KEPT: usize = 2;
const DAY_MS: i64 = 24 * 60 * 60 * 1000;
/// The files of a database in WAL mode, by the ends of their names. The log must move with its database.
const PARTS: [&str; 3] = ["", "-wal", "-shm"];

/// A damaged file that was replaced.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Recovery {
    /// The damaged file.
    pub set_aside: PathBuf,
    /// Time of the backup that replaced it, in milliseconds since 1970; `None` if there was no valid one.
    pub backup_ms: Option<i64>,
}

impl Chats {
    /// Writes a backup if the newest one is a day old, and removes old ones. Runs beside other operations.
    ///
    /// # Errors
    /// If the backup cannot be written.
    pub fn back_up_if_due(&self, now_ms: i64) -> Result<(), ChatsError> {
        let Some(path) = &self.path else { return Ok(()) };
        // A backup from the future was made with a wrong clock.
        let is_recent = |at: i64| (0..DAY_MS).contains(&now_ms.saturating_sub(at));
        if backups(path).iter().any(|backup| time_of(backup).is_some_and(is_recent)) {
            return Ok(());
        }
        let connection = schema::open_reader(path)?;
        if connection.query_row("SELECT NOT EXISTS (SELECT 1 FROM chats)", [], |row| row.get(0))? {
            return Ok(());
        }
        write(&connection, path, now_ms)?;
        for old in backups(path).iter().skip(KEPT) {
            remove(old)?;
        }
        Ok(())
    }

    /// The damaged file that the start replaced, if any.
    #[must_use]
    pub fn recovery(&self) -> Option<&Recovery> {
        self.recovery.as_ref()
    }
}

/// Whether an error shows that the file itself is damaged.
pub(crate) fn is_damage(error: &ChatsError) -> bool {
    let ChatsError::Sql(error) = error else { return false };
    matches!(error.sqlite_error_code(), Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase))
}

/// Checks all pages of a file.
///
/// # Errors
/// If it is damaged, or cannot be read.
pub(crate) fn check(connection: &Connection) -> Result<(), ChatsError> {
    let verdict: String = connection.query_row("PRAGMA quick_check (1)", [], |row| row.get(0))?;
    if verdict == "ok" {
        return Ok(());
    }
    let corrupt = rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_CORRUPT);
    Err(rusqlite::Error::SqliteFailure(corrupt, Some(verdict)).into())
}

/// Sets a damaged file aside and puts the newest valid backup in its place, if there is one.
///
/// # Errors
/// If files cannot be renamed or copied.
pub(crate) fn recover(path: &Path, now_ms: i64) -> Result<Recovery, ChatsError> {
    let set_aside = path.with_extension(format!("damaged.{now_ms}.sqlite"));
    let open_error = |error: std::io::Error| ChatsError::Open { path: path.to_owned(), reason: error.to_string() };
    for part in PARTS {
        let [from, to] = [path, &set_aside].map(|path| PathBuf::from(format!("{}{part}", path.display())));
        match fs::rename(from, to) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(open_error(error)),
            _ => {}
        }
    }
    let is_valid = |backup: &&PathBuf| schema::open_reader(backup).and_then(|backup| check(&backup)).is_ok();
    let valid = backups(path);
    let Some(backup) = valid.iter().find(is_valid) else { return Ok(Recovery { set_aside, backup_ms: None }) };
    let copy = path.with_extension("new");
    // A copy has the mode of its source.
    fs::copy(backup, &copy).and_then(|_| fs::File::open(&copy)?.sync_all()).map_err(open_error)?;
    fs::rename(&copy, path).map_err(open_error)?;
    Ok(Recovery { set_aside, backup_ms: time_of(backup) })
}
