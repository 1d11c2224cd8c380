//! Computed KV state, kept so that no prefix is computed twice: not after an unload, a restart or a model swap.
//!
//! The unit is the [`Chunk`]: the rows of 256 tokens in all layers of one model. Its name is a keyed hash over everything that
//! decides those rows, so chunks never change, and every index of them can be thrown away and built again. A [`Tier`] is a place
//! that keeps chunks.
//!
//! **Invariant:** a hit may change latency, never the answer. Any doubt (hash, tokens, checksum, geometry, position,
//! arithmetic) is a miss, and what missed is computed again. Nothing here knows tensors, models, chats or HTTP.

#![forbid(unsafe_code)]

pub mod chunk;
pub mod identity;
mod key;
pub mod tier;

pub use chunk::{Chunk, ChunkHead, ChunkId, Flags, Group, NumericClass, RowTypes, SectionKind, SectionShape};
pub use identity::{Chain, ChunkHash, Fingerprint, Namespace, WeightsDigest};
pub use key::Key;
pub use tier::{Miss, Place, Stored, Tier, TierError, Wanted};
