//! The files of backups, and of damaged databases that were set aside, beside the database.

use std::fs;
use std::path::{Path, PathBuf};

use cairn_disk::{Disk, Mode, RealDisk};
use rusqlite::Connection;

use crate::ChatsError;

/// Writes a backup beside a file, for example `chats.v2.1767323045678.bak`.
pub(crate) fn write(connection: &Connection, path: &Path, now_ms: i64) -> Result<(), ChatsError> {
    let version: i64 = connection.pragma_query_value(None, "user_version", |row| row.get(0))?;
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
    let damaged = files_beside(path).into_iter().filter(|found| name(found).contains(DAMAGED));
    backups(path).into_iter().chain(damaged).try_for_each(|file| remove(&file))
}

/// Part of the name of a damaged file.
const DAMAGED: &str = ".damaged.";

/// The backups of a file that [`write`] made, the newest first. Other copies belong to the user.
pub(crate) fn backups(path: &Path) -> Vec<PathBuf> {
    let mut found: Vec<_> = files_beside(path).into_iter().filter(|found| time_of(found).is_some()).collect();
    found.sort_by_key(|backup| std::cmp::Reverse(time_of(backup)));
    found
}

/// Time in the name of a backup, for example 1767323045678 in `chats.v2.1767323045678.bak`.
pub(crate) fn time_of(backup: &Path) -> Option<i64> {
    let name = name(backup);
    let mut parts = name.strip_suffix(".bak")?.rsplit('.');
    let time = parts.next()?.parse().ok()?;
    let version = parts.next()?.strip_prefix('v')?;
    version.parse::<u32>().ok().map(|_| time)
}

/// The files beside `path` with its name and another extension.
fn files_beside(path: &Path) -> Vec<PathBuf> {
    let stem = format!("{}.", path.file_stem().unwrap_or_default().to_string_lossy());
    let Some(entries) = path.parent().and_then(|folder| fs::read_dir(folder).ok()) else { return Vec::new() };
    entries.flatten().map(|entry| entry.path()).filter(|found| name(found).starts_with(&stem)).collect()
}

fn name(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

/// Removes a file. Another deletion may have removed it already.
pub(crate) fn remove(path: &Path) -> Result<(), ChatsError> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(ChatsError::Backup { path: path.to_owned(), reason: error.to_string() })
        }
        _ => Ok(()),
    }
}
