//! Repair of a damaged file.
//!
//! All rows that can be read are copied to a new file. Rows that are missing there are copied from the newest good backup. The
//! damaged file is set aside, for example as `chats.damaged.1767323045678.sqlite`, with its write-ahead log. The number is the time
//! in milliseconds since 1970. A backup may contain chats that were deleted forever and are not erased yet. The table `erasures`
//! lists them, and the repair does not restore them.
//!
//! A kill or an error at any step loses nothing: `chats.repaired` is complete before the damaged file is renamed, and
//! [`finish_interrupted`] does the rest at the next start or at the next attempt.

use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};

use cairn_disk::{Disk, Mode, RealDisk};
use rusqlite::types::Value;
use rusqlite::{Connection, Row, params_from_iter};

use crate::chat::index_title;
use crate::{ChatsError, backup, connect, message, schema};

/// Result of a repair.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Repair {
    /// Damage that SQLite reported.
    pub reason: String,
    /// Path of the damaged file.
    pub set_aside: PathBuf,
    /// Number of chats in the new file.
    pub chats: u64,
    /// Number of messages in the new file.
    pub messages: u64,
    /// Whether some rows are from a backup. False if the new file is from an earlier attempt that failed.
    pub used_backup: bool,
}

/// Limit of row ids that are tried one by one in the gap between the ascending and the descending scan.
const MAX_LOOKUPS: i64 = 1 << 20;

/// Row numbers of a whole table.
const EVERY_ROW: RangeInclusive<i64> = i64::MIN..=i64::MAX;
/// Highest plausible row number. SQLite adds no row after the highest possible one, so a damaged number must not be copied.
const MAX_SEQUENCE: i64 = 1 << 48;

/// Ends of the names of files that SQLite keeps beside a database.
const SUFFIXES: [&str; 3] = ["-journal", "-wal", "-shm"];
/// Extension of the new file while it is filled.
const PARTIAL: &str = "repaired-partial";
/// Extension of the complete new file.
const NEW: &str = "repaired";

/// Returns whether the file must be checked: the last process did not close it.
pub(crate) fn is_unclean(path: &Path) -> bool {
    beside(path, "-wal").metadata().is_ok_and(|log| log.len() > 0)
}

/// Checks all pages. Does not compare indexes with tables.
pub(crate) fn quick_check(connection: &Connection) -> Result<(), ChatsError> {
    let found: String = connection.query_row("PRAGMA quick_check(1)", [], |row| row.get(0))?;
    if found == "ok" { Ok(()) } else { Err(ChatsError::CheckFailed(found)) }
}

/// Returns the files that repairs set aside, and what an interrupted repair or backup left. Other files belong to the user.
pub(crate) fn files_set_aside(path: &Path) -> Vec<PathBuf> {
    let is_ours = |extension: &str| {
        let database = SUFFIXES.iter().find_map(|suffix| extension.strip_suffix(suffix)).unwrap_or(extension);
        [NEW, PARTIAL, backup::PARTIAL].contains(&database) || set_aside_ms(database).is_some()
    };
    backup::files_beside(path).into_iter().filter(|(extension, _)| is_ours(extension)).map(|(_, path)| path).collect()
}

/// Returns the time of the newest damaged file that was set aside.
fn newest_set_aside_ms(path: &Path) -> Option<i64> {
    backup::files_beside(path).iter().filter_map(|(extension, _)| set_aside_ms(extension)).max()
}

/// Returns the time in the extension of a database that was set aside.
fn set_aside_ms(extension: &str) -> Option<i64> {
    extension.strip_prefix("damaged.")?.strip_suffix(".sqlite")?.parse().ok()
}

fn set_aside_path(path: &Path, ms: i64) -> PathBuf {
    path.with_extension(format!("damaged.{ms}.sqlite"))
}

/// Puts the complete new file of an interrupted repair in its place.
pub(crate) fn finish_interrupted(path: &Path) -> Result<(), ChatsError> {
    let new = path.with_extension(NEW);
    if path.exists() || !new.exists() {
        return Ok(());
    }
    // SQLite would replay the log and the journal of the damaged file into the new one. The log may have rows that are lost
    // elsewhere, so it stays with the damaged file.
    let log = beside(path, "-wal");
    if log.exists() {
        let set_aside = set_aside_path(path, newest_set_aside_ms(path).unwrap_or_default());
        RealDisk.rename(&log, &beside(&set_aside, "-wal")).map_err(|error| repair_error(path, &error))?;
    }
    backup::remove(&beside(path, "-shm"))?;
    backup::remove(&beside(path, "-journal"))?;
    RealDisk.rename(&new, path).map_err(|error| repair_error(path, &error))
}

/// Replaces a damaged file. The caller must close all its connections first.
pub(crate) fn repair(path: &Path, reason: &str, now_ms: i64) -> Result<Repair, ChatsError> {
    let new = path.with_extension(NEW);
    let mut used_backup = false;
    // Otherwise, the last attempt failed between its renames, and its new file has all rows.
    if path.exists() || !new.exists() {
        used_backup = write_new(path, &new, now_ms)?;
        // `finish_interrupted` adds the log to the newest file that was set aside, also if the clock was set back.
        let ms = newest_set_aside_ms(path).map_or(now_ms, |newest| now_ms.max(newest.saturating_add(1)));
        // Rename the database before its log. SQLite ignores a log without a database, but would replay this log into a different
        // database.
        RealDisk.rename(path, &set_aside_path(path, ms)).map_err(|error| repair_error(path, &error))?;
    }
    let connection = connect::open_reader(&new)?;
    let count = |table: &str| {
        connection
            .query_row(&format!("SELECT count(*) FROM {table}"), [], |row| row.get::<_, i64>(0).map(i64::unsigned_abs))
    };
    let (chats, messages) = (count("chats")?, count("messages")?);
    // Windows does not rename an open file.
    connection.close().map_err(|(_, error)| error)?;
    finish_interrupted(path)?;
    let set_aside = set_aside_path(path, newest_set_aside_ms(path).unwrap_or_default());
    Ok(Repair { reason: reason.to_owned(), set_aside, chats, messages, used_backup })
}

/// Writes the new file and returns whether it has rows that were only in the backup.
fn write_new(path: &Path, new: &Path, now_ms: i64) -> Result<bool, ChatsError> {
    let partial = path.with_extension(PARTIAL);
    SUFFIXES.iter().try_for_each(|suffix| backup::remove(&beside(&partial, suffix)))?;
    RealDisk.write_atomic(&partial, b"", Mode::Private).map_err(|error| repair_error(path, &error))?;
    let used_backup = rescue(path, &partial, now_ms)?;
    // The last commit synced the contents.
    RealDisk.rename(&partial, new).map_err(|error| repair_error(path, &error))?;
    Ok(used_backup)
}

/// Fills the new file with rows of the damaged one and of the newest good backup. Returns whether there were rows only in the
/// backup.
fn rescue(path: &Path, new: &Path, now_ms: i64) -> Result<bool, ChatsError> {
    let supported = schema::MIGRATIONS.len();
    let damaged = connect::open_reader(path).ok().and_then(|connection| {
        let version = schema::check(&connection, path, supported).ok().filter(|version| *version > 0)?;
        Some((connection, version))
    });
    let good = |copy: backup::Backup| {
        let connection = connect::open_reader(&copy.path).ok()?;
        let version = schema::check(&connection, &copy.path, supported).ok().filter(|version| *version > 0)?;
        let is_usable = damaged.as_ref().is_none_or(|(_, damaged)| *damaged == version);
        (is_usable && quick_check(&connection).is_ok()).then_some((connection, version))
    };
    let backup = backup::list(path, now_ms).into_iter().find_map(good);
    let version = damaged.as_ref().or(backup.as_ref()).map_or(supported, |(_, version)| *version);
    let target = schema::open(new, &schema::MIGRATIONS[..version], now_ms)?;
    // A message may be readable while its chat or the message before it is not.
    target.execute_batch("PRAGMA foreign_keys = OFF; PRAGMA journal_mode = DELETE; BEGIN")?;
    let damaged = damaged.as_ref().map(|(connection, _)| connection);
    let backup = backup.as_ref().map(|(connection, _)| connection);
    if let Some(damaged) = damaged.filter(|_| version >= 3) {
        copy(damaged, &target, "erasures", &[EVERY_ROW], "")?;
    }
    let mut used_backup = false;
    for table in ["chats", "messages", "presets"] {
        let mut unread = vec![EVERY_ROW];
        if let Some(damaged) = damaged {
            unread = copy(damaged, &target, table, &unread, "")?.unread;
            // The numbers of these rows differ between a file and its backup.
            if table == "presets" && !unread.is_empty() {
                unread = vec![EVERY_ROW];
            }
        }
        // Rows that are missing elsewhere were deleted after the backup was written, and so were messages without their chat.
        let condition = if table == "messages" { "WHERE EXISTS (SELECT 1 FROM chats WHERE row = ?2)" } else { "" };
        if let Some(backup) = backup {
            used_backup |= copy(backup, &target, table, &unread, condition)?.copied > 0;
        }
    }
    if version >= 3 {
        target.execute_batch(
            "DELETE FROM messages WHERE chat IN (SELECT chat FROM erasures);
             DELETE FROM chats WHERE row IN (SELECT chat FROM erasures);",
        )?;
    }
    for table in ["chats", "messages"] {
        [damaged, backup].into_iter().flatten().try_for_each(|from| keep_sequence(from, &target, table))?;
    }
    if version >= 3 {
        let erased = target.query_row("SELECT coalesce(max(chat), 0) FROM erasures", [], |row| row.get(0))?;
        raise_sequence(&target, "chats", erased)?;
    }
    connect_rows(&target)?;
    index_all(&target)?;
    target.execute_batch("COMMIT")?;
    target.close().map_err(|(_, error)| error)?;
    Ok(used_backup)
}

/// Makes sure that new rows of a table get higher numbers than all rows of another file, also deleted ones: `erasures` has numbers of
/// deleted chats.
fn keep_sequence(from: &Connection, to: &Connection, table: &str) -> rusqlite::Result<()> {
    let sql = "SELECT seq FROM sqlite_sequence WHERE name = ?1";
    from.query_row(sql, [table], |row| row.get(0)).map_or(Ok(()), |sequence| raise_sequence(to, table, sequence))
}

/// Raises the highest number that a row of a table had.
fn raise_sequence(connection: &Connection, table: &str, sequence: i64) -> rusqlite::Result<()> {
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
struct Copied {
    /// Number of rows that the target did not have.
    copied: usize,
    /// Row numbers that could not be read.
    unread: Vec<RangeInclusive<i64>>,
}

impl Copied {
    fn add_row(&mut self, row: &Row<'_>, insert: &mut rusqlite::Statement<'_>) -> Result<(), ChatsError> {
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
fn copy(
    from: &Connection,
    to: &Connection,
    table: &str,
    wanted: &[RangeInclusive<i64>],
    condition: &str,
) -> Result<Copied, ChatsError> {
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
fn insert_row(row: &Row<'_>, insert: &mut rusqlite::Statement<'_>) -> Result<Option<usize>, ChatsError> {
    let count = row.as_ref().column_count();
    let Ok(values) = (1..count).map(|at| row.get(at)).collect::<Result<Vec<Value>, _>>() else { return Ok(None) };
    match insert.execute(params_from_iter(values)) {
        Err(error) if error.sqlite_error_code() == Some(rusqlite::ErrorCode::ConstraintViolation) => Ok(None),
        inserted => Ok(Some(inserted?)),
    }
}

/// Creates a chat for messages without their chat. Removes references to missing messages. Computes depths, counts and heads. A
/// message has a higher row than its parent, so there is no cycle.
fn connect_rows(connection: &Connection) -> rusqlite::Result<()> {
    connection.execute_batch(
        "INSERT INTO chats (row, id, title, titled, created_ms, updated_ms, options)
             SELECT chat, printf('%024x', chat), '', 0, min(created_ms), max(created_ms), '{}' FROM messages
             WHERE chat NOT IN (SELECT row FROM chats) GROUP BY chat;
         UPDATE messages SET parent = NULL WHERE parent IS NOT NULL AND NOT EXISTS (
             SELECT 1 FROM messages AS above
             WHERE above.row = messages.parent AND above.chat = messages.chat AND above.row < messages.row);
         WITH RECURSIVE tree (row, depth) AS (
             SELECT row, 0 FROM messages WHERE parent IS NULL
             UNION ALL SELECT messages.row, tree.depth + 1 FROM tree JOIN messages ON messages.parent = tree.row)
         UPDATE messages SET depth = tree.depth FROM tree WHERE tree.row = messages.row;
         UPDATE chats SET messages = (SELECT count(*) FROM messages WHERE chat = chats.row);
         UPDATE chats SET head = (SELECT max(row) FROM messages WHERE chat = chats.row)
             WHERE head IS NULL OR NOT EXISTS (SELECT 1 FROM messages WHERE row = chats.head AND chat = chats.row);",
    )
}

/// Fills the search index.
fn index_all(connection: &Connection) -> Result<(), ChatsError> {
    let mut titles = connection.prepare("SELECT row, title FROM chats WHERE title <> ''")?;
    let mut rows = titles.query([])?;
    while let Some(row) = rows.next()? {
        index_title(connection, row.get(0)?, row.get_ref(1)?.as_str().map_err(rusqlite::Error::from)?)?;
    }
    let mut messages = connection.prepare("SELECT row, content FROM messages WHERE state <> 'answering'")?;
    let mut rows = messages.query([])?;
    while let Some(row) = rows.next()? {
        message::index(connection, row.get(0)?, row.get_ref(1)?.as_str().map_err(rusqlite::Error::from)?)?;
    }
    Ok(())
}

/// Returns the path of a file that SQLite keeps beside a database.
fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

fn repair_error(path: &Path, error: &cairn_disk::DiskError) -> ChatsError {
    ChatsError::Repair { path: path.to_owned(), reason: error.to_string() }
}
