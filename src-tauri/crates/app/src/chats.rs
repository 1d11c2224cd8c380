//! Chats: conversations that the daemon keeps, with answers that it computes whether or not anybody watches.
//!
//! `cairn-chats` keeps them; here they meet the models. `answering` runs an answer to its end and writes it down as it comes,
//! `follow` tells a client of it from wherever it is, `summary` says how soon a chat could go on, and the rest is what one does
//! with chats. What is computed for a chat belongs to the owner `chat:` and its id, so that opening it can bring that near and
//! deleting it can delete that.
//!
//! **Invariants:** in a chat one answer is computed at a time. What a client was told is on the disk within a second, and all of it
//! when the client is told of the end. A temporary chat is never on a disk, nor is anything that was computed for it.

mod answering;
mod ask;
mod changes;
mod edit;
mod error;
mod exchange;
mod follow;
mod handle;
mod ids;
mod list;
mod live;
mod markdown;
mod presets;
mod state;
mod stats;
mod summary;
mod title;
mod trash;

pub use answering::Again;
pub use ask::Ask;
pub use cairn_chats::{
    Attachment, ChatFilter, ChatUpdate, ChatsError, ImportReport, ImportedChat, ImportedMessage, Message, MessageBody,
    MessageState, Preset, SearchHit, Snippet, TitleSource,
};
pub use cairn_chats::{Chat as KeptChat, MessageId as ChatMessageId, NewChat as ChatToMake};
pub use changes::{Changed, Changes};
pub use edit::PathPart;
pub use error::Error;
pub use exchange::{Exported, ImportFrom};
pub use follow::{Follower, Line};
pub use handle::ChatSessions;
pub use list::Lists;
pub use stats::{KeptTruncated, Stats};
pub use summary::{Summary, Warmth};
