//! Backups beside the file, for example `chats.v5.1767323045678.bak`: version of the schema, and time in milliseconds since 1970.
//!
//! One backup is written each day and before each migration. The newest two are kept. A backup is a valid database that contains no
//! deleted row, and no row that can be computed again. After an erasure, all backups are replaced by a new one. Files with other names
//! belong to the user.

use std::path::{Path, PathBuf};

use cairn_disk::{Disk, Mode, RealDisk};
use rusqlite::Connection;

use crate::{FileError, connect};

/// Age at which a new backup is due.
const INTERVAL_MS: u64 = 24 * 60 * 60 * 1000;
/// Number of backups that stay.
const KEPT: usize = 2;
/// Extension of a backup until it is complete.
pub(crate) const PARTIAL: &str = "bak-partial";

/// Backup of the file at a time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Backup {
    pub(crate) path: PathBuf,
    pub(crate) version: usize,
    pub(crate) written_ms: i64,
}

/// Returns the backups of a file, the newest first. A backup with a future time sorts last, because a clock was wrong.
pub(crate) fn list(path: &Path, now_ms: i64) -> Vec<Backup> {
    let backup = |(extension, path): (String, PathBuf)| {
        let (version, written_ms) = extension.strip_prefix('v')?.strip_suffix(".bak")?.split_once('.')?;
        Some(Backup { path, version: version.parse().ok()?, written_ms: written_ms.parse().ok()? })
    };
    let mut backups: Vec<Backup> = files_beside(path).into_iter().filter_map(backup).collect();
    backups.sort_by_key(|backup| (backup.written_ms > now_ms, backup.written_ms.abs_diff(now_ms)));
    backups
}

/// Returns the files beside `path` that have its stem, each with its extension, for example `v4.1767323045678.bak`.
pub(crate) fn files_beside(path: &Path) -> Vec<(String, PathBuf)> {
    let prefix = path.file_stem().map(|stem| format!("{}.", stem.to_string_lossy())).unwrap_or_default();
    let entries = path.parent().and_then(|folder| std::fs::read_dir(folder).ok()).into_iter().flatten().flatten();
    let extension = |entry: &std::fs::DirEntry| Some(entry.file_name().to_str()?.strip_prefix(&prefix)?.to_owned());
    entries.filter_map(|entry| Some((extension(&entry)?, entry.path()))).collect()
}

/// Returns whether there is no backup of this version, or the last one is older than a day.
pub(crate) fn is_due(path: &Path, version: usize, now_ms: i64) -> bool {
    let last = list(path, now_ms).into_iter().find(|backup| backup.version == version);
    last.is_none_or(|last| last.written_ms.abs_diff(now_ms) >= INTERVAL_MS)
}

/// Removes all backups but the newest ones.
pub(crate) fn remove_old(path: &Path, now_ms: i64) -> Result<(), FileError> {
    list(path, now_ms).iter().skip(KEPT).try_for_each(|old| remove(&old.path))
}

/// Replaces all backups, if there are any, by a new one.
pub(crate) fn replace_all(path: &Path, version: usize, excluded: &str, now_ms: i64) -> Result<(), FileError> {
    let old = list(path, now_ms);
    if old.is_empty() {
        return Ok(());
    }
    let new = write(path, version, excluded, now_ms)?;
    old.iter().filter(|old| old.path != new).try_for_each(|old| remove(&old.path))
}

/// Writes a backup and returns its path. The statements `excluded` remove rows from it.
pub(crate) fn write(path: &Path, version: usize, excluded: &str, now_ms: i64) -> Result<PathBuf, FileError> {
    let copy = path.with_extension(format!("v{version}.{now_ms}.bak"));
    let partial = path.with_extension(PARTIAL);
    let backup_error = |reason: String| FileError::Backup { path: copy.clone(), reason };
    // SQLite accepts an empty file as the target, so only the owner can read the backup.
    RealDisk.write_atomic(&partial, b"", Mode::Private).map_err(|error| backup_error(error.to_string()))?;
    let name = partial.to_str().ok_or_else(|| backup_error("its path is not valid UTF-8".to_owned()))?;
    // A connection of its own, so that the file can be read and written during the backup.
    let written = connect::open_reader(path)?.execute("VACUUM INTO ?1", [name]).map_err(FileError::from);
    let written = written.and_then(|_| exclude(&partial, excluded));
    if let Err(error) = written {
        // A failed removal is ignored: the next attempt overwrites the file.
        let _ = std::fs::remove_file(&partial);
        return Err(match error {
            damaged @ FileError::Damaged(_) => damaged,
            other => backup_error(other.to_string()),
        });
    }
    let synced = std::fs::File::open(&partial).and_then(|file| file.sync_all());
    synced.map_err(|error| backup_error(error.to_string()))?;
    RealDisk.rename(&partial, &copy).map_err(|error| backup_error(error.to_string()))?;
    Ok(copy)
}

fn exclude(partial: &Path, excluded: &str) -> Result<(), FileError> {
    if excluded.is_empty() {
        return Ok(());
    }
    let connection = connect::open_writer(partial)?;
    // A journal would be another file with the rows. An incomplete backup is not used.
    connection.query_row("PRAGMA journal_mode = OFF", [], |_| Ok(()))?;
    connection.execute_batch(excluded)?;
    connect::rewrite(&connection)?;
    close(connection)
}

/// Closes a connection. Windows does not rename an open file.
pub(crate) fn close(connection: Connection) -> Result<(), FileError> {
    Ok(connection.close().map_err(|(_, error)| error)?)
}

/// Removes a file. A missing file is not an error.
pub(crate) fn remove(path: &Path) -> Result<(), FileError> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(FileError::Remove { path: path.to_owned(), reason: error.to_string() })
        }
        _ => Ok(()),
    }
}
