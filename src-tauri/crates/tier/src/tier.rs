//! The [`Tier`] trait: a store of chunks.
//!
//! Calls block, so they run on worker threads, never on a thread that computes.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::chunk::{Chunk, ChunkHead, ChunkId, Flags, NumericClass};
use crate::identity::ChunkHash;
use crate::key::Key;

/// Kind of a tier, fastest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum TierKind {
    /// Host memory.
    Ram,
    /// A folder on this machine.
    Ssd,
    /// A folder on a file server, or a bucket.
    Remote,
}

impl fmt::Display for TierKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Ram => "RAM",
            Self::Ssd => "SSD",
            Self::Remote => "remote",
        })
    }
}

/// Metadata of a stored chunk, known without reading its rows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredChunk {
    /// Id of the chunk.
    pub id: ChunkId,
    /// Hash of the preceding chunk.
    pub parent: ChunkHash,
    /// Position of the first token.
    pub first_position: u64,
    /// Number of tokens.
    pub tokens: u32,
    /// Bytes used in the tier, in the tier's unit (whole disk blocks).
    pub bytes: u64,
    /// Arithmetic that computed the rows.
    pub class: NumericClass,
    /// Other properties.
    pub flags: Flags,
    /// Creation time, in seconds since 1970.
    pub created_unix_s: u64,
    /// Keys of the chunk's positions, if they were read. Without keys, only a request for all positions finds the
    /// chunk.
    pub keys: Option<Arc<[Key]>>,
}

/// Identity that a loaded chunk must have. Any difference is a miss.
#[derive(Clone, Debug)]
pub struct ChunkRequest<'a> {
    /// Id of the chunk.
    pub id: ChunkId,
    /// Hash of the preceding chunk.
    pub parent: ChunkHash,
    /// Position of the first token.
    pub first_position: u64,
    /// Keys of the first positions. A chunk that diverges after these keys is accepted; the reader uses its first
    /// rows.
    pub keys: &'a [Key],
    /// Required arithmetic. `None` accepts any.
    pub class: Option<&'a NumericClass>,
    /// Whether rounded rows are accepted.
    pub allow_lossy: bool,
}

impl ChunkRequest<'_> {
    /// Compares the request with a chunk's head.
    ///
    /// # Errors
    /// [`Miss::Mismatch`] with the first difference.
    pub fn check(&self, head: &ChunkHead) -> Result<(), Miss> {
        let differs = [
            (head.id != self.id, "the chunk has another id"),
            (head.parent != self.parent, "the chunk follows another chunk"),
            (head.first_position != self.first_position, "the chunk has other positions"),
            (!head.keys.starts_with(self.keys), "the chunk has other tokens"),
            (self.class.is_some_and(|class| *class != head.class), "the chunk was computed by another arithmetic"),
            (head.flags.lossy && !self.allow_lossy, "the chunk's rows are rounded"),
        ];
        differs.iter().find(|(differs, _)| *differs).map_or(Ok(()), |(_, what)| Err(Miss::Mismatch(what)))
    }
}

/// Reason why a tier returned no chunk.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Miss {
    /// The tier has no such chunk.
    #[error("the chunk is not stored")]
    Absent,
    /// The stored chunk is intact but does not match the request.
    #[error("{0}")]
    Mismatch(&'static str),
    /// The file belongs to another installation, or a newer version wrote it. It is left untouched.
    #[error("the file belongs to another installation or to a newer version")]
    Foreign,
    /// The stored chunk is damaged and was quarantined.
    #[error("the chunk is damaged: {0}")]
    Damaged(&'static str),
    /// The tier could not be read.
    #[error(transparent)]
    Tier(#[from] TierError),
}

/// Reason why a call to a tier failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TierError {
    /// No space left on the disk, or a quota is exhausted.
    #[error("no space left: {0}")]
    Full(String),
    /// Any other error of the system or the server.
    #[error("{0}")]
    Failed(String),
    /// The tier did not answer in time, or was not queried because it failed recently.
    #[error("{0}")]
    Unavailable(String),
}

/// Control of a running save by its caller.
pub trait SaveControl {
    /// Returns whether the chunk may become visible. A tier calls it once, as late as possible.
    fn may_publish(&self) -> bool;

    /// Called after each short part of the work, with the number of bytes that the part has encoded, checked or written.
    /// It may sleep, so that other threads lose only short moments.
    fn after_part(&self, _bytes: usize) {}
}

/// Control of a save that always publishes.
pub(crate) struct Unconditional;

impl SaveControl for Unconditional {
    fn may_publish(&self) -> bool {
        true
    }
}

/// See the module.
pub trait Tier: Send + Sync {
    /// Returns which tier this is.
    fn kind(&self) -> TierKind;

    /// Passes every stored chunk to `each`, including chunks of other processes.
    ///
    /// # Errors
    /// If the tier cannot be listed. Unreadable chunks are skipped.
    fn scan(&self, each: &mut dyn FnMut(StoredChunk)) -> Result<(), TierError>;

    /// Returns whether a chunk that no scan reported may be stored. Reads only memory, because a computing thread
    /// waits for the answer.
    fn may_contain(&self, _id: &ChunkId) -> bool {
        false
    }

    /// Time of the last response to a read (its first bytes count), by the tiers' clock. `None` for a tier that always
    /// responds quickly.
    fn last_response_at(&self) -> Option<Duration> {
        None
    }

    /// Reads a chunk and verifies every byte.
    ///
    /// # Errors
    /// The reason for the miss.
    fn load(&self, wanted: &ChunkRequest<'_>) -> Result<Chunk, Miss>;

    /// Stores a chunk. An equivalent stored chunk is kept.
    ///
    /// # Errors
    /// If the chunk was not stored. No partial chunk is visible then.
    fn save(&self, chunk: &Chunk) -> Result<StoredChunk, TierError>;

    /// As [`Tier::save`], unless [`SaveControl::may_publish`] returns `false`; then this returns `None` and nothing was
    /// stored.
    ///
    /// # Errors
    /// As [`Tier::save`].
    fn save_if(&self, chunk: &Chunk, control: &dyn SaveControl) -> Result<Option<StoredChunk>, TierError> {
        if control.may_publish() { self.save(chunk).map(Some) } else { Ok(None) }
    }

    /// Deletes a chunk; succeeds if it is not stored. The deletion is durable when this returns.
    ///
    /// # Errors
    /// If the chunk may still be stored.
    fn remove(&self, id: &ChunkId) -> Result<(), TierError>;
}
