//! How long a model stays loaded after its last request.

use std::time::Duration;

/// A time after the last request, or for ever.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum KeepAlive {
    /// Unloaded this long after the last request has ended; zero unloads at once.
    For(Duration),
    /// Never unloaded by time.
    Forever,
}

impl Default for KeepAlive {
    /// Five minutes, as users of Ollama expect.
    fn default() -> Self {
        Self::For(Duration::from_secs(300))
    }
}
