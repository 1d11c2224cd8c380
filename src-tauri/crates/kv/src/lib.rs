//! KV cache of loaded models: pages, the prefix trie, and the way to and from the tiers.
//!
//! A [`Cache`] allocates pages of its backend's pool for sequences, shares them by reference count, and copies a shared page before
//! it is written. It files every full page in a trie by its tokens. A new sequence opens with the longest prefix found there, to
//! the token. Models with recurrent layers continue only where a snapshot of their states was taken. All pools of a process share
//! one [`Budget`].
//!
//! **Invariant:** a hit may change latency, never an answer. A prefix matches by its tokens, never by a hash. A page in the trie is
//! never written again.

#![forbid(unsafe_code)]

pub mod budget;
pub mod cache;
mod flush_schedule;
mod geometry;
mod model_tiers;
mod pool;
mod recomputed;
mod rotation;
mod snapshots;
mod trie;

pub use budget::Budget;
pub use cache::{
    Cache, CacheScope, Error, FLUSH_SLICE_BYTES, PrefixMatch, Restore, RestoreLookup, RestoreOutcome, RestorePoll,
    SeqId, ShiftError, Stats,
};
pub use cairn_tier::{RestoreEnd, Waker};
pub use geometry::groups;
pub use model_tiers::ModelTiers;
pub use recomputed::{RecomputeReason, RecomputedTokens};
pub use rotation::{Rotation, RotationError};
