//! Removal of the texts of deleted chats from all files.
//!
//! SQLite overwrites the rows that it deletes (`secure_delete`). Three other places still have their texts: the full-text index,
//! which only marks entries as deleted, the write-ahead log, and backups with files that were set aside.

use std::time::Duration;

use rusqlite::Connection;

use crate::{Chats, ChatsError, backup, schema};

impl Chats {
    /// Runs a write operation that deletes chats forever. After that, no file has their texts.
    pub(crate) fn erase<T>(&self, delete: impl FnOnce(&Connection) -> Result<T, ChatsError>) -> Result<T, ChatsError> {
        // Before the deletion: a process that is killed between the two must not leave a backup of a deleted chat.
        self.path.as_deref().map_or(Ok(()), backup::remove_all)?;
        let deleted = self.write(|connection| {
            let deleted = delete(connection)?;
            // Merging all segments of an index drops the entries that are marked as deleted.
            connection.execute_batch(
                "INSERT INTO found_messages (found_messages) VALUES ('optimize');
                 INSERT INTO found_titles (found_titles) VALUES ('optimize');",
            )?;
            Ok(deleted)
        })?;
        self.truncate_log();
        Ok(deleted)
    }

    /// Copies the write-ahead log into the file and empties it. If another program reads the file, that is left to the next
    /// deletion or start.
    pub(crate) fn truncate_log(&self) {
        let writer = self.writer.lock();
        // Our own reader would block it too.
        let _reader = self.reader.as_ref().map(|reader| reader.lock());
        let checkpoint = || {
            // Without a wait: all reads of chats wait for this.
            writer.busy_timeout(Duration::ZERO)?;
            let is_busy = writer.query_row("PRAGMA wal_checkpoint (TRUNCATE)", [], |row| row.get::<_, bool>(0));
            writer.busy_timeout(schema::BUSY_TIMEOUT)?;
            is_busy
        };
        match checkpoint() {
            Ok(false) => {}
            Ok(true) => tracing::warn!(
                "texts of deleted chats stay in the write-ahead log until the next deletion or start: another program reads it"
            ),
            Err(error) => {
                tracing::warn!(%error, "texts of deleted chats stay in the write-ahead log until the next deletion or start")
            }
        }
    }
}
