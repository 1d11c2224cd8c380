//! Backups of the chats, and the recovery of a damaged file.
//!
//! A routine backup is made once a day, and one before each migration. The newest [`KEPT`] stay. A file that SQLite cannot read is
//! set aside under a name with the time, and the newest backup that is valid replaces it.

use std::fs;
use std::path::{Path, PathBuf};

use cairn_disk::{Disk, Mode, RealDisk};
use rusqlite::{Connection, ErrorCode};

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

/// Writes a backup beside a file, for example `chats.v2.1767323045678.bak`.
pub(crate) fn write(connection: &Connection, path: &Path, now_ms: i64) -> Result<(), ChatsError> {
    let version = schema::version(connection)?;
    let copy = path.with_extension(format!("v{version}.{now_ms}.bak"));
    let backup_error = |reason: String| ChatsError::Backup { path: copy.clone(), reason };
    // SQLite accepts an empty file as the target, so only the owner can read the backup.
    RealDisk.write_atomic(&copy, b"", Mode::Private).map_err(|error| backup_error(error.to_string()))?;
    let name = copy.to_str().ok_or_else(|| backup_error("its path is not valid UTF-8".to_owned()))?;
    if let Err(error) = connection.execute("VACUUM INTO ?1", [name]) {
        // On a full disk every attempt would leave another incomplete backup. A failed removal is ignored.
        let _ = fs::remove_file(&copy);
        return Err(backup_error(error.to_string()));
    }
    let synced = fs::File::open(&copy).and_then(|file| file.sync_all());
    synced.map_err(|error| backup_error(error.to_string()))
}

/// Removes all backups of a file and all damaged files that were set aside.
pub(crate) fn remove_all(path: &Path) -> Result<(), ChatsError> {
    files_beside(path, ".bak").iter().try_for_each(|backup| remove(backup))?;
    let damaged = files_beside(path, "").into_iter().filter(|found| name(found).contains(DAMAGED));
    damaged.collect::<Vec<_>>().iter().try_for_each(|file| remove(file))
}

/// Part of the name of a damaged file.
const DAMAGED: &str = ".damaged.";

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

/// The backups of a file, the newest first.
fn backups(path: &Path) -> Vec<PathBuf> {
    let mut found = files_beside(path, ".bak");
    found.sort_by_key(|backup| std::cmp::Reverse(time_of(backup)));
    found
}

/// Time in the name of a backup.
fn time_of(backup: &Path) -> Option<i64> {
    name(backup).rsplit('.').nth(1)?.parse().ok()
}

/// The files beside `path` with its name, another extension, and this end.
fn files_beside(path: &Path, end: &str) -> Vec<PathBuf> {
    let stem = format!("{}.", path.file_stem().unwrap_or_default().to_string_lossy());
    let Some(entries) = path.parent().and_then(|folder| fs::read_dir(folder).ok()) else { return Vec::new() };
    let found = entries.flatten().map(|entry| entry.path());
    found.filter(|found| name(found).starts_with(&stem) && name(found).ends_with(end)).collect()
}

fn name(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

fn remove(path: &Path) -> Result<(), ChatsError> {
    fs::remove_file(path).map_err(|error| ChatsError::Backup { path: path.to_owned(), reason: error.to_string() })
}
