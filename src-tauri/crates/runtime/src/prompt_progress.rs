//! Progress of a prompt, which the scheduler counts and the client reads at any time.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Handle of the progress. Clones refer to the same prompt.
#[derive(Clone, Debug, Default)]
pub struct PromptProgress(Arc<Counts>);

#[derive(Debug, Default)]
struct Counts {
    ready: AtomicUsize,
    total: AtomicUsize,
}

/// Tokens of a prompt.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PromptTokens {
    /// Tokens that are cached, restored or computed.
    pub ready: usize,
    /// All tokens; 0 before the request is admitted.
    pub total: usize,
}

impl PromptProgress {
    /// The tokens so far.
    pub fn tokens(&self) -> PromptTokens {
        let total = self.0.total.load(Ordering::Acquire);
        PromptTokens { ready: self.0.ready.load(Ordering::Relaxed).min(total), total }
    }

    /// Sets the tokens. `ready` may count tokens of the answer too.
    pub(crate) fn set(&self, ready: usize, total: usize) {
        self.0.ready.store(ready, Ordering::Relaxed);
        self.0.total.store(total, Ordering::Release);
    }
}
