//! Parsing files.

use std::sync::Arc;

use super::codec::{self, Workspace};
use super::header::Header;
use super::section_cipher::{self, SectionCipher};
use super::table::{self, Kind, Section};
use super::{BLOCK_BYTES, Damage, FileKeys};
use crate::chunk::{Chunk, ChunkHead, SectionShape};
use crate::key::Key;
use crate::tier::{ChunkRequest, Miss};

/// Verified header, table and keys of a file: the chunk's metadata, and the offsets of its rows.
pub struct Preamble {
    head: Arc<ChunkHead>,
    header: Header,
    /// The payload's sections, in order.
    sections: Vec<Section>,
    cipher: Option<SectionCipher>,
    keys: FileKeys,
}

impl Preamble {
    /// Parses the first [`Header::preamble_bytes`] of a file.
    ///
    /// # Errors
    /// If the bytes are invalid, or are encrypted and the key is missing.
    pub fn parse(header: Header, front: &[u8], keys: &FileKeys) -> Result<Self, Miss> {
        let table_end = BLOCK_BYTES + header.table_bytes();
        let table = front.get(BLOCK_BYTES..table_end).ok_or(Damage("the file ends within its table"))?;
        let mut sections = table::parse(table, &header, keys)?.into_iter();
        let first = sections.next().expect("a header counts at least one section");
        let block = front.get(table_end..table_end + BLOCK_BYTES).ok_or(Damage("the file ends within its keys"))?;

        let cipher = match (header.sealed, &keys.encryption_key) {
            (false, _) => None,
            (true, Some(key)) => Some(SectionCipher::new(key, header.nonce, header.context())),
            (true, None) => return Err(Miss::Mismatch("the file is encrypted and the key is missing")),
        };
        let mut front = Self {
            // Placeholder; replaced below.
            head: Arc::new(ChunkHead {
                id: header.id,
                parent: header.parent,
                first_position: header.first_position,
                keys: Arc::new([]),
                class: header.class.clone(),
                rows: header.rows,
                flags: header.flags,
                created_unix_s: header.created_unix_s,
                sections: sections.clone().filter_map(|section| section.shape()).collect(),
            }),
            header,
            sections: sections.collect(),
            cipher,
            keys: keys.clone(),
        };
        let mut block = block.to_vec();
        let stored = front.verify(0, &first, &mut block)?;
        let chunk_keys: Arc<[Key]> = match first.kind {
            Kind::Tokens => stored.as_chunks().0.iter().map(|id| Key::token(u32::from_le_bytes(*id))).collect(),
            _ => stored.as_chunks().0.iter().map(|key| Key::from_le_bytes(*key)).collect(),
        };
        if chunk_keys.len() != front.header.tokens as usize {
            return Err(Miss::Damaged("the number of keys differs from the header"));
        }
        Arc::get_mut(&mut front.head).expect("the head is not shared yet").keys = chunk_keys;
        Ok(front)
    }

    /// Returns the chunk's metadata.
    pub fn head(&self) -> &Arc<ChunkHead> {
        &self.head
    }

    /// Returns each section's shape in the payload, and its byte range in the file (whole blocks).
    pub fn sections(&self) -> impl Iterator<Item = (SectionShape, std::ops::Range<u64>)> {
        self.sections.iter().zip(self.head.sections.iter()).map(|(section, shape)| {
            (*shape, section.offset_bytes..section.offset_bytes + section.padded_bytes() as u64)
        })
    }

    /// Verifies and decodes one section. `blocks` is decrypted in place.
    ///
    /// # Errors
    /// If the section is invalid. `rows` must not be used then.
    pub fn open(&self, index: usize, blocks: &mut [u8], rows: &mut [u8], work: &mut Workspace) -> Result<(), Damage> {
        let section = self.sections.get(index).ok_or(Damage("there is no such section"))?;
        let stored = self.verify(index + 1, section, blocks)?;
        let Kind::Rows(kind) = section.kind else { return Err(Damage("a section of the payload contains keys")) };
        codec::unpack(section.codec, self.head.rows.of(kind), stored, rows, work)
    }

    /// Verifies the file's last block.
    ///
    /// # Errors
    /// If the trailer is invalid.
    pub fn check_trailer(&self, block: &[u8]) -> Result<(), Damage> {
        if *block == self.header.trailer() { Ok(()) } else { Err(Damage("the trailer is wrong")) }
    }

    /// Returns the stored bytes of a section if they are valid.
    fn verify<'a>(&self, index: usize, section: &Section, blocks: &'a mut [u8]) -> Result<&'a [u8], Damage> {
        let (stored, gap) = blocks
            .split_at_mut_checked(section.stored_bytes as usize)
            .ok_or(Damage("the file ends within a section"))?;
        if gap.iter().any(|byte| *byte != 0) {
            return Err(Damage("the padding after a section is not zero"));
        }
        match &self.cipher {
            Some(cipher) => cipher.open(index, section, stored)?,
            None if section_cipher::check(stored, self.header.check, &self.keys) == section.check => {}
            None => return Err(Damage("a section's checksum is wrong")),
        }
        Ok(stored)
    }
}

/// Decodes a whole file.
///
/// # Errors
/// If the file is not exactly the requested chunk.
pub fn decode(file: &[u8], keys: &FileKeys, wanted: &ChunkRequest<'_>) -> Result<Chunk, Miss> {
    let header = Header::parse(file, keys)?;
    if header.file_bytes != file.len() as u64 {
        return Err(Miss::Damaged("the file has another length than its header says"));
    }
    if header.id != wanted.id {
        return Err(Miss::Damaged("the file contains another chunk"));
    }
    let front = file.get(..header.preamble_bytes()).ok_or(Miss::Damaged("the file ends within its preamble"))?;
    let front = Preamble::parse(header, front, keys)?;
    wanted.check(&front.head)?;
    let mut payload = vec![0; front.head.payload_bytes() as usize];
    let mut rest = &mut payload[..];
    let mut work = Workspace::default();
    for (index, (shape, range)) in front.sections().enumerate() {
        let (rows, after) = rest.split_at_mut(shape.bytes as usize);
        rest = after;
        let blocks = file
            .get(range.start as usize..range.end as usize)
            .ok_or(Miss::Damaged("the file ends within a section"))?;
        front.open(index, &mut blocks.to_vec(), rows, &mut work)?;
    }
    front.check_trailer(file.get(file.len() - BLOCK_BYTES..).unwrap_or_default())?;
    Ok(Chunk { head: front.head, payload: Arc::new(payload) })
}
