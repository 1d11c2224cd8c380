//! A chunk: the computed rows of up to 256 tokens, in the layers of one group.
//!
//! The payload is the concatenation of the sections in [`ChunkHead::sections`]: for each layer its keys, then its
//! values. A section consists of whole KV pages of 64 slots: `[page][kv_head][slot][head_dim]`. Slots after the last
//! token are zero, so that no rows of another sequence are stored. In the group of window layers, behind them is a section for
//! the state of each recurrent layer after the chunk's last token, in `f32`.

use std::sync::Arc;

use cairn_gguf::DType;

use crate::identity::{CHUNK_TOKENS, ChunkHash, Fingerprint};
use crate::key::Key;

/// Layers whose rows a chunk contains.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Group {
    /// Layers that attend to all positions. A prefix needs every one of its chunks.
    Full,
    /// Layers that attend to a window, and states of recurrent layers. A prefix needs only its last chunks.
    Window,
}

/// Id of a chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ChunkId {
    /// Model and configuration.
    pub fingerprint: Fingerprint,
    /// Tokens, including all preceding ones.
    pub hash: ChunkHash,
    /// Layers.
    pub group: Group,
}

impl ChunkId {
    /// Returns the id of the chunk that has the rows of the same tokens in another layer group.
    pub(crate) fn in_group(self, group: Group) -> Self {
        Self { group, ..self }
    }
}

/// Arithmetic that computed rows: backend, kernel variant and revision, such as "cpu/avx512-vnni/3".
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct NumericClass(Arc<str>);

impl NumericClass {
    /// Maximum length of a name.
    pub const MAX_BYTES: usize = 64;

    /// Returns the class with this name, or `None` if the name is empty or too long.
    pub fn new(name: &str) -> Option<Self> {
        (1..=Self::MAX_BYTES).contains(&name.len()).then(|| Self(Arc::from(name)))
    }

    /// Returns the name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Element types of rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RowTypes {
    /// Type of keys.
    pub keys: DType,
    /// Type of values.
    pub values: DType,
}

impl RowTypes {
    /// Returns the type of a section's rows.
    pub const fn of(self, kind: SectionKind) -> DType {
        match kind {
            SectionKind::Keys => self.keys,
            SectionKind::Values => self.values,
            SectionKind::State => DType::F32,
        }
    }
}

/// Other properties of a chunk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Flags {
    /// Fewer than 256 tokens: the end of a sequence.
    pub tail: bool,
    /// The rows were rounded after computation. Only requests that accept this may use them.
    pub lossy: bool,
    /// The rows were moved to other positions. Only their own sequence may use them.
    pub shifted: bool,
}

/// Content of a section.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum SectionKind {
    /// Keys of a layer.
    Keys,
    /// Values of a layer.
    Values,
    /// State of a recurrent layer.
    State,
}

/// One section of a payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SectionShape {
    /// Layer index, counted over all layers with keys and values, or over all recurrent ones.
    pub layer: u16,
    /// Keys, values or a state.
    pub kind: SectionKind,
    /// Size in the payload.
    pub bytes: u32,
}

/// Metadata of a chunk: everything except its rows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChunkHead {
    /// Id of the chunk.
    pub id: ChunkId,
    /// Hash of the preceding chunk, or of the empty prefix.
    pub parent: ChunkHash,
    /// Position of the first token: a multiple of 256.
    pub first_position: u64,
    /// Keys of the chunk's positions: 1 to 256.
    pub keys: Arc<[Key]>,
    /// Arithmetic that computed the rows.
    pub class: NumericClass,
    /// Element types of the rows.
    pub rows: RowTypes,
    /// Other properties.
    pub flags: Flags,
    /// Creation time, in seconds since 1970. Used only for expiry.
    pub created_unix_s: u64,
    /// Sections, in payload order.
    pub sections: Arc<[SectionShape]>,
}

impl ChunkHead {
    /// Returns the size of the payload.
    pub fn payload_bytes(&self) -> u64 {
        self.sections.iter().map(|section| u64::from(section.bytes)).sum()
    }

    /// Returns whether the chunk has 256 tokens, so that others can follow it.
    pub fn is_whole(&self) -> bool {
        self.keys.len() == CHUNK_TOKENS
    }
}

/// A chunk with its rows. Clones share them.
#[derive(Clone, Debug)]
pub struct Chunk {
    /// Metadata.
    pub head: Arc<ChunkHead>,
    /// Rows: [`ChunkHead::payload_bytes`] bytes. A `Vec`, because converting it to `Arc<[u8]>` would copy it.
    pub payload: Arc<Vec<u8>>,
}
