//! A chunk: the rows of up to 256 tokens, in the layers of one group, as they were computed.
//!
//! The payload holds sections one after the other, in the order of [`ChunkHead::sections`]: for each layer its keys, then its
//! values. A section is whole KV pages of 64 slots: `[page][kv_head][slot][head_dim]`; slots after the last token are zero, so that
//! nothing of another sequence is kept.

use std::sync::Arc;

use cairn_gguf::DType;

use crate::identity::{CHUNK_TOKENS, ChunkHash, Fingerprint};
use crate::key::Key;

/// Which layers a chunk holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Group {
    /// Layers that attend to all positions: a prefix needs every chunk of it.
    Full,
    /// Layers that attend to a window: a prefix needs only the last few chunks.
    Window,
}

/// A chunk's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ChunkId {
    /// Whose rows.
    pub fingerprint: Fingerprint,
    /// Of which tokens.
    pub hash: ChunkHash,
    /// In which layers.
    pub group: Group,
}

impl ChunkId {
    /// The name of the same tokens' chunk in other layers.
    pub(crate) fn in_group(self, group: Group) -> Self {
        Self { group, ..self }
    }
}

/// The arithmetic that computed rows: backend, kernel variant and revision, such as "cpu/avx512-vnni/3".
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct NumericClass(Arc<str>);

impl NumericClass {
    /// Bytes that a name may have.
    pub const MAX_BYTES: usize = 64;

    /// A class of this name; none where the name is empty or too long to store.
    pub fn new(name: &str) -> Option<Self> {
        (1..=Self::MAX_BYTES).contains(&name.len()).then(|| Self(Arc::from(name)))
    }

    /// Its name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// How rows are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RowTypes {
    /// Keys.
    pub keys: DType,
    /// Values.
    pub values: DType,
}

impl RowTypes {
    /// The type of a section's rows.
    pub const fn of(self, kind: SectionKind) -> DType {
        match kind {
            SectionKind::Keys => self.keys,
            SectionKind::Values => self.values,
        }
    }
}

/// What else is to be known of a chunk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Flags {
    /// Fewer than 256 tokens, the end of a sequence.
    pub tail: bool,
    /// Rows were rounded after they had been computed, so they serve only those who allow that.
    pub lossy: bool,
    /// Rows were moved to other positions: they are of use in their own conversation only.
    pub shifted: bool,
}

/// What a section holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum SectionKind {
    /// A layer's keys.
    Keys,
    /// A layer's values.
    Values,
}

/// One section of a payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SectionShape {
    /// The layer, counted over all layers of the model.
    pub layer: u16,
    /// Keys or values.
    pub kind: SectionKind,
    /// Bytes in the payload.
    pub bytes: u32,
}

/// All that is known of a chunk without its rows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChunkHead {
    /// Its name.
    pub id: ChunkId,
    /// The name of the chunk before it, or of the empty prefix.
    pub parent: ChunkHash,
    /// Position of its first token: a multiple of 256.
    pub first_position: u64,
    /// What stands at its positions: 1 to 256 keys.
    pub keys: Arc<[Key]>,
    /// What computed it.
    pub class: NumericClass,
    /// How its rows are written.
    pub rows: RowTypes,
    /// What else is to be known.
    pub flags: Flags,
    /// When it was computed, in seconds since 1970. For expiry only.
    pub created_unix_s: u64,
    /// Its sections, in the payload's order.
    pub sections: Arc<[SectionShape]>,
}

impl ChunkHead {
    /// Bytes of the payload.
    pub fn payload_bytes(&self) -> u64 {
        self.sections.iter().map(|section| u64::from(section.bytes)).sum()
    }

    /// Whether it has 256 tokens, so that others may follow it.
    pub fn is_whole(&self) -> bool {
        self.keys.len() == CHUNK_TOKENS
    }
}

/// A chunk with its rows. Cloning shares them.
#[derive(Clone, Debug)]
pub struct Chunk {
    /// What it is.
    pub head: Arc<ChunkHead>,
    /// Its rows: [`ChunkHead::payload_bytes`] bytes. A vector, since a long slice would have to be copied to be shared.
    pub payload: Arc<Vec<u8>>,
}
