//! Summary of a chat, for lists.

use cairn_chats::ChatRow;

/// How soon a chat could go on: where what was computed of it is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Warmth {
    /// Nowhere.
    #[default]
    Cold,
    /// On this machine's disk, or elsewhere.
    Disk,
    /// In RAM.
    Warm,
    /// In the pages of a model in memory.
    Hot,
}

/// What lists say of a chat.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Summary {
    /// What is kept of it.
    pub row: ChatRow,
    /// How soon it could go on.
    pub warmth: Warmth,
    /// Whether an answer is being computed.
    pub answering: bool,
    /// Whether it is only in memory.
    pub temporary: bool,
}
