//! KVC1: a chunk as a file.
//!
//! A file is written once, under the chunk's name, and never changed. All numbers are little-endian; everything begins at a multiple
//! of 4,096 bytes, so that it is read past the page cache into place, and one layer at a time from afar.
//!
//! ```text
//! 0        header      4,096 bytes, see `header`: what the chunk is and whose, a digest of the table, and last a MAC over all of it
//! 4096     table       one row of 40 bytes per section, see `table`, filled up with zeros
//! ...      keys        what stands at the chunk's positions: section 0
//! ...      rows        a section for each layer's K, then V; filled up with zeros
//! end      trailer     4,096 bytes: zeros, "KVC1END\0", the file's length, and 16 bytes of the MAC
//! ```
//!
//! The MAC's key comes from a secret of this installation, or of those who share a remote tier, so a file that anyone else made, or
//! changed, is not read any further than its header. The table's digest is under the MAC, and each section's check is in the table:
//! XXH3 where only accidents are to be feared, keyed BLAKE3 where the place belongs to others, and the tag of XChaCha20-Poly1305
//! where sections are sealed. The trailer and the zeros between sections are compared too, so that no bit of a file goes unchecked.
//!
//! Several installations may keep files in one place. So a header says whose the file is, by an id that tells nothing else: what another
//! installation wrote is not ours to judge. It is neither served nor damaged, and never removed.
//!
//! **Invariant:** bytes become a [`Chunk`] only if all of them are those that were written under that name. No input panics, and
//! nothing is allocated for a file that is not ours, or more than its checked header says.

mod codec;
mod header;
mod read;
mod seal;
mod table;
mod write;

#[cfg(test)]
pub(crate) mod tests;

use crate::identity::Namespace;
use crate::tier::Miss;

pub use codec::{Packing, Workspace};
pub use header::Header;
pub use read::{Front, decode};
pub use write::{Encoded, encode};

/// The folder of files of this version of the format. Those of another version have their own, where nobody here looks.
pub const VERSION_FOLDER: &str = "v1";
/// What everything in a file is a multiple of.
pub const BLOCK_BYTES: usize = cairn_disk::BLOCK_BYTES;
/// Bytes of a nonce.
pub const NONCE_BYTES: usize = 24;
/// The most sections a file may have: two for each of 2,047 layers. The deepest models have some 130 layers.
const MAX_SECTIONS: usize = 4096;
/// The most bytes of a section: 256 positions of 64 heads of 512 elements in `f32` are half of it.
const MAX_SECTION_BYTES: u32 = 64 << 20;
/// The most bytes of a payload. A model of 70B with 8 heads of 128 in 80 layers has 80 MiB in `f16`.
const MAX_PAYLOAD_BYTES: u64 = 2 << 30;

/// How sections are checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Check {
    /// XXH3 of 128 bits: finds accidents, at the speed of memory.
    Fast,
    /// Keyed BLAKE3, 128 bits of it: finds what others did too.
    Keyed,
}

/// Bytes of the id that says whose a file is.
const WHOSE_BYTES: usize = 16;

/// What files are made and checked with.
#[derive(Clone)]
pub struct FileKeys {
    whose: [u8; WHOSE_BYTES],
    mac: [u8; 32],
    sections: [u8; 32],
    seal: Option<[u8; 32]>,
    check: Check,
}

impl FileKeys {
    /// Keys of a place that this namespace keeps its chunks in: that of the installation for its own disk, that of those who share it
    /// for a remote one.
    pub fn new(place: &Namespace) -> Self {
        Self {
            whose: whose(place),
            mac: place.derive("kvc1 header"),
            sections: place.derive("kvc1 sections"),
            seal: None,
            check: Check::Fast,
        }
    }

    /// Says of files that they are this home's, whatever they are sealed with. One that these keys did not make is then damaged where it
    /// is the home's, because the home made it with keys that it has no more, and somebody else's otherwise.
    #[must_use]
    pub fn of_home(self, home: &Namespace) -> Self {
        Self { whose: whose(home), ..self }
    }

    /// Checks sections in this way, where they are not sealed.
    #[must_use]
    pub fn checked(self, check: Check) -> Self {
        Self { check, ..self }
    }

    /// Seals what is written with this key, and reads what was sealed with it.
    #[must_use]
    pub fn sealed(self, key: [u8; 32]) -> Self {
        Self { seal: Some(key), ..self }
    }
}

impl std::fmt::Debug for FileKeys {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "FileKeys({:?}, {})", self.check, if self.seal.is_some() { "sealed" } else { "open" })
    }
}

/// The id of a home. Nothing follows from it, and only who has the home's secret can make it.
fn whose(home: &Namespace) -> [u8; WHOSE_BYTES] {
    *home.derive("kvc whose").first_chunk().expect("a key has 32 bytes")
}

/// Why bytes are not a file that was written here.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Damage(pub &'static str);

impl From<Damage> for Miss {
    fn from(Damage(why): Damage) -> Self {
        Self::Damaged(why)
    }
}

/// The bytes up to the next block.
const fn padded(bytes: u64) -> u64 {
    bytes.next_multiple_of(BLOCK_BYTES as u64)
}
