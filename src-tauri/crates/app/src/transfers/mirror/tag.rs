//! Cached state of a tag.

use std::sync::Arc;

use tokio::time::Instant;

use crate::transfers::share::SharedManifest;

/// A tag. The lock is held while its origin resolves it.
pub(super) type Tag = Arc<tokio::sync::Mutex<TagState>>;

/// The last result from the origin.
#[derive(Debug, Default)]
pub(super) struct TagState {
    /// The manifest from the origin; `None` if only a library has one.
    pub(super) manifest: Option<SharedManifest>,
    /// When the origin was last asked, with or without success.
    pub(super) resolved_at: Option<Instant>,
    /// Why the origin could not be reached then.
    pub(super) problem: Option<String>,
}
