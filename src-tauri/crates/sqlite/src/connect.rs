//! Connections to a database file that exists.

use std::path::Path;
use std::time::Duration;

use rusqlite::{Connection, OpenFlags};

use crate::FileError;

/// Maximum wait for another process that writes, such as a backup program.
pub(crate) const BUSY_TIMEOUT: Duration = Duration::from_secs(5);
/// Largest database that is rewritten in memory. For a larger one, SQLite writes a temporary file, which is not in Cairn's folders.
const MAX_IN_MEMORY_BYTES: i64 = 256 << 20;

/// Opens a read-only connection.
pub(crate) fn open_reader(path: &Path) -> Result<Connection, FileError> {
    open(path, OpenFlags::SQLITE_OPEN_READ_ONLY)
}

/// Opens a connection that can write.
pub(crate) fn open_writer(path: &Path) -> Result<Connection, FileError> {
    open(path, OpenFlags::SQLITE_OPEN_READ_WRITE)
}

fn open(path: &Path, flags: OpenFlags) -> Result<Connection, FileError> {
    let connection = Connection::open_with_flags(path, flags);
    let connection =
        connection.map_err(|error| FileError::Open { path: path.to_owned(), reason: error.to_string() })?;
    connection.busy_timeout(BUSY_TIMEOUT)?;
    Ok(connection)
}

/// Rewrites every page, without deleted rows.
pub(crate) fn rewrite(connection: &Connection) -> rusqlite::Result<()> {
    let sql = "SELECT page_count * page_size FROM pragma_page_count, pragma_page_size";
    let bytes: i64 = connection.query_row(sql, [], |row| row.get(0))?;
    let store = if bytes <= MAX_IN_MEMORY_BYTES { "MEMORY" } else { "DEFAULT" };
    connection.execute_batch(&format!("PRAGMA temp_store = {store}; VACUUM;"))
}
