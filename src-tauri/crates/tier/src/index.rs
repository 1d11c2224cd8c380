//! What files do not tell of chunks: whose they are, how they were used, which are pinned, and which are to be removed.
//!
//! A database beside the chunks. It can be thrown away: chunks are then nobody's, unpinned, and as old as they are. What must not be
//! forgotten (an owner before a file is written, a deletion before it is done) is on the disk before this says so; uses are written in
//! batches and may be lost.

use std::collections::HashMap;
use std::io::ErrorKind;
use std::path::Path;
use std::time::Duration;

use redb::{Database, DatabaseError, Durability, ReadableDatabase, ReadableTable, StorageError, TableDefinition};

use crate::chunk::{ChunkId, Group};
use crate::identity::{ChunkHash, Fingerprint};
use crate::owner::Owner;
use crate::tier::Place;

/// The number rises with each change of what a row is; older tables are left alone and stay unread.
const CHUNKS: TableDefinition<'_, &[u8], &[u8]> = TableDefinition::new("chunks 1");
/// What was written to each place on one day: the day since 1970, and bytes.
const WRITTEN: TableDefinition<'_, u8, (u64, u64)> = TableDefinition::new("written 1");
/// Bytes of a row before its owners.
const FIXED_BYTES: usize = 29;
const PINNED: u8 = 1;
const DOOMED: u8 = 2;

/// What is remembered of a chunk.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Row {
    pub(crate) last_use_unix_s: u64,
    pub(crate) hits: u32,
    pub(crate) recompute: Duration,
    pub(crate) prefix_recompute: Duration,
    pub(crate) pinned: bool,
    /// It was deleted: its file is to be removed wherever it is met.
    pub(crate) doomed: bool,
    pub(crate) owners: Vec<Owner>,
}

/// See the module.
pub(crate) struct Index {
    database: Database,
}

impl Index {
    /// Opens the index at `path`, and makes sure that all of it is what was written: whoever trips over a damaged one later may be a
    /// thread that nobody can do without. A damaged one is replaced by an empty one.
    ///
    /// # Errors
    /// Where another process has it, or the disk does not give it: it stays for the next start then.
    pub(crate) fn open(path: &Path) -> Result<Self, redb::Error> {
        // Owners' names are nobody else's business.
        let mut options = std::fs::OpenOptions::new();
        options.write(true).create(true).truncate(false);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        options.open(path)?;
        let open = || Database::builder().set_check_integrity_on_open(true).create(path);
        let database = match open() {
            Ok(database) => database,
            Err(error) if is_damage(&error) => {
                std::fs::remove_file(path)?;
                open()?
            }
            Err(error) => return Err(error.into()),
        };
        Ok(Self { database })
    }

    /// All rows that can be read.
    pub(crate) fn rows(&self) -> Result<HashMap<ChunkId, Row>, redb::Error> {
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

    /// The day on which a place was last written to, and how many bytes that day.
    pub(crate) fn written(&self, place: Place) -> Result<Option<(u64, u64)>, redb::Error> {
        let read = self.database.begin_read()?;
        match read.open_table(WRITTEN) {
            Ok(table) => Ok(table.get(place as u8)?.map(|row| row.value())),
            Err(redb::TableError::TableDoesNotExist(_)) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Writes how much was written to a place on a day; it is on the disk when this returns.
    pub(crate) fn write_written(&self, place: Place, day: (u64, u64)) -> Result<(), redb::Error> {
        let write = self.database.begin_write()?;
        drop(write.open_table(WRITTEN)?.insert(place as u8, day)?);
        Ok(write.commit()?)
    }

    /// Writes rows, and removes those that are none. With `durable` they are on the disk when this returns.
    pub(crate) fn write<'a>(
        &self,
        rows: impl IntoIterator<Item = (&'a ChunkId, Option<&'a Row>)>,
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

/// Whether a file is no index, or not one that this version reads.
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

fn row_bytes(row: &Row) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(FIXED_BYTES);
    bytes.extend(row.last_use_unix_s.to_le_bytes());
    bytes.extend(row.hits.to_le_bytes());
    for span in [row.recompute, row.prefix_recompute] {
        bytes.extend((span.as_micros() as u64).to_le_bytes());
    }
    bytes.push(if row.pinned { PINNED } else { 0 } | if row.doomed { DOOMED } else { 0 });
    for owner in &row.owners {
        // An owner's name has at most 128 bytes.
        bytes.push(owner.as_str().len() as u8);
        bytes.extend(owner.as_str().as_bytes());
    }
    bytes
}

fn parse_row(bytes: &[u8]) -> Option<Row> {
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
    Some(Row {
        last_use_unix_s: u64::from_le_bytes(*last_use),
        hits: u32::from_le_bytes(*hits),
        recompute: Duration::from_micros(u64::from_le_bytes(*recompute)),
        prefix_recompute: Duration::from_micros(u64::from_le_bytes(*prefix_recompute)),
        pinned: flags[0] & PINNED != 0,
        doomed: flags[0] & DOOMED != 0,
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
    fn rows_come_back_and_what_is_no_index_is_replaced() {
        let home = tempfile::tempdir().expect("a temporary folder");
        let path = home.path().join("index.redb");
        std::fs::write(&path, b"this is no database").expect("writable");
        let index = Index::open(&path).expect("it can be thrown away");
        let row = Row {
            last_use_unix_s: 1_800_000_000,
            hits: 3,
            recompute: Duration::from_millis(120),
            prefix_recompute: Duration::from_millis(700),
            pinned: true,
            doomed: false,
            owners: ["ann", "bob"].map(|name| Owner::new(name).expect("short")).into(),
        };
        let (one, two) = (id(1), id(2));
        index.write([(&one, Some(&row)), (&two, Some(&Row::default()))], true).expect("writable");
        index.write([(&two, None)], false).expect("writable");
        assert!(Index::open(&path).is_err(), "one process has it");
        drop(index);
        let rows = Index::open(&path).and_then(|index| index.rows()).expect("readable");
        assert_eq!(rows, HashMap::from([(one, row)]), "what was written, less what was removed");
    }

    #[test]
    fn rows_that_are_cut_are_none() {
        let row = Row { owners: vec![Owner::new("ann").expect("short")], ..Row::default() };
        let bytes = row_bytes(&row);
        assert_eq!(parse_row(&bytes), Some(row), "whole");
        for length in (0..bytes.len()).filter(|&length| length != FIXED_BYTES) {
            assert_eq!(parse_row(&bytes[..length]), None, "cut to {length}");
        }
    }

    /// An index with many rows, as a process leaves it that ends well.
    fn filled(path: &Path) {
        let index = Index::open(path).expect("the folder is writable");
        let row = Row { owners: vec![Owner::new("ann").expect("short")], ..Row::default() };
        let ids: Vec<ChunkId> = (0..=255).map(id).collect();
        index.write(ids.iter().map(|id| (id, Some(&row))), true).expect("writable");
    }

    #[test]
    fn whatever_befalls_the_file_it_opens_and_can_be_written() {
        let home = tempfile::tempdir().expect("a temporary folder");
        let path = home.path().join("index.redb");
        filled(&path);
        let whole = std::fs::read(&path).expect("it is there");
        let mut random = cairn_testkit::random::Random::new(5);
        let mut below = |most: usize| random.below(most as u64) as usize;
        for round in 0..120 {
            let mut bytes = whole.clone();
            match round % 4 {
                // A few bits, anywhere or in the head; a page that was never written; an end that is missing.
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
            let _ = index.written(Place::Ssd);
            // What cannot be written is forgotten, but nobody falls over it.
            let _ = index.write([(&id(1), Some(&Row::default())), (&id(77), None)], false);
            let _ = index.write([(&id(2), Some(&Row::default()))], true);
            let _ = index.write_written(Place::Ssd, (1, 2));
            drop(index);
            let again = Index::open(&path).unwrap_or_else(|error| panic!("round {round}, again: {error}"));
            again
                .write([(&id(3), Some(&Row::default()))], true)
                .unwrap_or_else(|error| panic!("round {round}: {error}"));
            assert!(again.rows().is_ok_and(|rows| rows.contains_key(&id(3))), "round {round}: it remembers again");
        }
    }

    #[test]
    fn it_does_not_grow_with_each_use() {
        let home = tempfile::tempdir().expect("a temporary folder");
        let path = home.path().join("index.redb");
        filled(&path);
        let index = Index::open(&path).expect("it is there");
        let size = || std::fs::metadata(&path).expect("it is there").len();
        let before = size();
        // What two days of reading are, with a use every minute.
        for turn in 0..3000_u64 {
            let ids = [id(turn as u8), id((turn >> 3) as u8), id((turn * 7) as u8)];
            let row = Row { last_use_unix_s: turn, ..Row::default() };
            index.write(ids.iter().map(|id| (id, Some(&row))), false).expect("writable");
        }
        assert!(size() <= 4 * before, "{} bytes, which were {before}", size());
    }
}
