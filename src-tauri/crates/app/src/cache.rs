//! The KV cache: status of the tiers, cached contexts, pins, deletions and limits.
//!
//! [`KvCache`] is the handle. Deletions also clear pages of loaded models: a model must not flush deleted rows again.

mod contexts;
mod error;
mod fsck;
mod handle;
mod hours;
mod limits;
mod metadata;
mod tiers;
mod trial;

pub use contexts::{CacheStatus, CachedContext};
pub use error::Error;
pub use fsck::{Checkup, check_folder};
pub use handle::KvCache;
pub use hours::{HourCounts, PromptCounts};
pub use limits::{CacheLimits, EffectiveLimit, LimitChange};
pub use tiers::KeyLocation;
pub use trial::{CacheTest, TestedPlace};

pub use cairn_runtime::{RecomputeReason, RecomputedTokens};
pub use cairn_tier::tiers::{Deletion, Health, PinError, TierCounters, TierStatus};
pub use cairn_tier::{Owner, TierKind};
pub(crate) use metadata::CacheMetadata;
pub(crate) use tiers::open as open_tiers;
