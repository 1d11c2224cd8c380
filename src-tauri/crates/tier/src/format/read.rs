//! Reading files.

use std::sync::Arc;

use super::codec::{self, Workspace};
use super::header::Header;
use super::seal::{self, Seal};
use super::table::{self, Kind, Section};
use super::{BLOCK_BYTES, Damage, FileKeys};
use crate::chunk::{Chunk, ChunkHead, SectionShape};
use crate::key::Key;
use crate::tier::{Miss, Wanted};

/// A file whose front was read and checked: what the chunk is, and where its rows lie.
pub struct Front {
    head: Arc<ChunkHead>,
    header: Header,
    /// Those of the payload, in its order.
    sections: Vec<Section>,
    seal: Option<Seal>,
    keys: FileKeys,
}

impl Front {
    /// Reads the first [`Header::front_bytes`] of a file.
    ///
    /// # Errors
    /// Where they are not what was written, or are sealed and there is no key.
    pub fn parse(header: Header, front: &[u8], keys: &FileKeys) -> Result<Self, Miss> {
        let table_end = BLOCK_BYTES + header.table_bytes();
        let table = front.get(BLOCK_BYTES..table_end).ok_or(Damage("ends within its table"))?;
        let mut sections = table::parse(table, &header, keys)?.into_iter();
        let first = sections.next().expect("a header counts one section at least");
        let block = front.get(table_end..table_end + BLOCK_BYTES).ok_or(Damage("ends within its keys"))?;

        let seal = match (header.sealed, &keys.seal) {
            (false, _) => None,
            (true, Some(key)) => Some(Seal::new(key, header.nonce, header.context())),
            (true, None) => return Err(Miss::Other("it is sealed, and there is no key")),
        };
        let mut front = Self {
            // What follows replaces it.
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
            seal,
            keys: keys.clone(),
        };
        let mut block = block.to_vec();
        let stored = front.verify(0, &first, &mut block)?;
        let chunk_keys: Arc<[Key]> = match first.kind {
            Kind::Tokens => stored.as_chunks().0.iter().map(|id| Key::token(u32::from_le_bytes(*id))).collect(),
            _ => stored.as_chunks().0.iter().map(|key| Key::from_le_bytes(*key)).collect(),
        };
        if chunk_keys.len() != front.header.tokens as usize {
            return Err(Miss::Damaged("it has other keys than its header counts"));
        }
        Arc::get_mut(&mut front.head).expect("nobody else has it yet").keys = chunk_keys;
        Ok(front)
    }

    /// What the chunk is.
    pub fn head(&self) -> &Arc<ChunkHead> {
        &self.head
    }

    /// What each section is in the payload, and which bytes of the file it takes, whole blocks of it.
    pub fn sections(&self) -> impl Iterator<Item = (SectionShape, std::ops::Range<u64>)> {
        self.sections.iter().zip(self.head.sections.iter()).map(|(section, shape)| {
            (*shape, section.offset_bytes..section.offset_bytes + section.padded_bytes() as u64)
        })
    }

    /// Makes of a section's bytes in the file, which are changed, its bytes in the payload, once they are known to be right.
    ///
    /// # Errors
    /// Where they are not what was written. Nothing is to be used of `rows` then.
    pub fn open(&self, index: usize, blocks: &mut [u8], rows: &mut [u8], work: &mut Workspace) -> Result<(), Damage> {
        let section = self.sections.get(index).ok_or(Damage("there is no such section"))?;
        let stored = self.verify(index + 1, section, blocks)?;
        let Kind::Rows(kind) = section.kind else { return Err(Damage("a section of the payload holds keys")) };
        codec::unpack(section.codec, self.head.rows.of(kind), stored, rows, work)
    }

    /// Whether these are the file's last blocks.
    ///
    /// # Errors
    /// Where they are not.
    pub fn check_trailer(&self, block: &[u8]) -> Result<(), Damage> {
        if *block == self.header.trailer() { Ok(()) } else { Err(Damage("it does not end as it should")) }
    }

    /// What a section stores, if its blocks are those that were written.
    fn verify<'a>(&self, index: usize, section: &Section, blocks: &'a mut [u8]) -> Result<&'a [u8], Damage> {
        let (stored, gap) =
            blocks.split_at_mut_checked(section.stored_bytes as usize).ok_or(Damage("ends within a section"))?;
        if gap.iter().any(|byte| *byte != 0) {
            return Err(Damage("something lies between sections"));
        }
        match &self.seal {
            Some(seal) => seal.open(index, section, stored)?,
            None if seal::check(stored, self.header.check, &self.keys) == section.check => {}
            None => return Err(Damage("a section is not what was written")),
        }
        Ok(stored)
    }
}

/// Reads a whole file.
///
/// # Errors
/// Where it is not the wanted chunk, to the last byte.
pub fn decode(file: &[u8], keys: &FileKeys, wanted: &Wanted<'_>) -> Result<Chunk, Miss> {
    let header = Header::parse(file, keys)?;
    if header.file_bytes != file.len() as u64 {
        return Err(Miss::Damaged("it has another length"));
    }
    if header.id != wanted.id {
        return Err(Miss::Damaged("another chunk lies under this name"));
    }
    let front = file.get(..header.front_bytes()).ok_or(Miss::Damaged("ends within its front"))?;
    let front = Front::parse(header, front, keys)?;
    wanted.check(&front.head)?;
    let mut payload = vec![0; front.head.payload_bytes() as usize];
    let mut rest = &mut payload[..];
    let mut work = Workspace::default();
    for (index, (shape, range)) in front.sections().enumerate() {
        let (rows, after) = rest.split_at_mut(shape.bytes as usize);
        rest = after;
        let blocks =
            file.get(range.start as usize..range.end as usize).ok_or(Miss::Damaged("ends within a section"))?;
        front.open(index, &mut blocks.to_vec(), rows, &mut work)?;
    }
    front.check_trailer(file.get(file.len() - BLOCK_BYTES..).unwrap_or_default())?;
    Ok(Chunk { head: front.head, payload: Arc::new(payload) })
}
