//! Ids of messages.

use std::fmt;
use std::str::FromStr;

use crate::ChatsError;

/// Id of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct MessageId(pub(crate) i64);

impl fmt::Display for MessageId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl FromStr for MessageId {
    type Err = ChatsError;

    fn from_str(text: &str) -> Result<Self, ChatsError> {
        text.parse().map(Self).map_err(|_| ChatsError::MessageNotFound(text.to_owned()))
    }
}
