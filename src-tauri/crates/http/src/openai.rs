//! `/v1`: the OpenAI API, as adapters over the use cases of `cairn-app`. This module has the conversions that several
//! endpoints share.
//!
//! As in Ollama, `temperature` and `top_p` are 1 unless the request has them, whatever the model's parameters are.

mod audio;
mod chat;
mod choices;
mod completions;
mod embeddings;
mod guided;
mod messages;
mod models;
mod rerank;
mod responses;
mod service_tier;
mod tools;

use std::collections::BTreeMap;
use std::time::UNIX_EPOCH;

use axum::Router;
use axum::http::StatusCode;
use cairn_app::App;
use cairn_app::inference::{Constraint, Logprob, TokenLogprob};
use cairn_app::secret::random_hex;
use cairn_wire::openai::{self as wire, FinishReason, ServiceTier};
use cairn_wire::{ErrorBody, Level, Overflow, Think, Truncated, Usage, excerpt};
use serde_json::{Map, Value, json};

use crate::error::{ApiError, openai_error};
use crate::sampling::Sampling;
use crate::{RESPONSE_ID_BYTES, Server, sse};

pub(crate) fn routes() -> Router<Server> {
    Router::new()
        .merge(audio::routes())
        .merge(chat::routes())
        .merge(completions::routes())
        .merge(embeddings::routes())
        .merge(models::routes())
        .merge(rerank::routes())
        .merge(responses::routes())
}

/// Returns Ollama's options of a request.
fn options(sampling: Sampling, options: Option<Map<String, Value>>) -> Map<String, Value> {
    let mut options = options.unwrap_or_default();
    options.entry("temperature").or_insert(json!(1.0));
    options.entry("top_p").or_insert(json!(1.0));
    sampling.set_in(&mut options);
    options
}

/// Returns the format of an answer. `field` is the name of the field of the request.
fn format(field: &str, kind: &str, schema: Option<Value>) -> Result<Option<Constraint>, ApiError> {
    match (kind, schema) {
        ("text", _) => Ok(None),
        ("json_object", _) => Ok(Some(Constraint::JsonObject)),
        ("json_schema", Some(schema)) => Ok(Some(Constraint::JsonSchema(schema))),
        ("json_schema", None) => Err(ApiError::bad_request(format!("{field} has the type json_schema and no schema"))),
        (other, _) => Err(ApiError::bad_request(format!(
            "invalid {field}: the type {:?} (must be \"text\", \"json_object\" or \"json_schema\")",
            excerpt(other)
        ))),
    }
}

/// Returns the thinking mode of an effort.
fn think(effort: Option<&str>) -> Result<Option<Think>, ApiError> {
    let level = match effort {
        None => return Ok(None),
        Some("none") => return Ok(Some(Think::Switch(false))),
        Some("minimal" | "low") => Level::Low,
        Some("medium") => Level::Medium,
        Some("high") => Level::High,
        Some("xhigh" | "ultra" | "max") => Level::Max,
        Some(other) => {
            return Err(ApiError::bad_request(format!(
                "invalid reasoning effort: {:?} (must be \"none\", \"minimal\", \"low\", \"medium\", \"high\", \"xhigh\" or \
                 \"max\")",
                excerpt(other)
            )));
        }
    };
    Ok(Some(Think::Level(level)))
}

/// Properties that all parts of a response repeat.
#[derive(Clone)]
struct Envelope {
    id: String,
    created: i64,
    model: String,
    system_fingerprint: String,
    service_tier: Option<ServiceTier>,
}

impl Envelope {
    /// Creates the properties of a new response. `prefix` is the beginning of its id.
    fn new(app: &App, prefix: &str, model: &str, service_tier: Option<ServiceTier>) -> Result<Self, ApiError> {
        let seconds = app.clock().now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
        Ok(Self {
            id: format!("{prefix}{}", random_hex::<RESPONSE_ID_BYTES>()?),
            created: i64::try_from(seconds).unwrap_or(i64::MAX),
            model: model.to_owned(),
            system_fingerprint: format!("fp_cairn_{}", cairn_app::VERSION),
            service_tier,
        })
    }
}

/// Usage of one prompt.
#[derive(Debug, Default)]
struct PromptUsage {
    tokens: u64,
    /// Most tokens that were cached for one of its answers.
    cached: u64,
    /// The most that was dropped for one of its answers.
    truncated: Option<Truncated>,
}

/// Usage of all answers to a request, of which several may have the same prompt.
#[derive(Default)]
struct UsageSum {
    prompts: BTreeMap<u32, PromptUsage>,
    all: Usage,
}

impl UsageSum {
    /// Adds the usage of an answer to one of the prompts. Returns the usage so far.
    fn add(&mut self, prompt: u32, answer: &Usage) -> &Usage {
        let PromptUsage { tokens, cached, truncated } = self.prompts.entry(prompt).or_default();
        (*tokens, *cached) = (answer.prompt_tokens, answer.cached_tokens.max(*cached));
        *truncated = truncated.iter().copied().chain(answer.truncated).max_by_key(|truncated| truncated.tokens);
        self.all = Usage {
            prompt_tokens: self.prompts.values().map(|prompt| prompt.tokens).sum(),
            cached_tokens: self.prompts.values().map(|prompt| prompt.cached).sum(),
            answer_tokens: self.all.answer_tokens + answer.answer_tokens,
            // The answers are computed at the same time.
            answer: self.all.answer.max(answer.answer),
            total: self.all.total.max(answer.total),
            truncated: self.truncated(),
            ..answer.clone()
        };
        &self.all
    }

    /// What was dropped for all prompts. A context that was full while an answer was computed is the reason if there is one.
    fn truncated(&self) -> Option<Truncated> {
        let mut all: Vec<Truncated> = self.prompts.values().filter_map(|prompt| prompt.truncated).collect();
        all.sort_by_key(|truncated| truncated.reason == Overflow::ContextFull);
        all.into_iter().map(Some).fold(None, Truncated::merge)
    }

    fn total(&self) -> wire::Usage {
        let Usage { prompt_tokens, cached_tokens, answer_tokens, .. } = self.all;
        wire::Usage {
            prompt_tokens,
            completion_tokens: answer_tokens,
            total_tokens: prompt_tokens + answer_tokens,
            prompt_tokens_details: wire::PromptTokensDetails { cached_tokens },
        }
    }
}

fn finish_reason(usage: &Usage, has_tool_calls: bool) -> FinishReason {
    match (usage.length_reached, has_tool_calls) {
        (true, _) => FinishReason::Length,
        (false, true) => FinishReason::ToolCalls,
        (false, false) => FinishReason::Stop,
    }
}

fn top_logprob(token: TokenLogprob) -> wire::TopLogprob {
    wire::TopLogprob {
        token: String::from_utf8_lossy(&token.bytes).into_owned(),
        logprob: token.logprob,
        bytes: token.bytes,
    }
}

/// Returns the event that ends a failed stream.
pub(crate) fn encode_error(error: &ErrorBody) -> Vec<u8> {
    let mut stream = Vec::new();
    sse::push_data(&mut stream, &openai_error(StatusCode::INTERNAL_SERVER_ERROR, error));
    stream
}

/// Returns log probabilities for a response; `None` if there are none.
fn logprobs(logprobs: Vec<Logprob>) -> Option<wire::ChoiceLogprobs> {
    let logprob = |logprob: Logprob| wire::TokenLogprob {
        token: top_logprob(logprob.chosen),
        top_logprobs: logprob.top.into_iter().map(top_logprob).collect(),
    };
    let content: Vec<_> = logprobs.into_iter().map(logprob).collect();
    (!content.is_empty()).then_some(wire::ChoiceLogprobs { content })
}
