//! A tier: a place that keeps chunks.
//!
//! Calls block, so they are made on threads that nobody who computes waits for.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::chunk::{Chunk, ChunkHead, ChunkId, Flags, NumericClass};
use crate::identity::ChunkHash;
use crate::key::Key;

/// Where chunks are kept, nearest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Place {
    /// Host memory.
    Ram,
    /// A folder on this machine.
    Ssd,
    /// A folder or a bucket elsewhere.
    Remote,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Ram => "RAM",
            Self::Ssd => "SSD",
            Self::Remote => "remote",
        })
    }
}

/// What a tier knows of a chunk without reading its rows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stored {
    /// Its name.
    pub id: ChunkId,
    /// The name of the chunk before it.
    pub parent: ChunkHash,
    /// Position of its first token.
    pub first_position: u64,
    /// Its tokens.
    pub tokens: u32,
    /// Bytes that it takes there, as the place counts them (whole disk blocks).
    pub bytes: u64,
    /// What computed it.
    pub class: NumericClass,
    /// What else is to be known.
    pub flags: Flags,
    /// When it was computed, in seconds since 1970.
    pub created_unix_s: u64,
    /// What stands at its positions, where that was read too. Without it only a request for all of them finds the chunk.
    pub keys: Option<Arc<[Key]>>,
}

/// What a chunk must be for its reader; anything else is a miss.
#[derive(Clone, Debug)]
pub struct Wanted<'a> {
    /// Its name.
    pub id: ChunkId,
    /// The name of the chunk before it.
    pub parent: ChunkHash,
    /// Position of its first token.
    pub first_position: u64,
    /// What its first positions must be. A chunk that goes on differently is as good: the reader uses its first rows.
    pub keys: &'a [Key],
    /// The arithmetic that must have computed it; none where another's results may be used.
    pub class: Option<&'a NumericClass>,
    /// Whether rounded rows may be used.
    pub lossy: bool,
}

impl Wanted<'_> {
    /// Whether this chunk is it, as far as its head tells.
    ///
    /// # Errors
    /// What is different.
    pub fn check(&self, head: &ChunkHead) -> Result<(), Miss> {
        let differs = [
            (head.id != self.id, "it is another chunk"),
            (head.parent != self.parent, "it follows another chunk"),
            (head.first_position != self.first_position, "it stands at other positions"),
            (!head.keys.starts_with(self.keys), "it has other tokens"),
            (self.class.is_some_and(|class| *class != head.class), "another arithmetic computed it"),
            (head.flags.lossy && !self.lossy, "its rows were rounded"),
        ];
        differs.iter().find(|(differs, _)| *differs).map_or(Ok(()), |(_, what)| Err(Miss::Other(what)))
    }
}

/// Why there is no chunk.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Miss {
    /// It is not there.
    #[error("not there")]
    Absent,
    /// What is there is whole, but not what was asked for.
    #[error("{0}")]
    Other(&'static str),
    /// What is there is another installation's, and is left alone.
    #[error("another installation keeps it")]
    Foreign,
    /// What is there is damaged, and was put aside.
    #[error("damaged: {0}")]
    Damaged(&'static str),
    /// The tier could not be read.
    #[error(transparent)]
    Tier(#[from] TierError),
}

/// Why a tier failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TierError {
    /// No room, by the disk or by a quota.
    #[error("no space is left: {0}")]
    Full(String),
    /// Whatever else the system or the other side said.
    #[error("{0}")]
    Failed(String),
    /// It did not answer in time, or has not been asked because it did not before.
    #[error("{0}")]
    Away(String),
}

/// See the module.
pub trait Tier: Send + Sync {
    /// Which it is.
    fn place(&self) -> Place;

    /// Tells of every chunk that is there, whoever put it there.
    ///
    /// # Errors
    /// Where the place as a whole cannot be read. Chunks that cannot be are left out.
    fn scan(&self, each: &mut dyn FnMut(Stored)) -> Result<(), TierError>;

    /// Whether a chunk may be there that no scan told of. Answered from memory, since who computes waits for it.
    fn may_hold(&self, _id: &ChunkId) -> bool {
        false
    }

    /// When the place last answered a read, if only with its first bytes, by the tiers' clock. None where it cannot keep anybody waiting
    /// for that.
    fn heard_at(&self) -> Option<Duration> {
        None
    }

    /// Reads a chunk and makes sure that it is the wanted one, to the last byte.
    ///
    /// # Errors
    /// Why there is none.
    fn load(&self, wanted: &Wanted<'_>) -> Result<Chunk, Miss>;

    /// Keeps a chunk. One that is there already stays as it is.
    ///
    /// # Errors
    /// Why it is not kept; nothing of it is then to be seen.
    fn save(&self, chunk: &Chunk) -> Result<Stored, TierError>;

    /// Forgets a chunk; one that is not there is as good. Once this returns it does not come back after a power cut.
    ///
    /// # Errors
    /// Where it may still be there.
    fn remove(&self, id: &ChunkId) -> Result<(), TierError>;
}
