//! The cache of computed prefixes, for people: what the tiers hold, what is pinned or deleted, and how much they may take.
//!
//! [`KvCache`] is the handle. Pages of loaded models are part of it where something is deleted: a model must not flush again
//! what a user asked to be forgotten.

mod book;
mod contexts;
mod error;
mod fsck;
mod handle;
mod limits;
mod tiers;
mod trial;

pub use contexts::{CacheStatus, KeptContext};
pub use error::{Error, LimitError};
pub use fsck::{Checkup, check_folder};
pub use handle::KvCache;
pub use limits::{CacheLimits, LimitChange, Limited};
pub use tiers::KeyPlace;
pub use trial::{CacheTest, TestedPlace};

pub(crate) use book::Book;
pub use cairn_tier::tiers::{Deletion, Health, PinError, TierCounters, TierStatus};
pub use cairn_tier::{Owner, TierKind};
pub(crate) use tiers::open as open_tiers;
