//! `/app/cache`: the tiers of cached rows.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::Timestamp;
use crate::ollama::Message;

/// A tier.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum TierName {
    /// Memory of this machine.
    Ram,
    /// A folder on this machine's disk.
    Ssd,
    /// A shared folder or a bucket.
    Remote,
}

/// `GET /app/cache`, and each line of `GET /app/cache/events`, which sends one after each change.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct CacheResponse {
    /// The tiers, fastest first; empty if the cache is off.
    pub tiers: Vec<CacheTier>,
    /// Path of the SSD tier.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub folder: Option<String>,
    /// Path or address of the remote tier.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remote: Option<String>,
    /// Place of the encryption key, as a text; absent if no files are encrypted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// Prompt tokens since the daemon started.
    #[serde(default)]
    pub prompt_tokens: u64,
    /// Prompt tokens that were found in pages or tiers.
    #[serde(default)]
    pub cached_tokens: u64,
    /// Estimated time that restores saved, since the start of the day (UTC) or of the daemon.
    #[serde(default)]
    pub saved_today_ms: u64,
    /// Prompt tokens that were computed although they were looked up, by reason.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub recomputed: Vec<CacheRecomputed>,
    /// Prompt tokens of the last 24 hours, oldest first; hours without prompts are left out.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hours: Vec<CacheHour>,
    /// Restores that ended early because a chunk was damaged, missing or late.
    #[serde(default)]
    pub cut_short: u64,
    /// Chunks that were not written because a queue or tier was full, or the daily limit was reached.
    #[serde(default)]
    pub dropped: u64,
}

/// Prompt tokens that were computed for one reason.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CacheRecomputed {
    /// `miss`: no tier has them; `cheaper`: faster than a restore; `deadline`, `corrupt`, `incompatible`, `no_pages`.
    pub reason: String,
    /// The number of tokens.
    pub tokens: u64,
}

/// Prompt tokens of an hour, by the place of their rows.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CacheHour {
    /// Start of the hour.
    pub at: Timestamp,
    /// In the memory of the loaded model.
    pub memory_tokens: u64,
    /// Restored from the RAM tier.
    pub ram_tokens: u64,
    /// Restored from the SSD tier.
    pub ssd_tokens: u64,
    /// Restored from the remote tier.
    pub remote_tokens: u64,
    /// Computed.
    pub computed_tokens: u64,
}

/// Status of a tier, and its counters since the daemon started.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CacheTier {
    /// The tier.
    pub tier: TierName,
    /// `up`, `scanning`, `read_only`, `suspect` or `away`.
    pub health: String,
    /// Why the tier is not `up`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Budget in bytes.
    pub budget_bytes: u64,
    /// Stored bytes.
    pub used_bytes: u64,
    /// Stored chunks.
    pub chunks: u64,
    /// Bytes in the write queue.
    pub queued_bytes: u64,
    /// Number of deleted or evicted chunks that are queued for removal, for example because the tier is not reachable.
    #[serde(default)]
    pub removing_chunks: u64,
    /// Bytes written.
    pub stored_bytes: u64,
    /// Bytes restored.
    pub restored_bytes: u64,
    /// Restored tokens.
    pub hit_tokens: u64,
    /// Evicted bytes.
    pub evicted_bytes: u64,
    /// Bytes written today (UTC).
    pub written_today_bytes: u64,
    /// Recent read bandwidth.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub read_bytes_per_second: Option<f64>,
    /// Damaged chunks.
    pub damaged: u64,
}

/// `GET /app/cache/contexts`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CacheContexts {
    /// Contexts, most recently used first.
    pub contexts: Vec<CacheContext>,
}

/// A cached context: a conversation or another prompt.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CacheContext {
    /// Id, stable while the context is cached.
    pub id: String,
    /// Owners, as clients sent them in `X-Cairn-Owner`.
    pub owners: Vec<String>,
    /// Name of the model, if it is available.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Length in tokens.
    pub tokens: u64,
    /// Bytes of the rows; contexts may share rows.
    pub bytes: u64,
    /// Bytes in the RAM tier.
    pub ram_bytes: u64,
    /// Bytes in the SSD tier.
    pub ssd_bytes: u64,
    /// Bytes in the remote tier.
    pub remote_bytes: u64,
    /// Number of hits.
    pub hits: u64,
    /// Time of the last use.
    pub last_used_at: Timestamp,
    /// Whether the context is pinned.
    pub pinned: bool,
}

/// `POST /app/cache/pin`, `unpin` and `drop`. The response is [`CacheContexts`] for pins, and [`CacheDeleted`] for
/// `drop`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CacheWhich {
    /// An id, or at least its first four characters.
    pub context: String,
}

/// `POST /app/cache/prefetch` and `DELETE /app/cache/owner`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CacheOwner {
    /// The owner, as in `X-Cairn-Owner`.
    pub owner: String,
}

/// Response of `POST /app/cache/prefetch`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CachePrefetched {
    /// Number of the owner's contexts.
    pub contexts: u64,
}

/// `POST /app/cache/clear`. The response is [`CacheDeleted`], after all files were removed.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CacheClear {
    /// The tier; if absent, all tiers and the pages of loaded models.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tier: Option<TierName>,
}

/// Result of a deletion.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CacheDeleted {
    /// Deleted chunks.
    pub chunks: u64,
    /// Files of these chunks that could not be removed yet. The removal is retried.
    pub left: u64,
}

/// `GET /app/cache/limits`: limits of the tiers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CacheLimits {
    /// Bytes of RAM.
    pub ram_bytes: CacheLimit<u64>,
    /// Folder of the SSD tier.
    pub folder: CacheLimit<String>,
    /// Bytes of the folder.
    pub folder_bytes: CacheLimit<u64>,
    /// Whether a change takes effect only at the next start of the daemon.
    pub at_next_start: bool,
}

/// A limit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CacheLimit<T> {
    /// The limit; absent if the tier does not exist.
    pub value: Option<T>,
    /// The environment variable that overrides the limit. Then it cannot be changed here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub variable: Option<String>,
}

/// `PUT /app/cache/limits`: changes all given limits or none. The response is [`CacheLimits`].
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

/// `POST /app/cache/trace`: looks up a prompt. The response is a [`CacheTrace`].
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(expecting = "a JSON object")]
pub struct CacheTraceRequest {
    /// The model's name.
    pub model: String,
    /// The conversation, or one message of a user.
    pub messages: Vec<Message>,
    /// Use the texts as the prompt, without the model's template.
    #[serde(default)]
    pub raw: bool,
    /// Options of the request; `num_ctx` sets the context size of the load.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub options: Option<Map<String, Value>>,
}

/// Cached part of a prompt, and the reason of the miss.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CacheTrace {
    /// Tokens of the whole prompt, even if it is longer than the context.
    pub tokens: u64,
    /// Tokens in the pages of the loaded model.
    pub memory_tokens: u64,
    /// Tokens in the tiers.
    pub kept_tokens: u64,
    /// Tokens by tier.
    pub tiers: Vec<TierTokens>,
    /// `whole`, `changed`, `ends`, `never`, `evicted`, `expired`, `deleted`, `lost`, `other_arithmetic`, `rounded`,
    /// `suspect`, `away` or `not_kept`.
    pub reason: String,
    /// Position of the first different token.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub changed_at: Option<u64>,
    /// Cached text at this position.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kept_text: Option<String>,
    /// Text of the prompt at this position.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub asked_text: Option<String>,
}

/// Tokens in one tier.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TierTokens {
    /// The tier.
    pub tier: TierName,
    /// Number of tokens.
    pub tokens: u64,
}

/// `GET /app/cache/fsck`: full check of the SSD tier.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CacheFsck {
    /// The folder.
    pub folder: String,
    /// Intact chunks.
    pub whole: u64,
    /// Bytes of these chunks.
    pub whole_bytes: u64,
    /// Damaged files.
    pub damaged: Vec<DamagedChunk>,
    /// Unreadable files.
    pub unread: Vec<DamagedChunk>,
    /// Intact chunks that cannot be used, because a chunk before them is missing.
    pub orphans: u64,
    /// Bytes of these chunks.
    pub orphan_bytes: u64,
    /// Damaged files that earlier runs moved to quarantine.
    pub aside: u64,
    /// Files of other installations, which are not changed.
    #[serde(default)]
    pub foreign: u64,
    /// Whether damaged files and orphans were removed.
    pub fixed: bool,
}

/// A damaged or unreadable file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DamagedChunk {
    /// Path of the file.
    pub path: String,
    /// The reason.
    pub reason: String,
}
