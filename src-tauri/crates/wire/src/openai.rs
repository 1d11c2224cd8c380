//! The OpenAI API, `/v1`: one file per endpoint. Unknown fields are ignored.
//!
//! Source: the OpenAI API reference, <https://platform.openai.com/docs/api-reference>.

mod chat;
mod completions;
mod embeddings;
mod errors;
mod logprobs;
mod messages;
mod models;
mod rerank;
mod responses;

pub use chat::{
    ChatCompletion, ChatCompletionChunk, ChatCompletionRequest, ChatDelta, Choice, ChunkChoice, JsonSchema, Reasoning,
    ReplyMessage, ResponseFormat, StreamOptions, StructuredOutputs,
};
pub use completions::{Completion, CompletionChoice, CompletionLogprobs, CompletionRequest, Prompts};
pub use embeddings::{Embedding, EmbeddingList, EmbeddingRequest, EmbeddingVector, InputUsage};
pub use errors::{ErrorDetail, ErrorResponse, ErrorType};
pub use logprobs::{ChoiceLogprobs, TokenLogprob, TopLogprob};
pub use messages::{ChatMessage, Content, ContentPart, FunctionCall, ImageUrl, Tool, ToolCall, ToolFunction};
pub use models::{Model, ModelList};
pub use rerank::{RerankDocument, RerankRequest, RerankResponse, RerankResult};
pub use responses::{
    IncompleteDetails, InputItem, InputItems, ItemPlace, ItemStatus, OutputItem, OutputPart, OutputTokensDetails,
    PartPlace, ResponseError, ResponseEvent, ResponseObject, ResponseStatus, ResponseTool, ResponseUsage,
    ResponsesRequest, SequencedEvent, TextFormat, TextOptions,
};

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Stop strings: one, or a list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Stop {
    /// One string.
    One(String),
    /// Any number of strings.
    Many(Vec<String>),
}

impl Stop {
    /// Returns the strings as a list.
    #[must_use]
    pub fn into_list(self) -> Vec<String> {
        match self {
            Self::One(stop) => vec![stop],
            Self::Many(stops) => stops,
        }
    }
}

/// Why an answer ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FinishReason {
    /// The model generated an end token or a stop string.
    Stop,
    /// The token limit or the end of the context was reached.
    Length,
    /// The model calls tools.
    ToolCalls,
}

/// The tier that served a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ServiceTier {
    /// Computed at once, beside the requests of other clients.
    Default,
    /// Computed when other requests leave time.
    Flex,
}

/// Token counts of one request.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    /// Tokens of the prompt, cached or not.
    pub prompt_tokens: u64,
    /// Generated tokens, of all choices together.
    pub completion_tokens: u64,
    /// The sum of both.
    pub total_tokens: u64,
    /// Details of the prompt.
    pub prompt_tokens_details: PromptTokensDetails,
}

/// Details of a prompt's tokens.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PromptTokensDetails {
    /// Prompt tokens that were not computed, because their rows were cached.
    pub cached_tokens: u64,
}

/// Returns the names of the fields that a request has.
fn present(fields: &[(&'static str, &Option<Value>)]) -> Vec<&'static str> {
    fields
        .iter()
        .filter(|(_, value)| value.as_ref().is_some_and(|value| !value.is_null()))
        .map(|(name, _)| *name)
        .collect()
}
