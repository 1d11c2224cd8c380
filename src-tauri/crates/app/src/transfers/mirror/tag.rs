//! What a mirror knows of one tag.

use std::sync::Arc;

use tokio::time::Instant;

use crate::transfers::share::SharedManifest;

/// A tag, locked by whoever asks its origin.
pub(super) type Tag = Arc<tokio::sync::Mutex<Known>>;

/// What its origin said.
#[derive(Debug, Default)]
pub(super) struct Known {
    /// The manifest that it means, from its origin; none where only a library has one.
    pub(super) manifest: Option<SharedManifest>,
    /// When the origin was asked last, successfully or not.
    pub(super) asked_at: Option<Instant>,
    /// Why it could not be asked then.
    pub(super) trouble: Option<String>,
}
