//! Keep-alive time of loaded models.

use std::time::Duration;

/// How long a model stays loaded after its last request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum KeepAlive {
    /// For this time after the end of the last request; zero unloads at once.
    For(Duration),
    /// Without a time limit.
    Forever,
}

impl Default for KeepAlive {
    /// Five minutes, like Ollama.
    fn default() -> Self {
        Self::For(Duration::from_secs(300))
    }
}
