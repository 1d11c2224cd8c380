//! The first block of a file.
//!
//! ```text
//! 0    magic "KVC1"         4    version u32            8   flags u32: 1 sealed, 2 lossy, 4 tail, 8 shifted
//! 12   group u8             13   check u8               14  bytes of the class's name u16
//! 16   fingerprint 32       48   hash 32                80  parent 32
//! 112  first position u64   120  created u64, s         128 bytes of the file u64
//! 136  tokens u32           140  sections u32           144 type of K u32         148 type of V u32 (ggml's numbers)
//! 152  nonce 24             176  digest of the table 32 208 class's name 64
//! 272  whose 16             288  digest of whose 16: BLAKE3 304  zeros
//! 4064 MAC 32: keyed BLAKE3 of the 4,064 bytes before it
//! ```
//!
//! The digest of whose is there for those who have no key: without it a file of ours would be another's as soon as a bit of these 16
//! bytes is wrong, and stay for ever.

use cairn_gguf::DType;

use super::table::ROW_BYTES;
use super::{BLOCK_BYTES, Check, Damage, FileKeys, MAX_SECTIONS, NONCE_BYTES, WHOSE_BYTES, padded};
use crate::chunk::{ChunkId, Flags, Group, NumericClass, RowTypes};
use crate::identity::{CHUNK_TOKENS, ChunkHash, Fingerprint};
use crate::tier::{Miss, Stored};

const MAGIC: &[u8; 4] = b"KVC1";
const VERSION: u32 = 1;
const MAC_AT: usize = BLOCK_BYTES - 32;
const TABLE_DIGEST: std::ops::Range<usize> = 176..208;
const CLASS_AT: usize = 208;
const WHOSE_AT: usize = CLASS_AT + NumericClass::MAX_BYTES;
const WHOSE_DIGEST_AT: usize = WHOSE_AT + WHOSE_BYTES;
/// The end of what is used.
const END: usize = WHOSE_DIGEST_AT + WHOSE_BYTES;

// What `front_bytes` and the table's reader take for granted.
const _: () = assert!(CHUNK_TOKENS * 16 <= BLOCK_BYTES, "the keys of a chunk are one block");

const SEALED: u32 = 1;
const LOSSY: u32 = 2;
const TAIL: u32 = 4;
const SHIFTED: u32 = 8;

/// What the first block of a file says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Header {
    /// The chunk's name.
    pub id: ChunkId,
    /// The name of the chunk before it.
    pub parent: ChunkHash,
    /// Position of its first token.
    pub first_position: u64,
    /// Its tokens: 1 to 256.
    pub tokens: u32,
    /// What computed it.
    pub class: NumericClass,
    /// How its rows are written.
    pub rows: RowTypes,
    /// What else is to be known.
    pub flags: Flags,
    /// When it was computed, in seconds since 1970.
    pub created_unix_s: u64,
    /// The whole file's length.
    pub file_bytes: u64,
    pub(super) whose: [u8; WHOSE_BYTES],
    pub(super) sections: u32,
    pub(super) sealed: bool,
    pub(super) check: Check,
    pub(super) nonce: [u8; NONCE_BYTES],
    pub(super) table_digest: [u8; 32],
    pub(super) mac: [u8; 32],
}

impl Header {
    /// Reads a file's first block; bytes after it are not looked at.
    ///
    /// # Errors
    /// [`Miss::Foreign`] where another installation wrote it, [`Miss::Damaged`] where nobody did, or not so.
    pub fn parse(file: &[u8], keys: &FileKeys) -> Result<Self, Miss> {
        let block: &[u8; BLOCK_BYTES] = file.first_chunk().ok_or(Damage("shorter than a header"))?;
        if is_foreign(block, keys) {
            return Err(Miss::Foreign);
        }
        Ok(Self::parse_own(block, keys)?)
    }

    fn parse_own(block: &[u8; BLOCK_BYTES], keys: &FileKeys) -> Result<Self, Damage> {
        let mac = bytes_at::<32>(block, MAC_AT);
        // BLAKE3's hashes compare in constant time.
        if &block[..4] != MAGIC || mac_of(block, keys) != blake3::Hash::from_bytes(mac) {
            return Err(Damage("the header is not one that was written here"));
        }
        // From here on only a mistake of ours can be the cause.
        if u32_at(block, 4) != VERSION {
            return Err(Damage("the header is of another version"));
        }
        let flags = u32_at(block, 8);
        let group = match block[12] {
            0 => Group::Full,
            1 => Group::Window,
            _ => return Err(Damage("the header names no group")),
        };
        let check = match block[13] {
            0 => Check::Fast,
            1 => Check::Keyed,
            _ => return Err(Damage("the header names no check")),
        };
        let class = block[CLASS_AT..WHOSE_AT].get(..usize::from(u16::from_le_bytes(bytes_at(block, 14))));
        let class = class.and_then(|name| std::str::from_utf8(name).ok()).and_then(NumericClass::new);
        let dtype = |at| DType::from_ggml_id(u32_at(block, at)).ok_or(Damage("the header names no type"));
        let header = Self {
            id: ChunkId {
                fingerprint: Fingerprint::from_bytes(bytes_at(block, 16)),
                hash: ChunkHash::from_bytes(bytes_at(block, 48)),
                group,
            },
            parent: ChunkHash::from_bytes(bytes_at(block, 80)),
            first_position: u64_at(block, 112),
            tokens: u32_at(block, 136),
            class: class.ok_or(Damage("the header names no arithmetic"))?,
            rows: RowTypes { keys: dtype(144)?, values: dtype(148)? },
            flags: Flags { tail: flags & TAIL != 0, lossy: flags & LOSSY != 0, shifted: flags & SHIFTED != 0 },
            created_unix_s: u64_at(block, 120),
            file_bytes: u64_at(block, 128),
            whose: bytes_at(block, WHOSE_AT),
            sections: u32_at(block, 140),
            sealed: flags & SEALED != 0,
            check,
            nonce: bytes_at(block, 152),
            table_digest: bytes_at(block, TABLE_DIGEST.start),
            mac,
        };
        if !(1..=CHUNK_TOKENS as u32).contains(&header.tokens) || !(1..=MAX_SECTIONS as u32).contains(&header.sections)
        {
            return Err(Damage("the header counts more than there can be"));
        }
        Ok(header)
    }

    /// Bytes of header, table and keys: what a reader needs before it knows where rows lie.
    pub fn front_bytes(&self) -> usize {
        // Keys always take one block.
        BLOCK_BYTES + self.table_bytes() + BLOCK_BYTES
    }

    /// What a tier tells of the chunk, which takes so much room there.
    pub fn stored(&self, room_bytes: u64) -> Stored {
        Stored {
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

    /// The block of this header, whose `mac` is set to what it is.
    pub(super) fn write(&mut self, keys: &FileKeys) -> [u8; BLOCK_BYTES] {
        let mut block = self.without_mac();
        self.mac = *mac_of(&block, keys).as_bytes();
        block[MAC_AT..].copy_from_slice(&self.mac);
        block
    }

    /// What a sealed section is bound to: the header, but for what depends on the sections.
    pub(super) fn context(&self) -> Vec<u8> {
        let mut block = self.without_mac();
        block[TABLE_DIGEST].fill(0);
        block[..END].to_vec()
    }

    /// The last block of the file.
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
            Check::Fast => 0,
            Check::Keyed => 1,
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
        put(&mut block, WHOSE_AT, &self.whose);
        put(&mut block, WHOSE_DIGEST_AT, &digest_of(&self.whose));
        block
    }
}

/// Whether a header says that another installation wrote it. Whether that is true only those can tell.
fn is_foreign(block: &[u8; BLOCK_BYTES], keys: &FileKeys) -> bool {
    let whose = bytes_at::<WHOSE_BYTES>(block, WHOSE_AT);
    &block[..4] == MAGIC
        && u32_at(block, 4) == VERSION
        && whose != keys.whose
        && bytes_at::<WHOSE_BYTES>(block, WHOSE_DIGEST_AT) == digest_of(&whose)
}

fn digest_of(whose: &[u8; WHOSE_BYTES]) -> [u8; WHOSE_BYTES] {
    *blake3::hash(whose).as_bytes().first_chunk().expect("a hash has 32 bytes")
}

fn mac_of(block: &[u8; BLOCK_BYTES], keys: &FileKeys) -> blake3::Hash {
    blake3::keyed_hash(&keys.mac, &block[..MAC_AT])
}

fn put(block: &mut [u8; BLOCK_BYTES], at: usize, bytes: &[u8]) {
    block[at..at + bytes.len()].copy_from_slice(bytes);
}

/// Places are those of the module's table, so they lie in the block.
fn bytes_at<const N: usize>(block: &[u8; BLOCK_BYTES], at: usize) -> [u8; N] {
    *block[at..].first_chunk().expect("all places lie in the block")
}

fn u32_at(block: &[u8; BLOCK_BYTES], at: usize) -> u32 {
    u32::from_le_bytes(bytes_at(block, at))
}

fn u64_at(block: &[u8; BLOCK_BYTES], at: usize) -> u64 {
    u64::from_le_bytes(bytes_at(block, at))
}
