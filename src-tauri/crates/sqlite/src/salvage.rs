//! Copies the readable rows of a damaged table.
//!
//! A table is scanned from both ends. Between them, rows are looked up one by one, so that a damaged page loses only its own rows.

use std::ops::RangeInclusive;

use rusqlite::types::Value;
use rusqlite::{Connection, Row, params_from_iter};

use crate::FileError;

/// A table that a repair copies.
#[derive(Debug, Clone, Copy)]
pub struct Table {
    /// Name of the table.
    pub name: &'static str,
    /// Whether a row has the same number in the file and in its backups. Other rows have a unique key.
    pub has_stable_rows: bool,
    /// Condition for rows of a backup, for example `WHERE EXISTS (SELECT 1 FROM chats WHERE row = ?2)`; `?2` is the second column.
    /// Rows are rejected that belong to rows which were deleted after the backup was written.
    pub backup_condition: &'static str,
}

/// Limit of row ids that are tried one by one in the gap between the ascending and the descending scan.
const MAX_LOOKUPS: i64 = 1 << 20;
/// Row numbers of a whole table.
pub(crate) const EVERY_ROW: RangeInclusive<i64> = i64::MIN..=i64::MAX;
/// Highest plausible row number. SQLite adds no row after the highest possible one, so a damaged number must not be copied.
const MAX_SEQUENCE: i64 = 1 << 48;

/// Copies a table from the damaged file, and its missing rows from a backup. Returns whether there were rows only in the backup.
pub(crate) fn copy_table(
    table: &Table,
    damaged: Option<&Connection>,
    backup: Option<&Connection>,
    to: &Connection,
) -> Result<bool, FileError> {
    let mut unread = vec![EVERY_ROW];
    if let Some(damaged) = damaged {
        unread = copy(damaged, to, table.name, &unread, "")?.unread;
        // The numbers of these rows differ between a file and its backup.
        if !table.has_stable_rows && !unread.is_empty() {
            unread = vec![EVERY_ROW];
        }
    }
    // Rows that are missing elsewhere were deleted after the backup was written.
    let Some(backup) = backup else { return Ok(false) };
    Ok(copy(backup, to, table.name, &unread, table.backup_condition)?.copied > 0)
}

/// Makes sure that new rows of a table get higher numbers than all rows of another file, also deleted ones: `erasures` has numbers of
/// deleted rows.
pub(crate) fn keep_sequence(from: &Connection, to: &Connection, table: &str) -> rusqlite::Result<()> {
    let sql = "SELECT seq FROM sqlite_sequence WHERE name = ?1";
    from.query_row(sql, [table], |row| row.get(0)).map_or(Ok(()), |sequence| raise_sequence(to, table, sequence))
}

/// Raises the highest number that a row of a table had. The table must have the attribute `AUTOINCREMENT`.
///
/// # Errors
/// If the file cannot be written.
pub fn raise_sequence(connection: &Connection, table: &str, sequence: i64) -> rusqlite::Result<()> {
    if sequence > MAX_SEQUENCE {
        return Ok(());
    }
    let insert = "INSERT INTO sqlite_sequence (name, seq) SELECT ?1, 0
        WHERE NOT EXISTS (SELECT 1 FROM sqlite_sequence WHERE name = ?1)";
    connection.execute(insert, [table])?;
    let raise = "UPDATE sqlite_sequence SET seq = max(seq, ?2) WHERE name = ?1";
    connection.execute(raise, (table, sequence)).map(drop)
}

/// Result of a copy of a table.
#[derive(Default)]
pub(crate) struct Copied {
    /// Number of rows that the target did not have.
    copied: usize,
    /// Row numbers that could not be read.
    unread: Vec<RangeInclusive<i64>>,
}

impl Copied {
    fn add_row(&mut self, row: &Row<'_>, insert: &mut rusqlite::Statement<'_>) -> Result<(), FileError> {
        match insert_row(row, insert)? {
            Some(count) => self.copied += count,
            None => self.add_unread(row.get(0)?),
        }
        Ok(())
    }

    fn add_unread(&mut self, id: i64) {
        match self.unread.last_mut() {
            Some(last) if last.end().checked_add(1) == Some(id) => *last = *last.start()..=id,
            _ => self.unread.push(id..=id),
        }
    }
}

/// Copies the readable rows of a table whose numbers are in `wanted` and that the target does not have. In the condition, `?2` is the
/// second column.
pub(crate) fn copy(
    from: &Connection,
    to: &Connection,
    table: &str,
    wanted: &[RangeInclusive<i64>],
    condition: &str,
) -> Result<Copied, FileError> {
    let columns: Vec<String> =
        to.prepare(&format!("SELECT * FROM {table}"))?.column_names().map(str::to_owned).collect();
    let values = (1..=columns.len()).map(|n| format!("?{n}")).collect::<Vec<_>>().join(", ");
    let columns = columns.join(", ");
    let mut insert = to.prepare(&format!("INSERT OR IGNORE INTO {table} ({columns}) SELECT {values} {condition}"))?;
    let mut result = Copied::default();
    let (mut lowest, mut highest) = (None, None);
    // An index may be damaged, so that only the table itself is read.
    for (order, rest) in [("ASC", false), ("DESC", true)] {
        let sql = format!("SELECT rowid, {columns} FROM {table} NOT INDEXED ORDER BY rowid {order}");
        let Ok(mut statement) = from.prepare(&sql) else { continue };
        let Ok(mut rows) = statement.query([]) else { continue };
        loop {
            match rows.next() {
                Ok(Some(row)) => {
                    let id: i64 = row.get(0)?;
                    *(if rest { &mut lowest } else { &mut highest }) = Some(id);
                    if wanted.iter().any(|range| range.contains(&id)) {
                        result.add_row(row, &mut insert)?;
                    }
                }
                Ok(None) => return Ok(result),
                Err(_) => break,
            }
        }
    }
    let gap = (highest.map_or(i64::MIN, |id| id.saturating_add(1)), lowest.map_or(i64::MAX, |id| id.saturating_sub(1)));
    let sql = format!("SELECT rowid, {columns} FROM {table} NOT INDEXED WHERE rowid = ?1");
    let lookup = from.prepare(&sql).ok().filter(|_| highest.is_some() && lowest.is_some());
    let Some(mut lookup) = lookup else {
        result.unread.push(gap.0..=gap.1);
        return Ok(result);
    };
    let looked_up = gap.0.saturating_add(MAX_LOOKUPS).min(gap.1);
    for id in gap.0..=looked_up {
        match lookup
            .query([id])
            .and_then(|mut rows| rows.next().map(|row| row.map(|row| result.add_row(row, &mut insert))))
        {
            Ok(added) => added.unwrap_or(Ok(()))?,
            Err(_) => result.add_unread(id),
        }
    }
    if looked_up < gap.1 {
        result.unread.push(looked_up + 1..=gap.1);
    }
    Ok(result)
}

/// Inserts a row, and returns how many were inserted: 0 if the target has it. `None` if one of its texts is not valid UTF-8 or its
/// types are wrong.
fn insert_row(row: &Row<'_>, insert: &mut rusqlite::Statement<'_>) -> Result<Option<usize>, FileError> {
    let count = row.as_ref().column_count();
    let Ok(values) = (1..count).map(|at| row.get(at)).collect::<Result<Vec<Value>, _>>() else { return Ok(None) };
    match insert.execute(params_from_iter(values)) {
        Err(error) if error.sqlite_error_code() == Some(rusqlite::ErrorCode::ConstraintViolation) => Ok(None),
        inserted => Ok(Some(inserted?)),
    }
}
