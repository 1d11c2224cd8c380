//! Removes all copies of chats that were deleted forever from the files of the folder.
//!
//! `PRAGMA secure_delete` overwrites a deleted row, but not the copies that SQLite made when it moved rows between pages. The search
//! index keeps the words of deleted rows until its segments are merged. The write-ahead log has old pages until it is truncated.
//! Backups and files that were set aside (`repair`) have everything. So the index is merged, every page is rewritten, the log is
//! truncated, and the other files are replaced or removed.
//!
//! The deletion adds the chat to the table `erasures` in its own transaction. The table is emptied after the last step, so an
//! erasure that fails or is killed is repeated later.

use std::time::Duration;

use cairn_disk::{Disk, RealDisk};
use rusqlite::Connection;

use crate::{Chats, ChatsError, backup, connect, repair, schema};

/// Largest database that is rewritten in memory. For a larger one, SQLite writes a temporary file, which is not in Cairn's folders.
const MAX_IN_MEMORY_BYTES: i64 = 256 << 20;

impl Chats {
    /// Removes all copies of chats that were deleted forever from the files of the folder. Does nothing if there are none. Writes
    /// wait while the file is rewritten, so one call should serve many deletions.
    ///
    /// # Errors
    /// If a file cannot be written or removed, or another process reads the database. The chats are deleted nevertheless, and the next
    /// call repeats the erasure.
    pub fn erase_deleted(&self, now_ms: i64) -> Result<(), ChatsError> {
        let Some(path) = &self.path else { return Ok(()) };
        let _copies = self.copies.lock();
        let erased = self.with_writer(|writer| {
            let pending = pending(writer)?;
            if !pending.is_empty() {
                // The rewritten pages go to the log first. A log that another program reads would grow at each attempt.
                self.read(|_| truncate_log(writer))?;
                rewrite(writer)?;
                self.read(|_| truncate_log(writer))?;
            }
            Ok(pending)
        })?;
        if erased.is_empty() {
            return Ok(());
        }
        for file in repair::files_set_aside(path) {
            backup::remove(&file)?;
        }
        backup::replace_all(path, schema::MIGRATIONS.len(), now_ms)?;
        if let Some(folder) = path.parent() {
            let stale = RealDisk.remove_stale_temp_files(folder);
            stale.map_err(|error| ChatsError::Remove { path: folder.to_owned(), reason: error.to_string() })?;
        }
        // Chats that were deleted meanwhile may be in the new backup. They stay for the next call.
        self.write(|connection| {
            let mut done = connection.prepare("DELETE FROM erasures WHERE chat = ?1")?;
            erased.iter().try_for_each(|row| done.execute([row]).map(drop))?;
            Ok(())
        })
    }
}

/// Returns the row ids of deleted chats that are not erased yet.
fn pending(connection: &Connection) -> rusqlite::Result<Vec<i64>> {
    connection.prepare("SELECT chat FROM erasures")?.query_map([], |row| row.get(0))?.collect()
}

/// Rewrites every page, without deleted rows.
fn rewrite(connection: &Connection) -> rusqlite::Result<()> {
    let bytes: i64 =
        connection.query_row("SELECT page_count * page_size FROM pragma_page_count, pragma_page_size", [], |row| {
            row.get(0)
        })?;
    let store = if bytes <= MAX_IN_MEMORY_BYTES { "MEMORY" } else { "DEFAULT" };
    connection.execute_batch(&format!(
        "INSERT INTO found_messages (found_messages) VALUES ('optimize');
         INSERT INTO found_titles (found_titles) VALUES ('optimize');
         PRAGMA temp_store = {store};
         VACUUM;"
    ))
}

/// Copies the write-ahead log into the file and empties it.
fn truncate_log(connection: &Connection) -> Result<(), ChatsError> {
    // Do not wait for other processes: this call blocks all reads of chats.
    connection.busy_timeout(Duration::ZERO)?;
    let is_busy = connection.query_row("PRAGMA wal_checkpoint (TRUNCATE)", [], |row| row.get(0));
    connection.busy_timeout(connect::BUSY_TIMEOUT)?;
    if is_busy? { Err(ChatsError::LogInUse) } else { Ok(()) }
}
