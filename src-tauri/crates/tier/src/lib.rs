//! Computed KV state, kept so that no prefix is computed twice: not after an unload, a restart or a model swap.
//!
//! The unit is the [`Chunk`]: the rows of 256 tokens in all layers of one model. Its name is a keyed hash over everything that
//! decides those rows, so chunks never change, and every index of them can be thrown away and built again. A [`Tier`] is a place
//! that keeps chunks.
//!
//! **Invariant:** a hit may change latency, never the answer. Any doubt (hash, tokens, checksum, geometry, position,
//! arithmetic) is a miss, and what missed is computed again. Nothing here knows tensors, models, chats or HTTP.
//!
//! The life of a prefix, which one process computes and another finds:
//!
//! ```
//! # use std::{sync::Arc, time::{Duration, Instant}};
//! # use cairn_tier::{*, tiers::Why};
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
//!     let ssd = Ssd::open(Arc::new(cairn_disk::RealDisk), home.path(), keys, SsdOptions::default(), || [0; 24])?;
//!     let ssd = Some(Lower::ssd(&Arc::new(ssd), 20 << 30, 0));
//!     Ok(Tiers::open(Config { ssd, ..Config::new(4 << 30) }, Arc::new(Wall(Instant::now())))?)
//! };
//!
//! // Somebody computed 600 tokens and their conversation is idle: the rows go down in chunks.
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
//!     tiers.store(Offer { chunk, why: StoreWhy::Idle, owner, recompute: Duration::from_secs(2) })?;
//! }
//! tiers.close(Duration::from_secs(2));
//!
//! // After a restart the prefix is found, as far as a request has it in common, and comes back from the disk.
//! let tiers = open()?;
//! assert!(tiers.settle(Duration::from_secs(10)), "the folder has been scanned");
//! let prefix = Prefix { namespace, fingerprint, keys: prompt, class: Some(class), lossy: false, groups: Groups::FULL };
//! let coverage = tiers.find(&prefix);
//! assert_eq!(coverage.tokens(), 600);
//! let mut restoring = tiers.restore(&coverage, 0..600, Duration::from_secs(1));
//! let mut tokens = 0;
//! let end = loop {
//!     match restoring.try_next() {
//!         Next::Ready(restored) => tokens += restored.rows(),
//!         Next::Waiting => std::thread::yield_now(),
//!         Next::Ended(end) => break end,
//!     }
//! };
//! assert_eq!((tokens, end), (600, End::Complete));
//! assert_eq!(tiers.trace(&prefix).why, Why::Whole);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

#![forbid(unsafe_code)]

mod catalog;
pub mod chunk;
mod clock;
pub mod cost;
mod coverage;
pub mod format;
pub mod identity;
mod index;
mod key;
mod owner;
mod policy;
pub mod remote;
mod shelf;
pub mod ssd;
pub mod tier;
pub mod tiers;
mod worth;

pub use chunk::{Chunk, ChunkHead, ChunkId, Flags, Group, NumericClass, RowTypes, SectionKind, SectionShape};
pub use clock::Clock;
pub use cost::{Candidate, Choice, Costs, Rates};
pub use coverage::{Coverage, Groups, Held, Prefix, Step};
pub use format::{Check, FileKeys, Packing};
pub use identity::{Chain, ChunkHash, Fingerprint, Namespace, WeightsDigest};
pub use key::Key;
pub use owner::Owner;
pub use policy::Aged;
pub use remote::{Bucket, Files, Folder, Remote, RemoteOptions};
pub use ssd::{Ssd, SsdOptions};
pub use tier::{Miss, Place, Stored, Tier, TierError, Wanted};
pub use tiers::{
    Answering, Config, End, Floor, Kept, Lower, Next, Offer, Refused, Restored, Restoring, StoreWhy, Tiers, Trace,
};
pub use worth::{Facts, LeastRecent, Worth};
