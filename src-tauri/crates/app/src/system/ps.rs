//! Which models are in memory.

use std::time::{Duration, SystemTime};

use super::handle::SystemInfo;
use crate::library::Summary;

/// A model in memory.
#[derive(Debug, Clone, PartialEq)]
pub struct Running {
    /// What it is.
    pub summary: Summary,
    /// Bytes of its weights in memory.
    pub size_bytes: u64,
    /// Those of them on a GPU.
    pub gpu_bytes: u64,
    /// When it leaves memory, unless a request comes; `None` for never.
    pub expires_at: Option<SystemTime>,
    /// Tokens of context that it was loaded with.
    pub context_tokens: u64,
}

impl SystemInfo {
    /// Models in memory, the one that leaves last first.
    #[must_use]
    pub fn running(&self) -> Vec<Running> {
        let now = self.clock.now();
        let mut running: Vec<Running> = self
            .engine
            .loaded()
            .into_iter()
            // A model that nobody asked for by a name cannot be in memory: names lead to keys.
            .filter_map(|loaded| {
                Some(Running {
                    summary: self.library.by_engine_key(&loaded.id)?,
                    size_bytes: loaded.weights_bytes,
                    gpu_bytes: 0,
                    expires_at: loaded.expires_in.and_then(|left| now.checked_add(left)),
                    context_tokens: u64::from(loaded.context_tokens),
                })
            })
            .collect();
        let far = now + Duration::from_secs(u64::from(u32::MAX));
        running.sort_by_key(|model| std::cmp::Reverse(model.expires_at.unwrap_or(far)));
        running
    }
}
