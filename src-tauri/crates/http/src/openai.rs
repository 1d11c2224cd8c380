//! `/v1`: the OpenAI API, as adapters over the use cases of `cairn-app`. This module has the conversions that several
//! endpoints share.
//!
//! As in Ollama, `temperature` and `top_p` are 1 unless the request has them, whatever the model's parameters are.

mod chat;
mod choices;
mod completions;
mod embeddings;
mod messages;
mod models;
mod rerank;
mod service_tier;
mod tools;

use std::time::UNIX_EPOCH;

use axum::Router;
use axum::http::StatusCode;
use cairn_app::App;
use cairn_app::inference::{Logprob, TokenLogprob};
use cairn_app::secret::random_hex;
use cairn_wire::openai::{self as wire, FinishReason, ServiceTier, Stop};
use cairn_wire::{ErrorBody, Level, Think, Usage};
use serde_json::{Map, Value, json};

use crate::error::{ApiError, openai_error};
use crate::{RESPONSE_ID_BYTES, Server, sse};

pub(crate) fn routes() -> Router<Server> {
    Router::new()
        .merge(chat::routes())
        .merge(completions::routes())
        .merge(embeddings::routes())
        .merge(models::routes())
        .merge(rerank::routes())
}

/// Parameters of sampling that both endpoints have.
struct Sampling {
    max_tokens: Option<i64>,
    temperature: Option<f32>,
    top_p: Option<f32>,
    seed: Option<i64>,
    stop: Option<Stop>,
    frequency_penalty: Option<f32>,
    presence_penalty: Option<f32>,
}

impl Sampling {
    /// Adds the parameters to Ollama's options of the request.
    fn into_options(self, options: Option<Map<String, Value>>) -> Map<String, Value> {
        let mut options = options.unwrap_or_default();
        options.entry("temperature").or_insert(json!(1.0));
        options.entry("top_p").or_insert(json!(1.0));
        let mut set = |name: &str, value: Option<Value>| {
            if let Some(value) = value {
                options.insert(name.to_owned(), value);
            }
        };
        set("num_predict", self.max_tokens.map(Value::from));
        set("temperature", self.temperature.map(Value::from));
        set("top_p", self.top_p.map(Value::from));
        set("seed", self.seed.map(Value::from));
        set("frequency_penalty", self.frequency_penalty.map(Value::from));
        set("presence_penalty", self.presence_penalty.map(Value::from));
        set("stop", self.stop.map(|stop| Value::from(stop.into_list())));
        options
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
                "invalid reasoning effort: {other:?} (must be \"none\", \"minimal\", \"low\", \"medium\", \"high\", \
                 \"xhigh\" or \"max\")"
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

/// Adds the usage of a further choice, which has the same prompt.
fn add_choice(total: &mut wire::Usage, choice: &Usage) {
    total.prompt_tokens = choice.prompt_tokens;
    total.prompt_tokens_details.cached_tokens = total.prompt_tokens_details.cached_tokens.max(choice.cached_tokens);
    total.completion_tokens += choice.answer_tokens;
    total.total_tokens = total.prompt_tokens + total.completion_tokens;
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
