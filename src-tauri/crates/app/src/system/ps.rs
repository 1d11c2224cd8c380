//! Loaded models.

use std::time::{Duration, SystemTime};

use super::handle::SystemInfo;
use crate::library::Summary;

/// A loaded model.
#[derive(Debug, Clone, PartialEq)]
pub struct Running {
    /// Summary of the model.
    pub summary: Summary,
    /// Bytes of the weights in memory.
    pub size_bytes: u64,
    /// Bytes of the weights on a GPU.
    pub gpu_bytes: u64,
    /// When the model unloads without further requests; `None` for never.
    pub expires_at: Option<SystemTime>,
    /// Context size in tokens.
    pub context_tokens: u64,
}

impl SystemInfo {
    /// Returns the loaded models; the one that unloads last comes first.
    #[must_use]
    pub fn running(&self) -> Vec<Running> {
        let now = self.clock.now();
        let mut running: Vec<Running> = self
            .engine
            .loaded()
            .into_iter()
            // Every loaded model was requested by name, so its key has a name.
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
