//! Notifies clients of chats that changed.

use tokio::sync::broadcast;

use super::summary::Summary;

/// A change of a chat.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Changed {
    /// A new chat, or a chat whose list row changed.
    Chat(Box<Summary>),
    /// A chat was moved to the trash or deleted.
    Removed(String),
    /// Number of other changes, which are not sent one by one.
    Several(u64),
}

/// Receives all changes after the subscription.
pub struct Changes(pub(super) broadcast::Receiver<Changed>);

impl Changes {
    /// Returns the next change; `None` when the daemon shuts down.
    pub async fn next(&mut self) -> Option<Changed> {
        match self.0.recv().await {
            Ok(changed) => Some(changed),
            Err(broadcast::error::RecvError::Lagged(missed)) => Some(Changed::Several(missed)),
            Err(broadcast::error::RecvError::Closed) => None,
        }
    }
}
