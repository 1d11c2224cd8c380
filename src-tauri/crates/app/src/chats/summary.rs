//! Summary of a chat, for lists.

use cairn_chats::ChatRow;

/// Nearest place of a chat's cached rows.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Warmth {
    /// Not cached.
    #[default]
    Cold,
    /// In the SSD tier or the remote tier.
    Disk,
    /// In the RAM tier.
    Warm,
    /// In pages of a loaded model.
    Hot,
}

/// List row of a chat.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Summary {
    /// The stored row.
    pub row: ChatRow,
    /// Nearest place of its cached rows.
    pub warmth: Warmth,
    /// Whether an answer is in progress.
    pub answering: bool,
    /// Whether the chat is temporary.
    pub temporary: bool,
}
