//! KVC1: the file format of a chunk.
//!
//! A file is written once, under a name derived from the chunk's id, and never changed. All numbers are little-endian.
//! Every part starts at a multiple of 4,096 bytes, so that it can be read with direct I/O, and layer by layer from a
//! remote tier.
//!
//! ```text
//! 0        header      4,096 bytes, see `header`: metadata, installation id, digest of the table, MAC of the header
//! 4096     table       one row of 40 bytes per section, see `table`, filled up with zeros
//! ...      keys        keys of the chunk's positions: section 0
//! ...      rows        a section for each layer's K, then V, then each recurrent layer's state; filled up with zeros
//! end      trailer     4,096 bytes: zeros, "KVC1END\0", the file's length, and 16 bytes of the MAC
//! ```
//!
//! The MAC key is derived from a secret of this installation, or of the installations that share a remote tier. A file
//! that another party made or changed is therefore rejected after its header. The MAC covers the table's digest, and
//! the table contains each section's checksum: XXH3 if only accidental damage is expected, keyed BLAKE3 if others can
//! write to the tier, and the XChaCha20-Poly1305 tag for encrypted sections. The trailer and the padding are compared
//! too, so every bit of a file is verified.
//!
//! Several installations may share a folder or bucket. The header therefore contains an opaque installation id. Files
//! of another installation are neither served, nor counted as damaged, nor removed.
//!
//! **Invariant:** bytes become a [`Chunk`] only if they are exactly those that were written under that name. No input
//! causes a panic. Nothing is allocated for a foreign file, and never more than a verified header declares.

mod codec;
mod header;
mod read;
mod section_cipher;
mod table;
mod write;

#[cfg(test)]
pub(crate) mod tests;

use crate::identity::Namespace;
use crate::tier::Miss;

pub use codec::{Packing, Workspace};
pub use header::Header;
pub use read::{Preamble, decode};
pub(crate) use write::encode_in_parts;
pub use write::{Encoded, encode};

/// Folder of this version's files. Other versions use other folders, which are ignored.
pub const VERSION_FOLDER: &str = "v1";
/// Alignment of every part of a file.
pub const BLOCK_BYTES: usize = cairn_disk::BLOCK_BYTES;
/// Size of a nonce.
pub const NONCE_BYTES: usize = 24;
/// Size of a row of the section table.
const ROW_BYTES: usize = 40;
/// Maximum number of sections: two for each of 2,047 layers. The deepest models have about 130 layers.
const MAX_SECTIONS: usize = 4096;
/// Maximum size of a section: twice 256 positions of 64 heads of 512 `f32` elements.
const MAX_SECTION_BYTES: u32 = 64 << 20;
/// Maximum size of a payload. A 70B model with 8 heads of 128 in 80 layers needs 80 MiB in `f16`.
const MAX_PAYLOAD_BYTES: u64 = 2 << 30;

/// Checksum of sections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Checksum {
    /// 128-bit XXH3: detects accidental damage at memory speed.
    Fast,
    /// Keyed BLAKE3, truncated to 128 bits: also detects manipulation.
    Keyed,
}

/// Size of an installation id.
const INSTALLATION_ID_BYTES: usize = 16;

/// Keys for writing and verifying files.
#[derive(Clone)]
pub struct FileKeys {
    installation_id: [u8; INSTALLATION_ID_BYTES],
    mac: [u8; 32],
    sections: [u8; 32],
    encryption_key: Option<[u8; 32]>,
    check: Checksum,
}

impl FileKeys {
    /// Derives the keys from the namespace of a tier: the installation's for its own disk, the shared one for a remote
    /// tier.
    pub fn new(namespace: &Namespace) -> Self {
        Self {
            installation_id: installation_id(namespace),
            mac: namespace.derive("kvc1 header"),
            sections: namespace.derive("kvc1 sections"),
            encryption_key: None,
            check: Checksum::Fast,
        }
    }

    /// Marks files as this installation's, whatever key encrypts them. A file that these keys did not write is then
    /// damaged if it has this installation's id, because a lost key wrote it, and foreign otherwise.
    #[must_use]
    pub fn with_installation(self, home: &Namespace) -> Self {
        Self { installation_id: installation_id(home), ..self }
    }

    /// Uses this checksum for unencrypted sections.
    #[must_use]
    pub fn with_checksum(self, check: Checksum) -> Self {
        Self { check, ..self }
    }

    /// Encrypts written files with this key, and decrypts files that it encrypted.
    #[must_use]
    pub fn with_encryption(self, key: [u8; 32]) -> Self {
        Self { encryption_key: Some(key), ..self }
    }
}

impl std::fmt::Debug for FileKeys {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "FileKeys({:?}, {})", self.check, if self.encryption_key.is_some() { "sealed" } else { "open" })
    }
}

/// Id of an installation. It reveals nothing, and only the owner of the installation's secret can compute it.
fn installation_id(home: &Namespace) -> [u8; INSTALLATION_ID_BYTES] {
    *home.derive("kvc whose").first_chunk().expect("a key has 32 bytes")
}

/// Reason why bytes are not a valid file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Damage(pub &'static str);

impl From<Damage> for Miss {
    fn from(Damage(why): Damage) -> Self {
        Self::Damaged(why)
    }
}

/// Rounds up to a whole block.
const fn padded(bytes: u64) -> u64 {
    bytes.next_multiple_of(BLOCK_BYTES as u64)
}
