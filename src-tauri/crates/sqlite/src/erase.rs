//! Removes all copies of deleted rows from the file and from its log.
//!
//! `PRAGMA secure_delete` overwrites a deleted row, but not the copies that SQLite made when it moved rows between pages. A full-text
//! index keeps the words of deleted rows until its segments are merged. The write-ahead log has old pages until it is truncated. So
//! the indexes are merged, every page is rewritten, and the log is truncated. Backups and files that were set aside have
//! everything, and are replaced or removed.
//!
//! The deletion adds a row to the table `erasures` in its own transaction. The table is emptied after the last step, so an
//! erasure that fails or is killed is repeated later.

use std::time::Duration;

use rusqlite::Connection;

use crate::{FileError, Format, connect};

/// Returns the row ids of pending erasures.
pub(crate) fn pending(connection: &Connection) -> rusqlite::Result<Vec<i64>> {
    connection.prepare("SELECT rowid FROM erasures")?.query_map([], |row| row.get(0))?.collect()
}

/// Removes completed erasures.
pub(crate) fn complete(connection: &Connection, rows: &[i64]) -> rusqlite::Result<()> {
    let mut done = connection.prepare("DELETE FROM erasures WHERE rowid = ?1")?;
    rows.iter().try_for_each(|row| done.execute([row]).map(drop))
}

/// Rewrites every page, without deleted rows.
pub(crate) fn rewrite(connection: &Connection, format: &Format) -> rusqlite::Result<()> {
    for index in format.indexes {
        connection.execute_batch(&format!("INSERT INTO {index} ({index}) VALUES ('optimize')"))?;
    }
    connect::rewrite(connection)
}

/// Copies the write-ahead log into the file and empties it.
pub(crate) fn truncate_log(connection: &Connection) -> Result<(), FileError> {
    // Do not wait for other processes: this call blocks all reads of the file.
    connection.busy_timeout(Duration::ZERO)?;
    let is_busy = connection.query_row("PRAGMA wal_checkpoint (TRUNCATE)", [], |row| row.get(0));
    connection.busy_timeout(connect::BUSY_TIMEOUT)?;
    if is_busy? { Err(FileError::LogInUse) } else { Ok(()) }
}
