//! `POST /v1/completions`: the continuation of a text.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::{FinishReason, ServiceTier, Stop, StreamOptions, StructuredOutputs, Usage};

/// Request for the continuation of a text.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, expecting = "a JSON object")]
#[expect(missing_docs, reason = "the names are the API's own and mean what its reference documents")]
pub struct CompletionRequest {
    pub model: String,
    pub prompt: Prompts,
    pub suffix: Option<String>,
    pub stream: Option<bool>,
    pub stream_options: Option<StreamOptions>,
    pub max_tokens: Option<i64>,
    pub temperature: Option<f32>,
    pub top_p: Option<f32>,
    pub seed: Option<i64>,
    pub stop: Option<Stop>,
    pub frequency_penalty: Option<f32>,
    pub presence_penalty: Option<f32>,
    pub n: Option<u32>,
    /// Number of most probable tokens to report.
    pub logprobs: Option<i64>,
    pub echo: Option<bool>,
    pub best_of: Option<Value>,
    pub logit_bias: Option<Value>,
    /// `flex` computes the answer when others leave time. All other values are the same as none.
    pub service_tier: Option<String>,
    pub user: Option<Value>,
    /// Formats that are extensions of the API, with vLLM's names.
    pub structured_outputs: Option<StructuredOutputs>,
    pub guided_json: Option<Value>,
    pub guided_regex: Option<String>,
    pub guided_choice: Option<Vec<String>>,
    pub guided_grammar: Option<String>,
    /// Cairn's own field: Ollama's options, such as `num_ctx` and `top_k`. The fields above override them.
    pub options: Option<Map<String, Value>>,
}

impl CompletionRequest {
    /// Returns the names of the fields that have no effect.
    #[must_use]
    pub fn ignored(&self) -> Vec<&'static str> {
        super::present(&[("best_of", &self.best_of), ("logit_bias", &self.logit_bias), ("user", &self.user)])
    }
}

/// The text to continue: one, or a list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged, expecting = "a prompt, which is a text or a list of texts")]
pub enum Prompts {
    /// One text.
    One(String),
    /// Texts that are continued separately.
    Many(Vec<String>),
}

impl Default for Prompts {
    fn default() -> Self {
        Self::One(String::new())
    }
}

/// A complete response, or a part of a streamed one.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "the names are the API's own and mean what its reference documents")]
pub struct Completion {
    pub id: String,
    /// `text_completion`
    pub object: String,
    pub created: i64,
    pub model: String,
    pub system_fingerprint: String,
    /// Only if the request has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service_tier: Option<ServiceTier>,
    /// Empty in the chunk with the usage.
    pub choices: Vec<CompletionChoice>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<Usage>,
    /// Cairn's own field: what the request has and the server ignored, and what did not fit into the context.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
}

/// One of the continuations.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "the names are the API's own and mean what its reference documents")]
pub struct CompletionChoice {
    pub index: u32,
    pub text: String,
    pub logprobs: Option<CompletionLogprobs>,
    pub finish_reason: Option<FinishReason>,
}

/// Log probabilities of the tokens of a continuation. All lists have one element for each token.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct CompletionLogprobs {
    /// Texts of the tokens.
    pub tokens: Vec<String>,
    /// Natural logarithms of their probabilities.
    pub token_logprobs: Vec<f64>,
    /// The most probable tokens at each place with the logarithms of their probabilities.
    pub top_logprobs: Vec<Map<String, Value>>,
    /// Offset of each token's text in the continuation, in characters.
    pub text_offset: Vec<u64>,
}
