//! The Ollama API, `/api`: one file per endpoint.

mod chat;
mod copy;
mod create;
mod delete;
mod embed;
mod generate;
mod logprobs;
mod metrics;
mod ps;
mod pull;
mod push;
mod show;
mod tags;

pub use chat::{ChatChunk, ChatRequest, FunctionCall, Message, ReplyMessage, ToolCall};
pub use copy::CopyRequest;
pub use create::{CreateRequest, Licenses, ProgressLine};
pub use delete::DeleteRequest;
pub use embed::{EmbedRequest, EmbedResponse, EmbeddingsRequest, EmbeddingsResponse};
pub use generate::{GenerateChunk, GenerateRequest};
pub use logprobs::{Logprob, TokenLogprob};
pub use metrics::Metrics;
pub use ps::{PsModel, PsResponse};
pub use pull::{PullLine, PullRequest};
pub use push::PushRequest;
pub use show::{ShowRequest, ShowResponse, ShowTensor};
pub use tags::{Details, TagsModel, TagsResponse};

use serde::{Deserialize, Serialize};

/// `GET /api/version`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct VersionResponse {
    /// Version of Ollama with this API. Editors refuse older ones.
    pub version: String,
    /// Version of Cairn; absent from other servers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cairn: Option<String>,
    /// Id of the daemon's process, in responses to other daemons only: a daemon cannot be its own remote.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instance: Option<String>,
}

/// `GET /api/status`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CloudResponse {
    /// Models that run in a cloud.
    pub cloud: CloudStatus,
}

/// Whether models of a cloud can be used.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CloudStatus {
    /// Whether they are disabled.
    pub disabled: bool,
    /// What disabled them: `none`, `env`, `config` or `both`.
    pub source: String,
}

/// Finish reason of an answer, `done_reason`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum DoneReason {
    /// The model generated an end token or a stop string.
    Stop,
    /// The token limit or the end of the context was reached.
    Length,
    /// The prompt was empty: the model was loaded.
    Load,
    /// The prompt was empty and `keep_alive` 0: the model was unloaded.
    Unload,
}

/// Response to a request with `_debug_render_only`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DebugInfo {
    /// The rendered prompt.
    pub rendered_template: String,
}

/// Reads `null` as an empty list or text, as Go does. Clients send it for absent values.
fn null_is_empty<'de, D: serde::Deserializer<'de>, T: Deserialize<'de> + Default>(from: D) -> Result<T, D::Error> {
    Option::<T>::deserialize(from).map(Option::unwrap_or_default)
}
