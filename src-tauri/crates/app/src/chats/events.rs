//! Notifies clients of chats that changed.

use cairn_chats::ChatEvent;
use tokio::sync::broadcast;

/// Receives all changes after the subscription.
pub struct ChatEvents(pub(super) broadcast::Receiver<ChatEvent>);

impl ChatEvents {
    /// Returns the next change; `None` when the daemon shuts down.
    pub async fn next(&mut self) -> Option<ChatEvent> {
        match self.0.recv().await {
            Ok(event) => Some(event),
            Err(broadcast::error::RecvError::Lagged(missed)) => Some(ChatEvent::Missed(missed)),
            Err(broadcast::error::RecvError::Closed) => None,
        }
    }
}
