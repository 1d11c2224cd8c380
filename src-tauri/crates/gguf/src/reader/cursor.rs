//! A position in untrusted bytes: every read is checked against the remaining bytes, and an error has the offset.
//!
//! Parsed values can take many times the memory of their bytes: an entry of fourteen bytes becomes a key, a value and a
//! position in an index. All of it is therefore counted against [`MAX_MEMORY_BYTES`], before it is allocated.

use crate::error::{Error, Location};

/// Longest head that is read. The largest published vocabularies make one of about 20 MB. The bound rejects sparse files with
/// terabytes of empty strings.
pub const MAX_HEAD_BYTES: usize = 64 << 20;

/// Most memory that a [`Gguf`] and its reader take at any time. With the text of an error it is at most 64 MiB.
pub const MAX_MEMORY_BYTES: u64 = 63 << 20;

/// Reads forward through `bytes`; nothing is allocated here.
#[derive(Clone)]
pub(super) struct Cursor<'a> {
    bytes: &'a [u8],
    rest: &'a [u8],
    /// Whether the file is longer than `bytes`, which end at the longest head.
    is_cut: bool,
    /// Bytes of a count, a length or a dimension: 4 in version 1, else 8.
    length_bytes: u64,
    memory_bytes: u64,
}

impl<'a> Cursor<'a> {
    /// At the start of `bytes`, of which no more than the longest head is read.
    pub(super) fn new(bytes: &'a [u8]) -> Cursor<'a> {
        let head = bytes.get(..MAX_HEAD_BYTES).unwrap_or(bytes);
        let is_cut = head.len() < bytes.len();
        Cursor { bytes: head, rest: head, is_cut, length_bytes: 8, memory_bytes: 0 }
    }

    /// Makes counts and lengths as wide as this version of the format has them.
    pub(super) fn set_version(&mut self, version: u32) {
        self.length_bytes = if version == 1 { 4 } else { 8 };
    }

    pub(super) fn length_bytes(&self) -> u64 {
        self.length_bytes
    }

    pub(super) fn rest(&self) -> &'a [u8] {
        self.rest
    }

    /// Bytes from the start of the file to the next read.
    pub(super) fn offset(&self) -> u64 {
        (self.bytes.len() - self.rest.len()) as u64
    }

    /// Counts memory that will be allocated for the value at offset `at`.
    pub(super) fn take_memory(
        &mut self,
        bytes: u64,
        what: &'static str,
        at: u64,
        location: impl FnOnce() -> Location,
    ) -> Result<(), Error> {
        self.memory_bytes = self.memory_bytes.saturating_add(bytes);
        if self.memory_bytes <= MAX_MEMORY_BYTES {
            return Ok(());
        }
        Err(Error::Memory { location: location(), what, offset: at, need: self.memory_bytes, limit: MAX_MEMORY_BYTES })
    }

    /// The next `N` bytes.
    pub(super) fn array<const N: usize>(
        &mut self,
        what: &'static str,
        location: impl FnOnce() -> Location,
    ) -> Result<[u8; N], Error> {
        match self.rest.split_first_chunk() {
            Some((array, rest)) => {
                self.rest = rest;
                Ok(*array)
            }
            None => Err(self.truncated(what, N as u64, location)),
        }
    }

    /// The next `count` bytes.
    pub(super) fn bytes(
        &mut self,
        what: &'static str,
        count: u64,
        location: impl FnOnce() -> Location,
    ) -> Result<&'a [u8], Error> {
        let split = usize::try_from(count).ok().and_then(|count| self.rest.split_at_checked(count));
        let Some((bytes, rest)) = split else { return Err(self.truncated(what, count, location)) };
        self.rest = rest;
        Ok(bytes)
    }

    /// A count, a length or a dimension.
    pub(super) fn length(&mut self, what: &'static str, location: impl FnOnce() -> Location) -> Result<u64, Error> {
        match self.length_bytes {
            4 => Ok(u32::from_le_bytes(self.array(what, location)?).into()),
            _ => Ok(u64::from_le_bytes(self.array(what, location)?)),
        }
    }

    /// A string: its length, then UTF-8.
    pub(super) fn string(&mut self, what: &'static str, location: impl Fn() -> Location) -> Result<&'a str, Error> {
        let length = self.length(what, &location)?;
        let offset = self.offset();
        let bytes = self.bytes(what, length, &location)?;
        std::str::from_utf8(bytes).map_err(|error| Error::NotUtf8 {
            location: location(),
            what,
            offset,
            valid: error.valid_up_to() as u64,
        })
    }

    /// A string of 1 to `limit` bytes.
    pub(super) fn name(
        &mut self,
        what: &'static str,
        limit: u64,
        location: impl Fn() -> Location,
    ) -> Result<&'a str, Error> {
        let offset = self.offset();
        let name = self.string(what, &location)?;
        let have = name.len() as u64;
        if (1..=limit).contains(&have) {
            Ok(name)
        } else {
            Err(Error::NameLength { location: location(), what, offset, have, limit })
        }
    }

    /// Refuses a count whose elements, of at least `least_bytes` each, cannot fit into the remaining bytes. `at` is the
    /// offset of the count.
    pub(super) fn check_count(
        &self,
        what: &'static str,
        count: u64,
        least_bytes: u64,
        at: u64,
        location: impl FnOnce() -> Location,
    ) -> Result<(), Error> {
        match count.checked_mul(least_bytes) {
            None => Err(Error::TooLarge { location: location(), what, offset: at, value: count }),
            Some(need) if need > self.rest.len() as u64 => Err(self.truncated(what, need, location)),
            Some(_) => Ok(()),
        }
    }

    fn truncated(&self, what: &'static str, need: u64, location: impl FnOnce() -> Location) -> Error {
        let (location, offset) = (location(), self.offset());
        if self.is_cut {
            return Error::LongHead { location, what, offset, limit: MAX_HEAD_BYTES };
        }
        Error::Truncated { location, what, offset, need, have: self.rest.len() as u64 }
    }
}
