//! Description of the files of a crate.

use rusqlite::Connection;

use crate::{Schema, Table};

/// Everything that a [`crate::Database`] must be given about its file.
///
/// A deletion that must reach all copies inserts a row into the table `erasures`, in its own transaction. Its row numbers
/// (`rowid`) identify pending erasures. Its other columns, if any, are those of the crate.
#[derive(Debug, Clone, Copy)]
pub struct Format {
    /// Schema in all versions.
    pub schema: Schema<'static>,
    /// Table without which a file needs no backup: it has no row.
    pub main_table: &'static str,
    /// Full-text indexes. They keep words of deleted rows until they are merged.
    pub indexes: &'static [&'static str],
    /// Tables that a repair copies, in this order. It copies `erasures` too.
    pub tables: &'static [Table],
    /// Work at each start, in one transaction. Returns the number of rows that the last process left unfinished.
    pub begin: fn(&Connection) -> rusqlite::Result<usize>,
    /// Work at the end of a repair, on a file of this version: deletes rows that `erasures` lists, removes references to missing
    /// rows, and fills the full-text indexes.
    pub finish_repair: fn(&Connection, usize) -> rusqlite::Result<()>,
}
