//! What a loaded model has already computed, kept so that it need not be computed again.
//!
//! A [`Cache`] hands out pages of its backend's pool to sequences, shares them by reference count, copies one before a
//! shared page would be written, and files every full page in a trie by the tokens it stands for. A new request opens with
//! the longest prefix found there, to the token. All pools of a process draw on one [`Budget`].
//!
//! **Invariant:** a hit may change latency, never the answer. A prefix matches by its tokens, never by a hash, and a page that
//! the trie knows is never written again.

#![forbid(unsafe_code)]

pub mod budget;
pub mod cache;
mod geometry;
mod keeping;
mod pool;
mod recomputed;
mod rotation;
mod trie;

pub use budget::Budget;
pub use cache::{Cache, Error, Lookup, Outcome, Peek, Recall, Recalled, SLICE_BYTES, SeqId, ShiftError, Stats, Whose};
pub use cairn_tier::End;
pub use geometry::groups;
pub use keeping::Keeping;
pub use recomputed::{Because, Recomputed};
pub use rotation::{Fixed, Rotation};
