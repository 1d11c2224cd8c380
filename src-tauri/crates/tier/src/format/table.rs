//! The table: position, encoding and checksum of each section.
//!
//! ```text
//! 0   layer u16         2   kind u8: 0 K, 1 V, 3 keys of 4 bytes, 4 keys of 16 bytes         3   codec u8, see `codec`
//! 4   bytes as they are read u32    8   place in the file u64    16  bytes as they are stored u32    20  zeros    24  check 16
//! ```
//!
//! Sections follow each other in table order. Each starts at a block boundary.

use super::codec::Codec;
use super::header::Header;
use super::{BLOCK_BYTES, Damage, FileKeys, MAX_PAYLOAD_BYTES, MAX_SECTION_BYTES, ROW_BYTES, padded};
use crate::chunk::{SectionKind, SectionShape};

/// Content of a section.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Rows of a layer.
    Rows(SectionKind),
    /// The chunk's keys, all of them tokens (4 bytes each).
    Tokens,
    /// The chunk's keys, 16 bytes each.
    Wide,
}

impl Kind {
    const ALL: [(Self, u8); 5] = [
        (Self::Rows(SectionKind::Keys), 0),
        (Self::Rows(SectionKind::Values), 1),
        (Self::Rows(SectionKind::State), 2),
        (Self::Tokens, 3),
        (Self::Wide, 4),
    ];

    fn number(self) -> u8 {
        Self::ALL.iter().find(|(kind, _)| *kind == self).expect("all kinds are listed").1
    }
}

/// A row of the table.
#[derive(Clone, Copy, Debug)]
pub(super) struct Section {
    pub layer: u16,
    pub kind: Kind,
    pub codec: Codec,
    pub raw_bytes: u32,
    pub stored_bytes: u32,
    pub offset_bytes: u64,
    pub check: [u8; 16],
}

impl Section {
    /// Returns the size in the file.
    pub(super) fn padded_bytes(&self) -> usize {
        padded(u64::from(self.stored_bytes)) as usize
    }

    /// Returns the section's shape in the payload, or `None` for the keys.
    pub(super) fn shape(&self) -> Option<SectionShape> {
        let Kind::Rows(kind) = self.kind else { return None };
        Some(SectionShape { layer: self.layer, kind, bytes: self.raw_bytes })
    }

    /// Encodes the row, with or without the checksum.
    pub(super) fn row(&self, checked: bool) -> [u8; ROW_BYTES] {
        let mut row = [0; ROW_BYTES];
        row[..2].copy_from_slice(&self.layer.to_le_bytes());
        row[2] = self.kind.number();
        row[3] = self.codec.number();
        row[4..8].copy_from_slice(&self.raw_bytes.to_le_bytes());
        row[8..16].copy_from_slice(&self.offset_bytes.to_le_bytes());
        row[16..20].copy_from_slice(&self.stored_bytes.to_le_bytes());
        if checked {
            row[24..].copy_from_slice(&self.check);
        }
        row
    }

    fn parse(row: &[u8; ROW_BYTES]) -> Option<Self> {
        Some(Self {
            layer: u16::from_le_bytes(*row.first_chunk()?),
            kind: Kind::ALL.iter().find(|(_, number)| *number == row[2])?.0,
            codec: Codec::of(row[3])?,
            raw_bytes: u32::from_le_bytes(*row[4..].first_chunk()?),
            offset_bytes: u64::from_le_bytes(*row[8..].first_chunk()?),
            stored_bytes: u32::from_le_bytes(*row[16..].first_chunk()?),
            check: *row[24..].first_chunk()?,
        })
    }
}

/// Encodes the table and computes its digest.
pub(super) fn write(sections: &[Section], keys: &FileKeys) -> (Vec<u8>, [u8; 32]) {
    let mut table: Vec<u8> = sections.iter().flat_map(|section| section.row(true)).collect();
    table.resize(padded(table.len() as u64) as usize, 0);
    let digest = digest(&table, keys);
    (table, digest)
}

/// Parses the table: first the keys' section, then those of the payload.
pub(super) fn parse(table: &[u8], header: &Header, keys: &FileKeys) -> Result<Vec<Section>, Damage> {
    if digest(table, keys) != header.table_digest {
        return Err(Damage("the table's digest is wrong"));
    }
    let (rows, _) = table.as_chunks();
    let mut sections = Vec::with_capacity(header.sections as usize);
    let mut next_bytes = (BLOCK_BYTES + header.table_bytes()) as u64;
    let mut payload_bytes = 0;
    for row in rows.iter().take(header.sections as usize) {
        let section = Section::parse(row).ok_or(Damage("the table has an unknown section kind or codec"))?;
        let is_first = sections.is_empty();
        let fits = section.offset_bytes == next_bytes
            && (1..=MAX_SECTION_BYTES).contains(&section.raw_bytes)
            && (1..=MAX_SECTION_BYTES).contains(&section.stored_bytes)
            && (section.codec != Codec::Raw || section.stored_bytes == section.raw_bytes)
            && section.shape().is_none() == is_first
            && (!is_first || section.codec == Codec::Raw && section.padded_bytes() == BLOCK_BYTES);
        payload_bytes += section.shape().map_or(0, |shape| u64::from(shape.bytes));
        next_bytes += section.padded_bytes() as u64;
        if !fits || payload_bytes > MAX_PAYLOAD_BYTES {
            return Err(Damage("the table is inconsistent"));
        }
        sections.push(section);
    }
    if sections.len() != header.sections as usize || next_bytes + BLOCK_BYTES as u64 != header.file_bytes {
        return Err(Damage("the table does not match the file's length"));
    }
    Ok(sections)
}

fn digest(table: &[u8], keys: &FileKeys) -> [u8; 32] {
    *blake3::keyed_hash(&keys.sections, table).as_bytes()
}
