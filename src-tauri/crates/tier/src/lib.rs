//! Computed KV state, kept so that no prefix is computed twice: not after an unload, a restart or a model swap.
//!
//! The unit is the [`Chunk`]: the rows of 256 tokens in all layers of one model. Its name is a keyed hash over everything that
//! decides those rows, so chunks never change, and every index of them can be thrown away and built again. A [`Tier`] is a place
//! that keeps chunks.
//!
//! **Invariant:** a hit may change latency, never the answer. Any doubt (hash, tokens, checksum, geometry, position,
//! arithmetic) is a miss, and what missed is computed again. Nothing here knows tensors, models, chats or HTTP.

#![forbid(unsafe_code)]

mod catalog;
pub mod chunk;
mod clock;
mod coverage;
pub mod format;
pub mod identity;
mod key;
mod owner;
mod shelf;
pub mod ssd;
pub mod tier;
pub mod tiers;
mod worth;

pub use chunk::{Chunk, ChunkHead, ChunkId, Flags, Group, NumericClass, RowTypes, SectionKind, SectionShape};
pub use clock::Clock;
pub use coverage::{Coverage, Groups, Prefix, Step};
pub use format::{Check, FileKeys, Packing};
pub use identity::{Chain, ChunkHash, Fingerprint, Namespace, WeightsDigest};
pub use key::Key;
pub use owner::Owner;
pub use ssd::{Ssd, SsdOptions};
pub use tier::{Miss, Place, Stored, Tier, TierError, Wanted};
pub use tiers::{Config, End, Floor, Kept, Lower, Next, Offer, Refused, Restored, Restoring, StoreWhy, Tiers};
pub use worth::{Facts, LeastRecent, Worth};
