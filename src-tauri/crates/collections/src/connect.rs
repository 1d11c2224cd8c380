//! Connections to a database file that exists.

use std::path::Path;
use std::time::Duration;

use rusqlite::{Connection, OpenFlags};

use crate::CollectionsError;

/// Maximum wait for another process that writes, such as a backup program.
const BUSY_TIMEOUT: Duration = Duration::from_secs(5);

/// Opens a read-only connection.
pub(crate) fn open_reader(path: &Path) -> Result<Connection, CollectionsError> {
    open(path, OpenFlags::SQLITE_OPEN_READ_ONLY)
}

/// Opens a connection that can write.
pub(crate) fn open_writer(path: &Path) -> Result<Connection, CollectionsError> {
    open(path, OpenFlags::SQLITE_OPEN_READ_WRITE)
}

fn open(path: &Path, flags: OpenFlags) -> Result<Connection, CollectionsError> {
    let connection = Connection::open_with_flags(path, flags);
    let connection =
        connection.map_err(|error| CollectionsError::Open { path: path.to_owned(), reason: error.to_string() })?;
    connection.busy_timeout(BUSY_TIMEOUT)?;
    Ok(connection)
}
