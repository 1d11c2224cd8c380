//! Persistent metadata that chunk files do not contain: owners, usage, pins, and pending deletions.
//!
//! A database beside the chunks. It is disposable: without it chunks have no owners, no pins, and their creation time
//! as last use. Writes that must survive a crash are durable when the call returns: an owner before its file is
//! written, and a deletion before it is carried out. Uses are written in batches and may be lost.

use std::collections::HashMap;
use std::io::{ErrorKind, Read};
use std::path::Path;
use std::time::Duration;

use cairn_disk::{Disk, RealDisk};
use redb::{
    Database, DatabaseError, Durability, ReadableDatabase, ReadableTable, StorageError, TableDefinition, TableHandle,
};

use crate::chunk::{ChunkId, Group};
use crate::identity::{ChunkHash, Fingerprint};
use crate::owner::Owner;
use crate::tier::TierKind;

/// Version of the tables, which is a part of their names. Raise it with each change of the row format. Older tables are
/// ignored. An index with newer tables is not used.
const VERSION: u32 = 1;
const CHUNKS: TableDefinition<'_, &[u8], &[u8]> = TableDefinition::new("chunks 1");
/// Bytes written to each tier on its last active day: the day since 1970, and the bytes.
const WRITTEN: TableDefinition<'_, u8, (u64, u64)> = TableDefinition::new("written 1");
/// Size of a row before its owners.
const FIXED_BYTES: usize = 29;
const PINNED: u8 = 1;
const DELETED: u8 = 2;

/// Stored metadata of a chunk.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct IndexRow {
    pub(crate) last_use_unix_s: u64,
    pub(crate) hits: u32,
    pub(crate) recompute: Duration,
    pub(crate) prefix_recompute: Duration,
    pub(crate) pinned: bool,
    /// The chunk was deleted. Its file must be removed wherever a scan finds it.
    pub(crate) is_deleted: bool,
    pub(crate) owners: Vec<Owner>,
}

/// Reason why an index cannot be used. The file is kept.
#[derive(Debug, thiserror::Error)]
pub(crate) enum IndexError {
    /// A newer version of this program wrote the index.
    #[error("a newer version wrote it: {0}")]
    Newer(String),
    /// Another process uses the index, or the disk failed.
    #[error(transparent)]
    Database(#[from] redb::Error),
}

/// Database of chunk metadata that chunk files do not contain: owners, usage, pins and pending deletions.
pub(crate) struct Index {
    database: Database,
}

impl Index {
    /// Opens the index at `path` and verifies its integrity, because later errors could hit a thread that must not
    /// fail. A damaged index is replaced by an empty one.
    ///
    /// # Errors
    /// If another process uses the index, a newer version of this program wrote it, or the disk fails. The file is kept.
    pub(crate) fn open(path: &Path) -> Result<Self, IndexError> {
        if let Some(version) = newer_file_version(path) {
            return Err(IndexError::Newer(format!("its database has the format {version}")));
        }
        // Owners' names are private.
        let mut options = std::fs::OpenOptions::new();
        options.write(true).create(true).truncate(false);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let is_new = !path.exists();
        options.open(path).map_err(redb::Error::from)?;
        if let Some(folder) = path.parent().filter(|_| is_new) {
            // Otherwise a power cut could lose a new index with its first pins. If this fails, it still can.
            let _ = RealDisk.sync_folder(folder);
        }
        let open = || Database::builder().set_check_integrity_on_open(true).create(path);
        let database = match open() {
            Ok(database) => database,
            Err(error) if is_damage(&error) => {
                std::fs::remove_file(path).map_err(redb::Error::from)?;
                open().map_err(redb::Error::from)?
            }
            Err(error) => return Err(redb::Error::from(error).into()),
        };
        let index = Self { database };
        match index.newer_table() {
            Ok(Some(table)) => Err(IndexError::Newer(format!("it has the table {table:?}"))),
            // An unreadable list of tables fails at their use.
            Ok(None) | Err(_) => Ok(index),
        }
    }

    /// Returns the name of a table that a newer version of this program has made.
    fn newer_table(&self) -> Result<Option<String>, redb::Error> {
        let read = self.database.begin_read()?;
        let mut names = read.list_tables()?.map(|table| table.name().to_owned());
        let version = |name: &str| name.rsplit_once(' ').and_then(|(_, version)| version.parse::<u32>().ok());
        Ok(names.find(|name| version(name).is_some_and(|version| version > VERSION)))
    }

    /// Returns all readable rows.
    pub(crate) fn rows(&self) -> Result<HashMap<ChunkId, IndexRow>, redb::Error> {
        let read = self.database.begin_read()?;
        let table = match read.open_table(CHUNKS) {
            Ok(table) => table,
            Err(redb::TableError::TableDoesNotExist(_)) => return Ok(HashMap::new()),
            Err(error) => return Err(error.into()),
        };
        let mut rows = HashMap::new();
        for row in table.iter()? {
            let (name, row) = row?;
            if let (Some(id), Some(row)) = (parse_name(name.value()), parse_row(row.value())) {
                rows.insert(id, row);
            }
        }
        Ok(rows)
    }

    /// Returns the day on which a tier was last written to, and the bytes written that day.
    pub(crate) fn written(&self, tier: TierKind) -> Result<Option<(u64, u64)>, redb::Error> {
        let read = self.database.begin_read()?;
        match read.open_table(WRITTEN) {
            Ok(table) => Ok(table.get(tier as u8)?.map(|row| row.value())),
            Err(redb::TableError::TableDoesNotExist(_)) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Stores how many bytes were written to a tier on a day, durably.
    pub(crate) fn write_written(&self, tier: TierKind, day: (u64, u64)) -> Result<(), redb::Error> {
        let write = self.database.begin_write()?;
        drop(write.open_table(WRITTEN)?.insert(tier as u8, day)?);
        Ok(write.commit()?)
    }

    /// Writes rows; `None` deletes the row. With `durable` the write is on disk when this returns.
    pub(crate) fn write<'a>(
        &self,
        rows: impl IntoIterator<Item = (&'a ChunkId, Option<&'a IndexRow>)>,
        durable: bool,
    ) -> Result<(), redb::Error> {
        let mut write = self.database.begin_write()?;
        write.set_durability(if durable { Durability::Immediate } else { Durability::None })?;
        {
            let mut table = write.open_table(CHUNKS)?;
            for (id, row) in rows {
                let name = name(id);
                match row {
                    Some(row) => drop(table.insert(&name[..], &row_bytes(row)[..])?),
                    None => drop(table.remove(&name[..])?),
                }
            }
        }
        Ok(write.commit()?)
    }
}

/// Returns the format of a database that a newer version of redb wrote; redb reports it as damage. The two headers of a
/// file contain it. Damage to one of them leaves the other.
fn newer_file_version(path: &Path) -> Option<u8> {
    const MAGIC: &[u8] = b"redb\x1a\x0a\xa9\x0d\x0a";
    const SUPPORTED: u8 = 3;
    const FIRST: usize = 64;
    const SECOND: usize = 192;
    let mut header = [0; SECOND + 1];
    std::fs::File::open(path).and_then(|mut file| file.read_exact(&mut header)).ok()?;
    let version = header[FIRST];
    (header.starts_with(MAGIC) && version > SUPPORTED && version == header[SECOND]).then_some(version)
}

/// Returns whether the file is not a valid index of this version.
fn is_damage(error: &DatabaseError) -> bool {
    match error {
        DatabaseError::Storage(StorageError::Io(error)) => {
            matches!(error.kind(), ErrorKind::InvalidData | ErrorKind::UnexpectedEof)
        }
        DatabaseError::Storage(_) | DatabaseError::UpgradeRequired(_) | DatabaseError::RepairAborted => true,
        _ => false,
    }
}

fn name(id: &ChunkId) -> [u8; 65] {
    let mut name = [0; 65];
    name[..32].copy_from_slice(id.fingerprint.as_bytes());
    name[32..64].copy_from_slice(id.hash.as_bytes());
    name[64] = u8::from(id.group == Group::Window);
    name
}

fn parse_name(name: &[u8]) -> Option<ChunkId> {
    let (fingerprint, rest) = name.split_first_chunk::<32>()?;
    let (hash, group) = rest.split_first_chunk::<32>()?;
    let group = match group {
        [0] => Group::Full,
        [1] => Group::Window,
        _ => return None,
    };
    Some(ChunkId { fingerprint: Fingerprint::from_bytes(*fingerprint), hash: ChunkHash::from_bytes(*hash), group })
}

fn row_bytes(row: &IndexRow) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(FIXED_BYTES);
    bytes.extend(row.last_use_unix_s.to_le_bytes());
    bytes.extend(row.hits.to_le_bytes());
    for span in [row.recompute, row.prefix_recompute] {
        bytes.extend((span.as_micros() as u64).to_le_bytes());
    }
    bytes.push(if row.pinned { PINNED } else { 0 } | if row.is_deleted { DELETED } else { 0 });
    for owner in &row.owners {
        // The length fits into one byte: an owner's name has at most 128 bytes.
        bytes.push(owner.as_str().len() as u8);
        bytes.extend(owner.as_str().as_bytes());
    }
    bytes
}

fn parse_row(bytes: &[u8]) -> Option<IndexRow> {
    let (fixed, mut rest) = bytes.split_first_chunk::<FIXED_BYTES>()?;
    let (last_use, after) = fixed.split_first_chunk()?;
    let (hits, after) = after.split_first_chunk()?;
    let (recompute, after) = after.split_first_chunk()?;
    let (prefix_recompute, flags) = after.split_first_chunk()?;
    let mut owners = Vec::new();
    while let Some((&length, after)) = rest.split_first() {
        let (owner, after) = after.split_at_checked(usize::from(length))?;
        owners.push(Owner::new(std::str::from_utf8(owner).ok()?)?);
        rest = after;
    }
    Some(IndexRow {
        last_use_unix_s: u64::from_le_bytes(*last_use),
        hits: u32::from_le_bytes(*hits),
        recompute: Duration::from_micros(u64::from_le_bytes(*recompute)),
        prefix_recompute: Duration::from_micros(u64::from_le_bytes(*prefix_recompute)),
        pinned: flags[0] & PINNED != 0,
        is_deleted: flags[0] & DELETED != 0,
        owners,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(number: u8) -> ChunkId {
        let hash = ChunkHash::from_bytes([number; 32]);
        ChunkId { fingerprint: Fingerprint::from_bytes([7; 32]), hash, group: Group::Window }
    }

    #[test]
    fn index_keeps_rows_and_replaces_invalid_file() {
        let home = tempfile::tempdir().expect("cannot create a temporary folder");
        let path = home.path().join("index.redb");
        std::fs::write(&path, b"this is no database").expect("writable");
        let index = Index::open(&path).expect("an invalid index is replaced");
        let row = IndexRow {
            last_use_unix_s: 1_800_000_000,
            hits: 3,
            recompute: Duration::from_millis(120),
            prefix_recompute: Duration::from_millis(700),
            pinned: true,
            is_deleted: false,
            owners: ["ann", "bob"].map(|name| Owner::new(name).expect("short")).into(),
        };
        let (one, two) = (id(1), id(2));
        index.write([(&one, Some(&row)), (&two, Some(&IndexRow::default()))], true).expect("writable");
        index.write([(&two, None)], false).expect("writable");
        assert!(Index::open(&path).is_err(), "only one process can open the index");
        drop(index);
        let rows = Index::open(&path).expect("readable").rows().expect("readable");
        assert_eq!(rows, HashMap::from([(one, row)]), "removed rows are gone, others are unchanged");
    }

    #[test]
    fn index_of_a_newer_version_is_kept_and_not_used() {
        let home = tempfile::tempdir().expect("cannot create a temporary folder");
        let path = home.path().join("index.redb");
        let rows_of = |table: TableDefinition<'_, &[u8], &[u8]>| {
            let database = Database::create(&path).expect("the index is a database");
            let read = database.begin_read().expect("readable");
            read.open_table(table).expect("the table exists").iter().expect("readable").count()
        };
        const NEWER: TableDefinition<'_, &[u8], &[u8]> = TableDefinition::new("chunks 2");
        filled(&path);
        let database = Database::create(&path).expect("the index is a database");
        let write = database.begin_write().expect("writable");
        write.open_table(NEWER).expect("writable").insert(&b"name"[..], &b"row"[..]).expect("writable");
        write.commit().expect("writable");
        drop(database);
        let refused = Index::open(&path).err().map(|error| error.to_string());
        assert_eq!(refused.as_deref(), Some("a newer version wrote it: it has the table \"chunks 2\""));
        assert_eq!((rows_of(CHUNKS), rows_of(NEWER)), (256, 1), "all rows are kept");

        let path = home.path().join("file.redb");
        filled(&path);
        let mut bytes = std::fs::read(&path).expect("the index exists");
        (bytes[64], bytes[192]) = (4, 4);
        std::fs::write(&path, &bytes).expect("writable");
        let refused = Index::open(&path).err().map(|error| error.to_string());
        assert_eq!(refused.as_deref(), Some("a newer version wrote it: its database has the format 4"));
        assert!(std::fs::read(&path).expect("the index exists") == bytes, "the file is unchanged");
    }

    #[test]
    fn truncated_row_does_not_parse() {
        let row = IndexRow { owners: vec![Owner::new("ann").expect("short")], ..IndexRow::default() };
        let bytes = row_bytes(&row);
        assert_eq!(parse_row(&bytes), Some(row), "whole");
        for length in (0..bytes.len()).filter(|&length| length != FIXED_BYTES) {
            assert_eq!(parse_row(&bytes[..length]), None, "truncated to {length} bytes");
        }
    }

    /// An index with many rows, closed cleanly.
    fn filled(path: &Path) {
        let index = Index::open(path).expect("the folder is writable");
        let row = IndexRow { owners: vec![Owner::new("ann").expect("short")], ..IndexRow::default() };
        let ids: Vec<ChunkId> = (0..=255).map(id).collect();
        index.write(ids.iter().map(|id| (id, Some(&row))), true).expect("writable");
    }

    #[test]
    fn index_opens_and_writes_after_any_corruption() {
        let home = tempfile::tempdir().expect("cannot create a temporary folder");
        let path = home.path().join("index.redb");
        filled(&path);
        let whole = std::fs::read(&path).expect("the index exists");
        let mut random = cairn_testkit::random::Random::new(5);
        let mut below = |most: usize| random.below(most as u64) as usize;
        for round in 0..120 {
            let mut bytes = whole.clone();
            match round % 4 {
                // Flipped bits anywhere or in the header; an overwritten page; a truncated file.
                0 => (0..8).for_each(|_| bytes[below(whole.len())] ^= 1 << below(8)),
                1 => (0..4).for_each(|_| bytes[below(4096)] ^= 1 << below(8)),
                2 => {
                    let page = below(whole.len() / 4096) * 4096;
                    bytes[page..][..4096].fill(below(256) as u8);
                }
                _ => bytes.truncate(below(whole.len())),
            }
            std::fs::write(&path, &bytes).expect("writable");
            let index = Index::open(&path).unwrap_or_else(|error| panic!("round {round}: {error}"));
            let _ = index.rows();
            let _ = index.written(TierKind::Ssd);
            // A write may fail, but must not panic.
            let _ = index.write([(&id(1), Some(&IndexRow::default())), (&id(77), None)], false);
            let _ = index.write([(&id(2), Some(&IndexRow::default()))], true);
            let _ = index.write_written(TierKind::Ssd, (1, 2));
            drop(index);
            let again = Index::open(&path).unwrap_or_else(|error| panic!("round {round}, again: {error}"));
            again
                .write([(&id(3), Some(&IndexRow::default()))], true)
                .unwrap_or_else(|error| panic!("round {round}: {error}"));
            assert!(
                again.rows().is_ok_and(|rows| rows.contains_key(&id(3))),
                "round {round}: the index is usable again"
            );
        }
    }

    #[test]
    fn index_size_is_bounded_over_many_uses() {
        let home = tempfile::tempdir().expect("cannot create a temporary folder");
        let path = home.path().join("index.redb");
        filled(&path);
        let index = Index::open(&path).expect("the index exists");
        let size = || std::fs::metadata(&path).expect("the index exists").len();
        let before = size();
        // Two days of reading with a use every minute.
        for turn in 0..3000_u64 {
            let ids = [id(turn as u8), id((turn >> 3) as u8), id((turn * 7) as u8)];
            let row = IndexRow { last_use_unix_s: turn, ..IndexRow::default() };
            index.write(ids.iter().map(|id| (id, Some(&row))), false).expect("writable");
        }
        assert!(size() <= 4 * before, "the index grew to {} bytes from {before}", size());
    }
}
