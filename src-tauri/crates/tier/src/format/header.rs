//! The first block of a file.
//!
//! ```text
//! 0    magic "KVC1"         4    version u32            8   flags u32: 1 sealed, 2 lossy, 4 tail, 8 shifted
//! 12   group u8             13   check u8               14  bytes of the class's name u16
//! 16   fingerprint 32       48   hash 32                80  parent 32
//! 112  first position u64   120  created u64, s         128 bytes of the file u64
//! 136  tokens u32           140  sections u32           144 type of K u32         148 type of V u32 (ggml's numbers)
//! 152  nonce 24             176  digest of the table 32 208 class's name 64
//! 272  installation id 16   288  its BLAKE3 digest 16   304  zeros
//! 4064 MAC 32: keyed BLAKE3 of the 4,064 bytes before it
//! ```
//!
//! The digest of the installation id lets every reader detect damage in the id. Without it, a single wrong bit would
//! make one of this installation's files look foreign, and the file would never be removed.

use cairn_gguf::DType;

use super::{
    BLOCK_BYTES, Checksum, Damage, FileKeys, INSTALLATION_ID_BYTES, MAX_SECTIONS, NONCE_BYTES, ROW_BYTES, padded,
};
use crate::chunk::{ChunkId, Flags, Group, NumericClass, RowTypes};
use crate::identity::{CHUNK_TOKENS, ChunkHash, Fingerprint};
use crate::tier::{Miss, StoredChunk};

const MAGIC: &[u8; 4] = b"KVC1";
const VERSION: u32 = 1;
/// Higher numbers are damage: there will be few versions.
const MAX_VERSION: u32 = 255;
const MAC_AT: usize = BLOCK_BYTES - 32;
const TABLE_DIGEST: std::ops::Range<usize> = 176..208;
const CLASS_AT: usize = 208;
const INSTALLATION_ID_AT: usize = CLASS_AT + NumericClass::MAX_BYTES;
const INSTALLATION_ID_DIGEST_AT: usize = INSTALLATION_ID_AT + INSTALLATION_ID_BYTES;
/// End of the used bytes.
const END: usize = INSTALLATION_ID_DIGEST_AT + INSTALLATION_ID_BYTES;

// `preamble_bytes` and the table's parser rely on this.
const _: () = assert!(CHUNK_TOKENS * 16 <= BLOCK_BYTES, "the keys of a chunk fit into one block");

const SEALED: u32 = 1;
const LOSSY: u32 = 2;
const TAIL: u32 = 4;
const SHIFTED: u32 = 8;

/// Contents of a file's first block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Header {
    /// Id of the chunk.
    pub id: ChunkId,
    /// Hash of the preceding chunk.
    pub parent: ChunkHash,
    /// Position of the first token.
    pub first_position: u64,
    /// Number of tokens: 1 to 256.
    pub tokens: u32,
    /// Arithmetic that computed the rows.
    pub class: NumericClass,
    /// Element types of the rows.
    pub rows: RowTypes,
    /// Other properties.
    pub flags: Flags,
    /// Creation time, in seconds since 1970.
    pub created_unix_s: u64,
    /// Size of the whole file.
    pub file_bytes: u64,
    pub(super) installation_id: [u8; INSTALLATION_ID_BYTES],
    pub(super) sections: u32,
    pub(super) sealed: bool,
    pub(super) check: Checksum,
    pub(super) nonce: [u8; NONCE_BYTES],
    pub(super) table_digest: [u8; 32],
    pub(super) mac: [u8; 32],
}

impl Header {
    /// Parses and verifies a file's first block. Later bytes are ignored.
    ///
    /// # Errors
    /// [`Miss::Foreign`] if another installation or a newer version wrote the file, [`Miss::Damaged`] if the block is not
    /// valid.
    pub fn parse(file: &[u8], keys: &FileKeys) -> Result<Self, Miss> {
        let block: &[u8; BLOCK_BYTES] = file.first_chunk().ok_or(Damage("the file is shorter than a header"))?;
        if is_foreign(block, keys) || is_newer(block, keys) {
            return Err(Miss::Foreign);
        }
        Ok(Self::parse_own(block, keys)?)
    }

    fn parse_own(block: &[u8; BLOCK_BYTES], keys: &FileKeys) -> Result<Self, Damage> {
        let mac = bytes_at::<32>(block, MAC_AT);
        // `blake3::Hash` compares in constant time.
        if &block[..4] != MAGIC || mac_of(block, keys) != blake3::Hash::from_bytes(mac) {
            return Err(Damage("the header's MAC is wrong"));
        }
        // The MAC is right, so only a bug could cause the errors below.
        if u32_at(block, 4) != VERSION {
            return Err(Damage("the header has another version"));
        }
        let flags = u32_at(block, 8);
        let group = match block[12] {
            0 => Group::Full,
            1 => Group::Window,
            _ => return Err(Damage("the header has an unknown group")),
        };
        let check = match block[13] {
            0 => Checksum::Fast,
            1 => Checksum::Keyed,
            _ => return Err(Damage("the header has an unknown checksum")),
        };
        let class = block[CLASS_AT..INSTALLATION_ID_AT].get(..usize::from(u16::from_le_bytes(bytes_at(block, 14))));
        let class = class.and_then(|name| std::str::from_utf8(name).ok()).and_then(NumericClass::new);
        let dtype = |at| DType::from_ggml_id(u32_at(block, at)).ok_or(Damage("the header has an unknown type"));
        let header = Self {
            id: ChunkId {
                fingerprint: Fingerprint::from_bytes(bytes_at(block, 16)),
                hash: ChunkHash::from_bytes(bytes_at(block, 48)),
                group,
            },
            parent: ChunkHash::from_bytes(bytes_at(block, 80)),
            first_position: u64_at(block, 112),
            tokens: u32_at(block, 136),
            class: class.ok_or(Damage("the header has an invalid class name"))?,
            rows: RowTypes { keys: dtype(144)?, values: dtype(148)? },
            flags: Flags { tail: flags & TAIL != 0, lossy: flags & LOSSY != 0, shifted: flags & SHIFTED != 0 },
            created_unix_s: u64_at(block, 120),
            file_bytes: u64_at(block, 128),
            installation_id: bytes_at(block, INSTALLATION_ID_AT),
            sections: u32_at(block, 140),
            sealed: flags & SEALED != 0,
            check,
            nonce: bytes_at(block, 152),
            table_digest: bytes_at(block, TABLE_DIGEST.start),
            mac,
        };
        if !(1..=CHUNK_TOKENS as u32).contains(&header.tokens) || !(1..=MAX_SECTIONS as u32).contains(&header.sections)
        {
            return Err(Damage("the header's counts are out of range"));
        }
        Ok(header)
    }

    /// Returns the size of header, table and keys: all that precedes the rows.
    pub fn preamble_bytes(&self) -> usize {
        // Keys always take one block.
        BLOCK_BYTES + self.table_bytes() + BLOCK_BYTES
    }

    /// Returns the metadata of a chunk that takes `room_bytes` in its tier.
    pub fn stored(&self, room_bytes: u64) -> StoredChunk {
        StoredChunk {
            id: self.id,
            parent: self.parent,
            first_position: self.first_position,
            tokens: self.tokens,
            bytes: room_bytes,
            class: self.class.clone(),
            flags: self.flags,
            created_unix_s: self.created_unix_s,
            keys: None,
        }
    }

    pub(super) fn table_bytes(&self) -> usize {
        padded(u64::from(self.sections) * ROW_BYTES as u64) as usize
    }

    /// Encodes the header and sets its `mac`.
    pub(super) fn write(&mut self, keys: &FileKeys) -> [u8; BLOCK_BYTES] {
        let mut block = self.without_mac();
        self.mac = *mac_of(&block, keys).as_bytes();
        block[MAC_AT..].copy_from_slice(&self.mac);
        block
    }

    /// Additional authenticated data of encrypted sections: the header without the fields that depend on the sections.
    pub(super) fn context(&self) -> Vec<u8> {
        let mut block = self.without_mac();
        block[TABLE_DIGEST].fill(0);
        block[..END].to_vec()
    }

    /// Returns the last block of the file.
    pub(super) fn trailer(&self) -> [u8; BLOCK_BYTES] {
        let mut block = [0; BLOCK_BYTES];
        put(&mut block, BLOCK_BYTES - 32, b"KVC1END\0");
        put(&mut block, BLOCK_BYTES - 24, &self.file_bytes.to_le_bytes());
        put(&mut block, BLOCK_BYTES - 16, &self.mac[..16]);
        block
    }

    fn without_mac(&self) -> [u8; BLOCK_BYTES] {
        let mut block = [0; BLOCK_BYTES];
        let flags =
            [(self.sealed, SEALED), (self.flags.lossy, LOSSY), (self.flags.tail, TAIL), (self.flags.shifted, SHIFTED)];
        let flags = flags.iter().filter(|(set, _)| *set).fold(0, |all, (_, flag)| all | flag);
        let group = match self.id.group {
            Group::Full => 0,
            Group::Window => 1,
        };
        let check = match self.check {
            Checksum::Fast => 0,
            Checksum::Keyed => 1,
        };
        let class = self.class.as_str().as_bytes();
        put(&mut block, 0, MAGIC);
        put(&mut block, 4, &VERSION.to_le_bytes());
        put(&mut block, 8, &flags.to_le_bytes());
        put(&mut block, 12, &[group, check]);
        put(&mut block, 14, &(class.len() as u16).to_le_bytes());
        put(&mut block, 16, self.id.fingerprint.as_bytes());
        put(&mut block, 48, self.id.hash.as_bytes());
        put(&mut block, 80, self.parent.as_bytes());
        put(&mut block, 112, &self.first_position.to_le_bytes());
        put(&mut block, 120, &self.created_unix_s.to_le_bytes());
        put(&mut block, 128, &self.file_bytes.to_le_bytes());
        put(&mut block, 136, &self.tokens.to_le_bytes());
        put(&mut block, 140, &self.sections.to_le_bytes());
        put(&mut block, 144, &self.rows.keys.ggml_id().to_le_bytes());
        put(&mut block, 148, &self.rows.values.ggml_id().to_le_bytes());
        put(&mut block, 152, &self.nonce);
        put(&mut block, TABLE_DIGEST.start, &self.table_digest);
        put(&mut block, CLASS_AT, class);
        put(&mut block, INSTALLATION_ID_AT, &self.installation_id);
        put(&mut block, INSTALLATION_ID_DIGEST_AT, &digest_of(&self.installation_id));
        block
    }
}

/// Returns whether the header claims another installation. The claim cannot be verified.
fn is_foreign(block: &[u8; BLOCK_BYTES], keys: &FileKeys) -> bool {
    let installation_id = bytes_at::<INSTALLATION_ID_BYTES>(block, INSTALLATION_ID_AT);
    &block[..4] == MAGIC
        && u32_at(block, 4) == VERSION
        && installation_id != keys.installation_id
        && bytes_at::<INSTALLATION_ID_BYTES>(block, INSTALLATION_ID_DIGEST_AT) == digest_of(&installation_id)
}

/// Returns whether a newer version of this program wrote the header. Only the magic and the version of such a header are
/// defined. A header that is valid with the current version is damaged.
fn is_newer(block: &[u8; BLOCK_BYTES], keys: &FileKeys) -> bool {
    let is_current = || {
        let mut block = *block;
        put(&mut block, 4, &VERSION.to_le_bytes());
        mac_of(&block, keys) == blake3::Hash::from_bytes(bytes_at(&block, MAC_AT))
    };
    &block[..4] == MAGIC && (VERSION + 1..=MAX_VERSION).contains(&u32_at(block, 4)) && !is_current()
}

fn digest_of(installation_id: &[u8; INSTALLATION_ID_BYTES]) -> [u8; INSTALLATION_ID_BYTES] {
    *blake3::hash(installation_id).as_bytes().first_chunk().expect("a hash has 32 bytes")
}

fn mac_of(block: &[u8; BLOCK_BYTES], keys: &FileKeys) -> blake3::Hash {
    blake3::keyed_hash(&keys.mac, &block[..MAC_AT])
}

fn put(block: &mut [u8; BLOCK_BYTES], at: usize, bytes: &[u8]) {
    block[at..at + bytes.len()].copy_from_slice(bytes);
}

/// Offsets are those of the module's table, so they are within the block.
fn bytes_at<const N: usize>(block: &[u8; BLOCK_BYTES], at: usize) -> [u8; N] {
    *block[at..].first_chunk().expect("all offsets are within the block")
}

fn u32_at(block: &[u8; BLOCK_BYTES], at: usize) -> u32 {
    u32::from_le_bytes(bytes_at(block, at))
}

fn u64_at(block: &[u8; BLOCK_BYTES], at: usize) -> u64 {
    u64::from_le_bytes(bytes_at(block, at))
}
