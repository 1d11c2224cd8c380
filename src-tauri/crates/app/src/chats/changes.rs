//! Notifies clients of chats that changed.

use tokio::sync::broadcast;

use super::summary::Summary;

/// A change of a chat.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Changed {
    /// It is new, or looks different in a list.
    Chat(Box<Summary>),
    /// It is in the trash, or gone.
    Removed(String),
    /// The count of other changes, which are not sent one by one.
    Several(u64),
}

/// Receives every change from the moment of the subscription.
pub struct Changes(pub(super) broadcast::Receiver<Changed>);

impl Changes {
    /// The next change; none when the daemon ends.
    pub async fn next(&mut self) -> Option<Changed> {
        match self.0.recv().await {
            Ok(changed) => Some(changed),
            Err(broadcast::error::RecvError::Lagged(missed)) => Some(Changed::Several(missed)),
            Err(broadcast::error::RecvError::Closed) => None,
        }
    }
}
