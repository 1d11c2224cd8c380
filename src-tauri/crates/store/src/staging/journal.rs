//! The journal of a partial: which of its bytes are on the disk.
//!
//! A record is written after the bytes it speaks of were synced, and is synced itself, so that whatever it says is true
//! after a power cut. Bytes without a record are fetched again. All numbers are little-endian:
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
//! The first record that does not check ends the journal: it was torn, or never written. Opening a journal writes it anew,
//! with ranges that touch joined into one. Zeros are laid down ahead of the records, since a record inside of a file
//! takes a disk one step and one that makes the file longer takes it several.

use std::ops::Range;
use std::path::{Path, PathBuf};

use cairn_disk::{Disk, Mode, Partial};

use super::{Ranges, StagingError};
use crate::Digest;

const MAGIC: &[u8; 8] = b"CAIRNJRN";
const VERSION: u32 = 1;
const HEADER_BYTES: usize = 60;
const RECORD_BYTES: usize = 24;
/// Zeros that are laid down at a time.
const AHEAD_BYTES: usize = 170 * RECORD_BYTES;

/// An open journal.
pub(super) struct Journal {
    file: Box<dyn Partial>,
    header: [u8; HEADER_BYTES],
    records: u64,
    len_bytes: u64,
}

/// What a journal says.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Journalled {
    pub(super) size_bytes: u64,
    pub(super) held: Ranges,
}

impl Journal {
    /// Writes a journal that says what is in `held`, in place of the one that may be there.
    pub(super) fn begin(
        disk: &dyn Disk,
        path: &Path,
        digest: &Digest,
        size_bytes: u64,
        held: &Ranges,
    ) -> Result<Self, StagingError> {
        let header = header(digest, size_bytes);
        let mut bytes = header.to_vec();
        let mut records = 0;
        for range in held.iter() {
            bytes.extend(record(&header, records, range));
            records += 1;
        }
        bytes.resize(bytes.len() + AHEAD_BYTES, 0);
        disk.write_atomic(path, &bytes, Mode::Shared)?;
        let file = disk.partial(path, Mode::Shared)?;
        Ok(Self { file, header, records, len_bytes: bytes.len() as u64 })
    }

    /// Adds what is on the disk by now. When this returns, the records are too.
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

/// Reads a journal. `None` where there is none of this digest, or its beginning is damaged: it then says nothing.
pub(super) fn read(disk: &dyn Disk, path: &Path, digest: &Digest) -> Result<Option<Journalled>, StagingError> {
    match disk.read(path) {
        Ok(bytes) => {
            parse(&bytes, digest).map_err(|version| StagingError::Newer { path: PathBuf::from(path), version })
        }
        Err(error) if error.source.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// `Err` is the version of a journal that a newer program wrote.
fn parse(bytes: &[u8], digest: &Digest) -> Result<Option<Journalled>, u32> {
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
    let mut held = Ranges::new();
    for (index, bytes) in records.chunks_exact(RECORD_BYTES).enumerate() {
        let range = number(bytes, 0)..number(bytes, 8);
        let sound = range.start < range.end && range.end <= size_bytes;
        if !sound || *bytes != record(head, index as u64, &range) {
            break;
        }
        held.insert(range);
    }
    Ok(Some(Journalled { size_bytes, held }))
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
    let found = bytes.get(at..at + 8).and_then(|bytes| bytes.try_into().ok());
    found.map_or(0, u64::from_le_bytes)
}

#[cfg(test)]
#[expect(clippy::single_range_in_vec_init, reason = "one range is what is meant")]
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
        let mut journal = Journal::begin(&RealDisk, &path, &digest(), SIZE, &before).expect("it can be begun");
        journal.add(&Ranges::from_iter([20..30, 40..50])).expect("it can be added to");
        journal.add(&Ranges::from_iter([10..20])).expect("it can be added to");
        RealDisk.read(&path).expect("it is there")
    }

    fn held(bytes: &[u8]) -> Vec<Range<u64>> {
        let journalled = parse(bytes, &digest()).expect("it is of this version").expect("its header is sound");
        assert_eq!(journalled.size_bytes, SIZE, "the size is kept");
        journalled.held.iter().cloned().collect()
    }

    #[test]
    fn says_what_was_added() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        assert_eq!(held(&written(folder.path())), [0..30, 40..50], "what touches is one");
    }

    #[test]
    fn grows_beyond_what_was_laid_down() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join("journal");
        let mut journal = Journal::begin(&RealDisk, &path, &digest(), SIZE, &Ranges::new()).expect("it can be begun");
        for at in 0..400 {
            journal.add(&Ranges::from_iter([2 * at..2 * at + 1])).expect("it can be added to");
        }
        assert_eq!(held(&RealDisk.read(&path).expect("it is there")).len(), 400, "each record is there");
    }

    #[test]
    fn a_torn_tail_loses_only_what_was_torn() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let bytes = written(folder.path());
        let expected: [&[Range<u64>]; 5] =
            [&[], &[0..10], &[0..10, 20..30], &[0..10, 20..30, 40..50], &[0..30, 40..50]];
        for length in HEADER_BYTES..bytes.len() {
            let whole = ((length - HEADER_BYTES) / RECORD_BYTES).min(4);
            assert_eq!(held(&bytes[..length]), expected[whole], "{length} bytes");
        }
        for length in 0..HEADER_BYTES {
            assert_eq!(parse(&bytes[..length], &digest()), Ok(None), "{length} bytes are no header");
        }
    }

    #[test]
    fn refuses_newer_ones_and_passes_over_foreign_ones() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let mut bytes = written(folder.path());
        assert_eq!(parse(&bytes, &Digest::of(b"another blob")), Ok(None), "it is of another blob");
        bytes[8] = 2;
        assert_eq!(parse(&bytes, &digest()), Err(2), "a newer program wrote it");
    }

    proptest! {
        /// Whatever becomes of a journal, it never claims bytes that it did not.
        #[test]
        fn damage_never_adds_bytes(at in 0_usize..200, flip in 1_u8..) {
            let folder = tempfile::tempdir().expect("a temporary folder");
            let mut bytes = written(folder.path());
            bytes[at] ^= flip;
            if let Ok(Some(journalled)) = parse(&bytes, &digest()) {
                for range in journalled.held.iter() {
                    let known = [0..30_u64, 40..50];
                    prop_assert!(known.iter().any(|k| k.start <= range.start && range.end <= k.end), "{:?}", range);
                }
            }
        }
    }
}
