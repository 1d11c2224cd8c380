//! Counters of the mirror.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use cairn_registry::{DownloadEvent, DownloadEventKind};
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::RecvError;

use super::Inner;

/// Counters of the mirror since the daemon started.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct MirrorCounts {
    /// Blob requests that a library answered.
    pub hits: u64,
    /// Blob requests that a download answered.
    pub misses: u64,
    /// Manifest requests that were answered without the unreachable origin.
    pub stale: u64,
    /// Bytes of blobs that were downloaded for clients.
    pub fetched_bytes: u64,
}

/// Atomic counters behind [`MirrorCounts`].
#[derive(Default)]
pub(super) struct Counts {
    hits: AtomicU64,
    misses: AtomicU64,
    stale: AtomicU64,
    fetched_bytes: AtomicU64,
}

impl Counts {
    pub(super) fn hit(&self) {
        self.hits.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn miss(&self) {
        self.misses.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn stale(&self) {
        self.stale.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn read(&self) -> MirrorCounts {
        MirrorCounts {
            hits: self.hits.load(Ordering::Relaxed),
            misses: self.misses.load(Ordering::Relaxed),
            stale: self.stale.load(Ordering::Relaxed),
            fetched_bytes: self.fetched_bytes.load(Ordering::Relaxed),
        }
    }
}

impl Inner {
    /// Counts the bytes that are downloaded for clients, until the downloads are closed.
    pub(super) async fn count(self: Arc<Self>, mut events: Receiver<DownloadEvent>) {
        loop {
            match events.recv().await {
                Ok(DownloadEvent { kind: DownloadEventKind::Ready(ready), digest, .. }) => {
                    if !ready.present && self.named(&digest).is_some_and(|named| named.is_requested) {
                        self.counts.fetched_bytes.fetch_add(ready.size_bytes, Ordering::Relaxed);
                    }
                }
                Ok(_) | Err(RecvError::Lagged(_)) => {}
                Err(RecvError::Closed) => return,
            }
        }
    }
}
