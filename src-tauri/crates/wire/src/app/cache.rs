//! `/app/cache`: the tiers that keep computed prefixes.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::Timestamp;
use crate::ollama::Message;

/// A tier.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum TierName {
    /// This machine's memory.
    Ram,
    /// A folder on this machine's disk.
    Ssd,
    /// A folder or a bucket elsewhere.
    Remote,
}

/// `GET /app/cache`, and each line of `GET /app/cache/events`, which has one whenever something changed.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct CacheResponse {
    /// Those that there are, nearest first; none where nothing is kept.
    pub tiers: Vec<CacheTier>,
    /// Path of the folder on this machine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub folder: Option<String>,
    /// The place elsewhere: a path or an address.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remote: Option<String>,
    /// Where the key is that encrypts files, in words; none where none are encrypted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// Tokens of prompts that were asked since the daemon started.
    #[serde(default)]
    pub prompt_tokens: u64,
    /// Of these, tokens that need not be computed, because a page in memory or a tier had them.
    #[serde(default)]
    pub cached_tokens: u64,
    /// What computing the restored ones would have taken beyond restoring them, since the day (UTC) or the daemon began.
    #[serde(default)]
    pub saved_today_ms: u64,
    /// Restores that ended early, because a chunk was damaged, not there or late.
    #[serde(default)]
    pub cut_short: u64,
    /// Chunks that were to be written down and were not, since a queue or a place was full, or too much was written that day.
    #[serde(default)]
    pub dropped: u64,
}

/// A tier now, and what it has done since the daemon started.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CacheTier {
    /// Which.
    pub tier: TierName,
    /// `up`, `scanning`, `read_only`, `suspect` or `away`.
    pub health: String,
    /// Why it is not `up`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Bytes that it may hold.
    pub budget_bytes: u64,
    /// Bytes that it holds, as they lie there.
    pub used_bytes: u64,
    /// Chunks in it.
    pub chunks: u64,
    /// Bytes that wait to be written to it.
    pub queued_bytes: u64,
    /// Bytes that were put there.
    pub stored_bytes: u64,
    /// Bytes that came from there.
    pub restored_bytes: u64,
    /// Tokens that need not be computed, because it had them.
    pub hit_tokens: u64,
    /// Bytes that had to go to make room.
    pub evicted_bytes: u64,
    /// Bytes written to it today (UTC).
    pub written_today_bytes: u64,
    /// Bytes that reads give in a second, lately.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub read_bytes_per_second: Option<f64>,
    /// Chunks that were damaged.
    pub damaged: u64,
}

/// `GET /app/cache/contexts`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CacheContexts {
    /// The last used first.
    pub contexts: Vec<CacheContext>,
}

/// A kept conversation, or another prompt.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CacheContext {
    /// Names it, for as long as it is kept.
    pub id: String,
    /// Whose it is, by the names that clients gave in `X-Cairn-Owner`.
    pub owners: Vec<String>,
    /// The model, where its name is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Tokens from its beginning.
    pub tokens: u64,
    /// Bytes of its rows; others may share some of them.
    pub bytes: u64,
    /// Of these, bytes in RAM.
    pub ram_bytes: u64,
    /// On the disk.
    pub ssd_bytes: u64,
    /// Elsewhere.
    pub remote_bytes: u64,
    /// How often it was used again.
    pub hits: u64,
    /// When it was used last.
    pub last_used_at: Timestamp,
    /// Whether it stays.
    pub pinned: bool,
}

/// `POST /app/cache/pin`, `unpin` and `drop`: which context. Pinning is answered by [`CacheContexts`], dropping by
/// [`CacheDeleted`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CacheWhich {
    /// An id, or at least the first four letters of one.
    pub context: String,
}

/// `POST /app/cache/prefetch` and `DELETE /app/cache/owner`: whose.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CacheOwner {
    /// As in `X-Cairn-Owner`.
    pub owner: String,
}

/// What `POST /app/cache/prefetch` brings up to RAM.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CachePrefetched {
    /// How many contexts are the owner's.
    pub contexts: u64,
}

/// `POST /app/cache/clear`. Answered by [`CacheDeleted`] when all of it has been removed.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CacheClear {
    /// One tier; all of them, and pages of loaded models, when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tier: Option<TierName>,
}

/// What was deleted.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CacheDeleted {
    /// Chunks that nobody finds any more.
    pub chunks: u64,
    /// Of their files, those that could not be removed yet; that is tried again.
    pub left: u64,
}

/// `GET /app/cache/limits`: how much the tiers may take, and where.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CacheLimits {
    /// Bytes of RAM.
    pub ram_bytes: CacheLimit<u64>,
    /// The folder on this machine.
    pub folder: CacheLimit<String>,
    /// Bytes of it.
    pub folder_bytes: CacheLimit<u64>,
    /// Whether some of this holds only when the daemon is started anew.
    pub at_next_start: bool,
}

/// A limit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CacheLimit<T> {
    /// The limit; absent where there is no such tier.
    pub value: Option<T>,
    /// The environment variable that sets it; then it cannot be changed here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub variable: Option<String>,
}

/// `PUT /app/cache/limits`: what is to change, all of it or nothing. Answered by [`CacheLimits`].
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CacheLimitsChange {
    /// Bytes of RAM; 0 for none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ram_bytes: Option<u64>,
    /// An absolute path.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub folder: Option<String>,
    /// Bytes of the folder.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub folder_bytes: Option<u64>,
}

/// `POST /app/cache/trace`: what is kept of a prompt. Answered by a [`CacheTrace`].
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct CacheTraceRequest {
    /// The model's name.
    pub model: String,
    /// A conversation; one message of a user is a prompt.
    pub messages: Vec<Message>,
    /// The messages' texts are the prompt, without the model's template.
    #[serde(default)]
    pub raw: bool,
    /// Options of the request; `num_ctx` decides with which context the model is loaded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub options: Option<Map<String, Value>>,
}

/// What is kept of a prompt, and why it is not more.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CacheTrace {
    /// Tokens of the whole prompt, even where it is longer than the context.
    pub tokens: u64,
    /// Of these, tokens that the loaded model has in memory.
    pub memory_tokens: u64,
    /// Tokens that the tiers have.
    pub kept_tokens: u64,
    /// Of these, tokens by tier.
    pub tiers: Vec<TierTokens>,
    /// `whole`, `changed`, `ends`, `never`, `evicted`, `expired`, `deleted`, `lost`, `other_arithmetic`, `rounded`, `suspect`,
    /// `away` or `not_kept`.
    pub reason: String,
    /// The token at which it changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub changed_at: Option<u64>,
    /// What is kept there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kept_text: Option<String>,
    /// What was asked for there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub asked_text: Option<String>,
}

/// Tokens in one tier.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TierTokens {
    /// Which.
    pub tier: TierName,
    /// How many.
    pub tokens: u64,
}

/// `GET /app/cache/fsck`: every chunk of the folder, read to the last byte.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CacheFsck {
    /// The folder.
    pub folder: String,
    /// Chunks that are what was written.
    pub whole: u64,
    /// The room that those take.
    pub whole_bytes: u64,
    /// Files that are not.
    pub damaged: Vec<DamagedChunk>,
    /// Files that could not be read.
    pub unread: Vec<DamagedChunk>,
    /// Whole chunks that nobody can use, because a chunk before them is not there.
    pub orphans: u64,
    /// The room that those take.
    pub orphan_bytes: u64,
    /// Damaged files that were put aside before.
    pub aside: u64,
    /// Files that other installations keep there, which are left alone.
    #[serde(default)]
    pub foreign: u64,
    /// Whether what is damaged or of no use was removed.
    pub fixed: bool,
}

/// A file that is not what it should be.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DamagedChunk {
    /// Its path.
    pub path: String,
    /// What is wrong.
    pub reason: String,
}
