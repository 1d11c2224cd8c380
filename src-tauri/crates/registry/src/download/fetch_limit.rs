//! Limit of a download: the length of the beginning of the blob that its subscribers need so far.
//!
//! A caller that decides by the first bytes whether it needs the rest requests only those bytes, and raises the limit
//! afterwards. The limit never falls, because another subscriber may wait for the bytes.

use tokio::sync::watch;

/// Number of leading bytes to download.
#[derive(Debug)]
pub(crate) struct FetchLimit(watch::Sender<u64>);

impl FetchLimit {
    /// Creates a limit; `None` for the whole blob.
    pub(crate) fn new(bytes: Option<u64>) -> Self {
        Self(watch::Sender::new(bytes.unwrap_or(u64::MAX)))
    }

    pub(crate) fn bytes(&self) -> u64 {
        *self.0.borrow()
    }

    /// Raises the limit to `bytes`, unless it is higher.
    pub(crate) fn raise(&self, bytes: u64) {
        self.0.send_if_modified(|limit| {
            let is_higher = bytes > *limit;
            *limit = bytes.max(*limit);
            is_higher
        });
    }

    /// A receiver that sees each change of the limit.
    pub(super) fn changes(&self) -> watch::Receiver<u64> {
        self.0.subscribe()
    }
}
