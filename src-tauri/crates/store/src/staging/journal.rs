//! Journal of a partial file: the ranges of it that are durable.
//!
//! A record is written and synced after its bytes were synced, so records are valid after a power cut. Bytes without a record are
//! downloaded again. All numbers are little-endian:
//!
//! ```text
//! 0     8  "CAIRNJRN"
//! 8     4  version, 1
//! 12   32  digest of the blob
//! 44    8  size of the blob in bytes
//! 52    8  check: the first 8 bytes of the SHA-256 of bytes 0..52
//! 60       records of 24 bytes, each
//!            0  8  start
//!            8  8  end, one past the last byte
//!           16  8  check: the first 8 bytes of the SHA-256 of (header, number of the record from 0 as u64, start, end)
//!          then zeros, which are no record
//! ```
//!
//! The first record with a wrong check ends the journal: it was torn or never written. Opening a journal rewrites it, with adjacent
//! ranges merged. Zeros are written ahead of the records, because overwriting bytes takes the disk one step, but growing the file
//! takes several.

use std::ops::Range;
use std::path::{Path, PathBuf};

use cairn_disk::{Disk, Mode, PartialFile};

use super::{Ranges, StagingError};
use crate::Digest;

const MAGIC: &[u8; 8] = b"CAIRNJRN";
const VERSION: u32 = 1;
const HEADER_BYTES: usize = 60;
const RECORD_BYTES: usize = 24;
/// Size of the zeros that are written ahead.
const AHEAD_BYTES: usize = 170 * RECORD_BYTES;

/// Open journal.
pub(super) struct Journal {
    file: Box<dyn PartialFile>,
    header: [u8; HEADER_BYTES],
    records: u64,
    len_bytes: u64,
}

/// Contents of a journal.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct JournalContents {
    pub(super) size_bytes: u64,
    pub(super) durable: Ranges,
}

impl Journal {
    /// Creates or replaces a journal with the ranges `durable`.
    pub(super) fn create(
        disk: &dyn Disk,
        path: &Path,
        digest: &Digest,
        size_bytes: u64,
        durable: &Ranges,
    ) -> Result<Self, StagingError> {
        let header = header(digest, size_bytes);
        let mut bytes = header.to_vec();
        let mut records = 0;
        for range in durable.iter() {
            bytes.extend(record(&header, records, range));
            records += 1;
        }
        bytes.resize(bytes.len() + AHEAD_BYTES, 0);
        disk.write_atomic(path, &bytes, Mode::Shared)?;
        let file = disk.open_partial(path, Mode::Shared)?;
        Ok(Self { file, header, records, len_bytes: bytes.len() as u64 })
    }

    /// Appends durable ranges. On return the records are durable too.
    pub(super) fn add(&mut self, ranges: &Ranges) -> Result<(), StagingError> {
        let mut bytes = Vec::new();
        let mut records = self.records;
        for range in ranges.iter() {
            bytes.extend(record(&self.header, records, range));
            records += 1;
        }
        let at = HEADER_BYTES as u64 + self.records * RECORD_BYTES as u64;
        if at + bytes.len() as u64 > self.len_bytes {
            let ahead = vec![0; bytes.len().max(AHEAD_BYTES)];
            self.file.write_at(self.len_bytes, &ahead)?;
            self.len_bytes += ahead.len() as u64;
        }
        self.file.write_at(at, &bytes)?;
        self.file.sync()?;
        self.records = records;
        Ok(())
    }
}

/// Reads a journal. Returns `None` if there is none for this digest or its header is damaged.
pub(super) fn read(disk: &dyn Disk, path: &Path, digest: &Digest) -> Result<Option<JournalContents>, StagingError> {
    match disk.read(path) {
        Ok(bytes) => {
            parse(&bytes, digest).map_err(|version| StagingError::Newer { path: PathBuf::from(path), version })
        }
        Err(error) if error.source.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Parses a journal. `Err` contains the version of a journal that a newer program wrote.
fn parse(bytes: &[u8], digest: &Digest) -> Result<Option<JournalContents>, u32> {
    let Some((head, records)) = bytes.split_at_checked(HEADER_BYTES) else { return Ok(None) };
    let Some((b"CAIRNJRN", rest)) = head.split_first_chunk::<8>() else { return Ok(None) };
    let Some((version, _)) = rest.split_first_chunk::<4>() else { return Ok(None) };
    let version = u32::from_le_bytes(*version);
    if version > VERSION {
        return Err(version);
    }
    let size_bytes = number(head, 44);
    if *head != header(digest, size_bytes) {
        return Ok(None);
    }
    let mut durable = Ranges::new();
    for (index, bytes) in records.chunks_exact(RECORD_BYTES).enumerate() {
        let range = number(bytes, 0)..number(bytes, 8);
        let is_valid = range.start < range.end && range.end <= size_bytes;
        if !is_valid || *bytes != record(head, index as u64, &range) {
            break;
        }
        durable.insert(range);
    }
    Ok(Some(JournalContents { size_bytes, durable }))
}

fn header(digest: &Digest, size_bytes: u64) -> [u8; HEADER_BYTES] {
    let mut bytes = Vec::with_capacity(HEADER_BYTES);
    bytes.extend(MAGIC);
    bytes.extend(VERSION.to_le_bytes());
    bytes.extend(digest.as_bytes());
    bytes.extend(size_bytes.to_le_bytes());
    bytes.extend(check(&[&bytes]));
    bytes.try_into().expect("8 + 4 + 32 + 8 + 8 bytes are 60")
}

fn record(header: &[u8], index: u64, range: &Range<u64>) -> [u8; RECORD_BYTES] {
    let mut bytes = Vec::with_capacity(RECORD_BYTES);
    bytes.extend(range.start.to_le_bytes());
    bytes.extend(range.end.to_le_bytes());
    bytes.extend(check(&[header, &index.to_le_bytes(), &bytes]));
    bytes.try_into().expect("8 + 8 + 8 bytes are 24")
}

fn check(parts: &[&[u8]]) -> [u8; 8] {
    let [a, b, c, d, e, f, g, h, ..] = *Digest::of(&parts.concat()).as_bytes();
    [a, b, c, d, e, f, g, h]
}

fn number(bytes: &[u8], at: usize) -> u64 {
    let bytes = bytes.get(at..at + 8).and_then(|bytes| bytes.try_into().ok());
    bytes.map_or(0, u64::from_le_bytes)
}

#[cfg(test)]
#[expect(clippy::single_range_in_vec_init, reason = "a single range is intended")]
mod tests {
    use cairn_disk::RealDisk;
    use proptest::prelude::*;

    use super::*;

    const SIZE: u64 = 1000;

    fn digest() -> Digest {
        Digest::of(b"some blob")
    }

    /// Writes a journal in three steps and returns its bytes.
    fn written(folder: &Path) -> Vec<u8> {
        let path = folder.join("journal");
        let before = Ranges::from_iter([0..10]);
        let mut journal = Journal::create(&RealDisk, &path, &digest(), SIZE, &before).expect("journal is created");
        journal.add(&Ranges::from_iter([20..30, 40..50])).expect("records are added");
        journal.add(&Ranges::from_iter([10..20])).expect("records are added");
        RealDisk.read(&path).expect("journal exists")
    }

    fn held(bytes: &[u8]) -> Vec<Range<u64>> {
        let contents = parse(bytes, &digest()).expect("supported version").expect("valid header");
        assert_eq!(contents.size_bytes, SIZE, "size of the blob");
        contents.durable.iter().cloned().collect()
    }

    #[test]
    fn journal_merges_adjacent_ranges() {
        let folder = tempfile::tempdir().expect("temporary folder");
        assert_eq!(held(&written(folder.path())), [0..30, 40..50], "adjacent ranges are merged");
    }

    #[test]
    fn journal_grows_beyond_the_zeros_ahead() {
        let folder = tempfile::tempdir().expect("temporary folder");
        let path = folder.path().join("journal");
        let mut journal =
            Journal::create(&RealDisk, &path, &digest(), SIZE, &Ranges::new()).expect("journal is created");
        for at in 0..400 {
            journal.add(&Ranges::from_iter([2 * at..2 * at + 1])).expect("records are added");
        }
        assert_eq!(held(&RealDisk.read(&path).expect("journal exists")).len(), 400, "all records are read");
    }

    #[test]
    fn torn_tail_loses_only_torn_records() {
        let folder = tempfile::tempdir().expect("temporary folder");
        let bytes = written(folder.path());
        let expected: [&[Range<u64>]; 5] =
            [&[], &[0..10], &[0..10, 20..30], &[0..10, 20..30, 40..50], &[0..30, 40..50]];
        for length in HEADER_BYTES..bytes.len() {
            let whole = ((length - HEADER_BYTES) / RECORD_BYTES).min(4);
            assert_eq!(held(&bytes[..length]), expected[whole], "{length} bytes");
        }
        for length in 0..HEADER_BYTES {
            assert_eq!(parse(&bytes[..length], &digest()), Ok(None), "{length} bytes are not a header");
        }
    }

    #[test]
    fn newer_journals_are_rejected_and_foreign_ones_ignored() {
        let folder = tempfile::tempdir().expect("temporary folder");
        let mut bytes = written(folder.path());
        assert_eq!(parse(&bytes, &Digest::of(b"another blob")), Ok(None), "journal of another blob");
        bytes[8] = 2;
        assert_eq!(parse(&bytes, &digest()), Err(2), "a newer program wrote it");
    }

    proptest! {
        /// A damaged journal never contains ranges that were not recorded.
        #[test]
        fn damage_never_adds_bytes(at in 0_usize..200, flip in 1_u8..) {
            let folder = tempfile::tempdir().expect("temporary folder");
            let mut bytes = written(folder.path());
            bytes[at] ^= flip;
            if let Ok(Some(contents)) = parse(&bytes, &digest()) {
                for range in contents.durable.iter() {
                    let recorded = [0..30_u64, 40..50];
                    prop_assert!(recorded.iter().any(|r| r.start <= range.start && range.end <= r.end), "{:?}", range);
                }
            }
        }
    }
}
