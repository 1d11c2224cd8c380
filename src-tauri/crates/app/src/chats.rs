//! Chats: conversations that the daemon stores. Answers are computed whether or not a client follows them.
//!
//! `cairn-chats` stores chats; this module connects them to models and tools. `sources` searches documents for a question,
//! `answering` stores a message, `computing` computes its answer and stores the progress, `calling` runs tools that the model calls,
//! `follow` streams an answer to a client, and `list` reports where the cached context of a chat is.
//! `state` requests the erasure of deleted chats from all files and backups, in the background.
//! Cached rows of a chat have the owner `chat:<id>`, so that they can be prefetched and deleted with the chat.
//!
//! **Invariants:** a chat has at most one answer in progress. What a client has received is on disk within a second,
//! and completely when the client receives the end. A temporary chat is never written to a disk, nor are its cached
//! rows.

mod answering;
mod ask;
mod branch;
mod calling;
mod computing;
mod edit;
mod error;
mod events;
mod exchange;
mod fence;
mod follow;
mod handle;
mod ids;
mod list;
mod live;
mod markdown;
mod offer;
mod presets;
mod reading;
mod sources;
mod state;
mod title;
mod trash;

pub use cairn_chats::{CallDecision, ChatFilter, ChatsError};
pub use edit::PathPart;
pub use error::{DescribeError, Error};
pub use events::ChatEvents;
pub use exchange::ImportFrom;
pub use follow::Follower;
pub use handle::ChatSessions;
