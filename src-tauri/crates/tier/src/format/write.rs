//! Encoding files.

use std::borrow::Cow;

use super::codec::{self, Codec, Packing};
use super::header::Header;
use super::section_cipher::{self, SectionCipher};
use super::table::{self, Kind, Section};
use super::{BLOCK_BYTES, FileKeys, MAX_PAYLOAD_BYTES, MAX_SECTION_BYTES, MAX_SECTIONS, NONCE_BYTES, padded};
use crate::chunk::{Chunk, ChunkHead};
use crate::identity::CHUNK_TOKENS;
use crate::tier::TierError;

static ZEROS: [u8; BLOCK_BYTES] = [0; BLOCK_BYTES];

/// An encoded file. Raw sections borrow from the chunk.
#[derive(Debug)]
pub struct Encoded<'a> {
    header: Header,
    front: Vec<u8>,
    sections: Vec<Cow<'a, [u8]>>,
    trailer: [u8; BLOCK_BYTES],
}

impl Encoded<'_> {
    /// Returns the header.
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// Returns the file's bytes, in pieces.
    pub fn pieces(&self) -> impl Iterator<Item = &[u8]> {
        let sections = self.sections.iter().flat_map(|section| {
            let gap = padded(section.len() as u64) as usize - section.len();
            [section.as_ref(), ZEROS.get(..gap).unwrap_or_default()]
        });
        std::iter::once(self.front.as_slice()).chain(sections).chain([self.trailer.as_slice()])
    }

    /// Returns the file's bytes.
    pub fn to_vec(&self) -> Vec<u8> {
        let mut file = Vec::with_capacity(self.header.file_bytes as usize);
        self.pieces().for_each(|piece| file.extend_from_slice(piece));
        file
    }
}

/// Encodes a chunk. `nonce` must be random; it is used if the keys encrypt.
///
/// # Errors
/// If the chunk's head and payload are inconsistent, or exceed the format's limits.
pub fn encode<'a>(
    chunk: &'a Chunk,
    packing: Packing,
    keys: &FileKeys,
    nonce: [u8; NONCE_BYTES],
) -> Result<Encoded<'a>, TierError> {
    encode_in_parts(chunk, packing, keys, nonce, &|_| ())
}

/// As [`encode`]. Calls `after_part` after each section was encoded and after it was checked, with its bytes.
///
/// # Errors
/// As [`encode`].
pub(crate) fn encode_in_parts<'a>(
    chunk: &'a Chunk,
    packing: Packing,
    keys: &FileKeys,
    nonce: [u8; NONCE_BYTES],
    after_part: &dyn Fn(usize),
) -> Result<Encoded<'a>, TierError> {
    let head = &*chunk.head;
    let fits = chunk.payload.len() as u64 == head.payload_bytes()
        && head.payload_bytes() <= MAX_PAYLOAD_BYTES
        && (1..=CHUNK_TOKENS).contains(&head.keys.len())
        && head.sections.len() < MAX_SECTIONS
        && head.sections.iter().all(|section| (1..=MAX_SECTION_BYTES).contains(&section.bytes));
    if !fits {
        return Err(TierError::Failed("the chunk's head does not describe its rows".to_owned()));
    }

    let (kind, stored_keys) = keys_section(head);
    let mut sections = Vec::with_capacity(head.sections.len() + 1);
    let mut stored = Vec::with_capacity(head.sections.len() + 1);
    let mut push = |layer, kind, codec, raw_bytes, bytes: Cow<'a, [u8]>| {
        let stored_bytes = bytes.len() as u32;
        sections.push(Section { layer, kind, codec, raw_bytes, stored_bytes, offset_bytes: 0, check: [0; 16] });
        stored.push(bytes);
    };
    push(0, kind, Codec::Raw, stored_keys.len() as u32, Cow::Owned(stored_keys));
    let mut rest = &chunk.payload[..];
    let mut packer = codec::Packer::new(packing, head.rows);
    for shape in head.sections.iter() {
        let (raw, after) = rest.split_at(shape.bytes as usize);
        rest = after;
        let (codec, bytes) = packer.pack(shape.kind, raw);
        push(shape.layer, Kind::Rows(shape.kind), codec, shape.bytes, bytes);
        after_part(raw.len());
    }

    let mut header = Header {
        id: head.id,
        parent: head.parent,
        first_position: head.first_position,
        tokens: head.keys.len() as u32,
        class: head.class.clone(),
        rows: head.rows,
        flags: head.flags,
        created_unix_s: head.created_unix_s,
        file_bytes: 0,
        installation_id: keys.installation_id,
        sections: sections.len() as u32,
        sealed: keys.encryption_key.is_some(),
        check: keys.check,
        nonce: if keys.encryption_key.is_some() { nonce } else { [0; NONCE_BYTES] },
        table_digest: [0; 32],
        mac: [0; 32],
    };
    header.flags.lossy |= sections.iter().any(|section| section.codec.is_lossy());
    let mut next_bytes = (BLOCK_BYTES + header.table_bytes()) as u64;
    for section in &mut sections {
        section.offset_bytes = next_bytes;
        next_bytes += section.padded_bytes() as u64;
    }
    header.file_bytes = next_bytes + BLOCK_BYTES as u64;

    let cipher = keys.encryption_key.as_ref().map(|key| SectionCipher::new(key, nonce, header.context()));
    for (index, (section, bytes)) in sections.iter_mut().zip(&mut stored).enumerate() {
        section.check = match &cipher {
            Some(cipher) => cipher.close(index, section, bytes.to_mut()),
            None => section_cipher::check(bytes, keys.check, keys),
        };
        after_part(section.raw_bytes as usize);
    }
    let (table, digest) = table::write(&sections, keys);
    header.table_digest = digest;
    let mut front = header.write(keys).to_vec();
    front.extend_from_slice(&table);
    Ok(Encoded { trailer: header.trailer(), header, front, sections: stored })
}

/// Encodes the section of the chunk's keys. Token-only keys take a quarter of the space.
fn keys_section(head: &ChunkHead) -> (Kind, Vec<u8>) {
    let tokens: Option<Vec<u32>> = head.keys.iter().map(|key| key.as_token()).collect();
    match tokens {
        Some(tokens) => (Kind::Tokens, tokens.into_iter().flat_map(u32::to_le_bytes).collect()),
        None => (Kind::Wide, head.keys.iter().flat_map(|key| key.to_le_bytes()).collect()),
    }
}
