//! Cache of computed KV state. No prefix is computed twice, even across model unloads, restarts and model swaps.
//!
//! The unit is the [`Chunk`]: the rows of 256 tokens in all layers of one model. Its id is a keyed hash of everything
//! that determines those rows. Chunks are therefore immutable, and every index can be rebuilt. A [`Tier`] stores
//! chunks.
//!
//! **Invariant:** a hit may change latency, never the answer. Any mismatch (hash, tokens, checksum, geometry,
//! position, arithmetic) is a miss, and the rows are recomputed. This crate does not depend on tensors, models, chats
//! or HTTP.
//!
//! Example: one process computes a prefix and stores it; another process restores it.
//!
//! ```
//! # use std::{sync::Arc, time::{Duration, Instant}};
//! # use cairn_tier::{*, tiers::MissReason};
//! # struct Wall(Instant);
//! # impl Clock for Wall {
//! #     fn now(&self) -> Duration { self.0.elapsed() }
//! #     fn unix_s(&self) -> u64 { 1_800_000_000 }
//! # }
//! # let home = tempfile::tempdir()?;
//! # let namespace = Namespace::new(b"a secret of this installation...", "me");
//! # let fingerprint = Fingerprint::new(WeightsDigest([1; 32]), [("arch", b"llama".as_slice())]);
//! # let class = NumericClass::new("cpu/avx2/1").expect("a short name");
//! # let prompt: Arc<[Key]> = (0..600).map(Key::token).collect();
//! # let rows = RowTypes { keys: cairn_gguf::DType::F16, values: cairn_gguf::DType::F16 };
//! let open = || -> Result<Tiers, Box<dyn std::error::Error>> {
//!     let keys = FileKeys::new(&namespace);
//!     let ssd = SsdTier::open(Arc::new(cairn_disk::RealDisk), home.path(), keys, SsdOptions::default(), || [0; 24])?;
//!     let ssd = Some(LowerTier::ssd(&Arc::new(ssd), 20 << 30, 0));
//!     Ok(Tiers::open(Config { ssd, ..Config::new(4 << 30) }, Arc::new(Wall(Instant::now())))?)
//! };
//!
//! // A conversation of 600 tokens is idle: its rows are written in chunks.
//! let tiers = open()?;
//! let mut chain = Chain::new(&namespace, &fingerprint);
//! for (index, keys) in prompt.chunks(identity::CHUNK_TOKENS).enumerate() {
//!     let parent = chain.last();
//!     let head = ChunkHead {
//!         id: ChunkId { fingerprint, hash: chain.push(keys), group: Group::Full },
//!         parent,
//!         first_position: (index * identity::CHUNK_TOKENS) as u64,
//!         keys: keys.into(),
//!         class: class.clone(),
//!         rows,
//!         flags: Flags { tail: keys.len() < identity::CHUNK_TOKENS, ..Flags::default() },
//!         created_unix_s: 1_800_000_000,
//!         sections: Arc::new([SectionShape { layer: 0, kind: SectionKind::Keys, bytes: 4096 }]),
//!     };
//!     let chunk = Chunk { head: Arc::new(head), payload: Arc::new(vec![7; 4096]) };
//!     let owner = Owner::new("chat-12");
//!     tiers.store(StoreRequest { chunk, reason: StoreReason::Idle, owner, recompute: Duration::from_secs(2) })?;
//! }
//! tiers.close(Duration::from_secs(2));
//!
//! // After a restart the prefix is found and restored from disk.
//! let tiers = open()?;
//! assert!(tiers.wait_idle(Duration::from_secs(10)), "the folder is scanned");
//! let prefix = Prefix { namespace, fingerprint, keys: prompt, class: Some(class), allow_lossy: false, groups: Groups::FULL };
//! let coverage = tiers.lookup(&prefix);
//! assert_eq!(coverage.tokens(), 600);
//! let mut restoring = tiers.restore(&coverage, 0..600, Duration::from_secs(1));
//! let mut tokens = 0;
//! let end = loop {
//!     match restoring.try_next() {
//!         RestorePoll::Ready(restored) => tokens += restored.rows(),
//!         RestorePoll::Pending => std::thread::yield_now(),
//!         RestorePoll::Ended(end) => break end,
//!     }
//! };
//! assert_eq!((tokens, end), (600, RestoreEnd::Complete));
//! assert_eq!(tiers.trace(&prefix).reason, MissReason::FullHit);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

#![forbid(unsafe_code)]

mod catalog;
pub mod chunk;
mod clock;
pub mod cost;
mod coverage;
mod eviction_set;
pub mod format;
pub mod identity;
mod index;
mod key;
mod owner;
mod policy;
pub mod remote;
pub mod ssd;
pub mod tier;
pub mod tiers;
mod weighted_lru;

pub use chunk::{Chunk, ChunkHead, ChunkId, Flags, Group, NumericClass, RowTypes, SectionKind, SectionShape};
pub use clock::Clock;
pub use cost::{Candidate, CostModel, ReadRates, RestorePlan};
pub use coverage::{Coverage, Groups, Prefix, ResidentRows, RestoreStep};
pub use format::{Checksum, FileKeys, Packing};
pub use identity::{Chain, ChunkHash, Fingerprint, Namespace, WeightsDigest};
pub use key::Key;
pub use owner::Owner;
pub use policy::{ChunkStats, EvictionPolicy, LONG_RECOMPUTE, LeastRecentlyUsed};
pub use remote::{Bucket, FileStore, RemoteOptions, RemoteTier, SharedFolder};
pub use ssd::{SsdOptions, SsdTier};
pub use tier::{ChunkRequest, Miss, SaveControl, StoredChunk, Tier, TierError, TierKind};
pub use tiers::{
    Config, GenerationGuard, LookupTrace, LowerTier, MinFreeSpace, Restore, RestoreEnd, RestorePoll, RestoredChunk,
    StoreError, StoreOutcome, StoreReason, StoreRequest, Tiers, Waker,
};
pub use weighted_lru::WeightedLru;
