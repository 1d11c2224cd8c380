//! `/api`: Ollama's API. One file per endpoint; this module has the conversions that several endpoints share.

mod blobs;
mod chat;
mod copy;
mod create;
mod delete;
mod embed;
mod embeddings;
mod generate;
mod ps;
mod pull;
mod push;
mod root;
mod show;
mod status;
pub(crate) mod tags;
pub(crate) mod unsupported;
mod version;

use std::time::Duration;

use axum::Router;
use cairn_app::Error;
use cairn_app::inference::{Answer, Constraint, Delta, Event, Finish, Logprob, TokenLogprob, ToolCall};
use cairn_app::library::Details;
use cairn_wire::ollama::{self as wire, DoneReason, Metrics};
use cairn_wire::{Usage, excerpt};
use serde_json::Value;

use crate::Server;
use crate::error::ApiError;

pub(crate) fn routes() -> Router<Server> {
    Router::new()
        .merge(blobs::routes())
        .merge(chat::routes())
        .merge(copy::routes())
        .merge(create::routes())
        .merge(delete::routes())
        .merge(embed::routes())
        .merge(embeddings::routes())
        .merge(generate::routes())
        .merge(ps::routes())
        .merge(pull::routes())
        .merge(push::routes())
        .merge(root::routes())
        .merge(show::routes())
        .merge(status::routes())
        .merge(tags::routes())
        .merge(version::routes())
}

fn details(details: &Details) -> wire::Details {
    wire::Details {
        parent_model: String::new(),
        format: details.format.clone(),
        family: details.family.clone(),
        families: (!details.families.is_empty()).then(|| details.families.clone()),
        parameter_size: details.parameter_size.clone(),
        quantization_level: details.quantization.clone(),
        context_length: details.context_length,
        embedding_length: details.embedding_length,
    }
}

/// Complete answer, for a response without streaming.
pub(crate) struct FullAnswer {
    pub(crate) text: String,
    pub(crate) thinking: String,
    pub(crate) tool_calls: Vec<ToolCall>,
    /// Finish reason and usage, with the logprobs of all tokens.
    pub(crate) finish: Finish,
}

impl FullAnswer {
    /// Collects the events of an answer until its end. Returns an error if the answer fails.
    pub(crate) async fn collect(mut answer: Answer) -> Result<Self, Error> {
        let (mut text, mut thinking, mut logprobs) = (String::new(), String::new(), Vec::new());
        let mut tool_calls = Vec::new();
        loop {
            match answer.next().await {
                Some(Event::Delta(delta, more)) => {
                    match delta {
                        Delta::Text(delta) => text += &delta,
                        Delta::Thinking(delta) => thinking += &delta,
                        Delta::ToolCall(call) => tool_calls.push(call),
                    }
                    logprobs.extend(more);
                }
                Some(Event::Finish(mut finish)) => {
                    logprobs.append(&mut finish.logprobs);
                    finish.logprobs = logprobs;
                    return Ok(Self { text, thinking, tool_calls, finish });
                }
                Some(Event::Failed(error)) => return Err(error.into()),
                None => return Err(cairn_app::inference::Error::EngineGone.into()),
            }
        }
    }
}

fn metrics(usage: &Usage) -> Metrics {
    let ns = |duration: Duration| u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
    Metrics {
        total_duration: ns(usage.total),
        load_duration: ns(usage.load),
        prompt_eval_count: usage.prompt_tokens,
        prompt_eval_duration: ns(usage.prompt),
        eval_count: usage.answer_tokens,
        eval_duration: ns(usage.answer),
        cached_tokens: usage.cached_tokens,
        ram_tokens: usage.ram_tokens,
        ssd_tokens: usage.ssd_tokens,
        remote_tokens: usage.remote_tokens,
        restore_duration: ns(usage.restore),
        recompute_duration: ns(usage.recompute_estimate),
    }
}

fn logprobs(logprobs: Vec<Logprob>) -> Vec<wire::Logprob> {
    let token = |token: TokenLogprob| wire::TokenLogprob {
        token: String::from_utf8_lossy(&token.bytes).into_owned(),
        logprob: token.logprob,
        bytes: token.bytes,
    };
    let logprob = |logprob: Logprob| wire::Logprob {
        token: token(logprob.chosen),
        top_logprobs: logprob.top.into_iter().map(token).collect(),
    };
    logprobs.into_iter().map(logprob).collect()
}

/// Returns the format of an answer. Some clients send an empty text for no format.
fn format(format: Option<Value>) -> Result<Option<Constraint>, ApiError> {
    match format {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(word)) if word.is_empty() => Ok(None),
        Some(Value::String(word)) if word == "json" => Ok(Some(Constraint::JsonObject)),
        Some(schema @ Value::Object(_)) => Ok(Some(Constraint::JsonSchema(schema))),
        Some(other) => {
            let found = other.to_string();
            let text = format!("invalid format: {}; expected \"json\" or a valid JSON Schema object", excerpt(&found));
            Err(ApiError::bad_request(text))
        }
    }
}

/// Returns the number of top tokens to report with each token, or `None` if the request wants no logprobs.
pub(crate) fn requested_logprobs(logprobs: Option<bool>, top: Option<i64>) -> Option<usize> {
    let top = top.and_then(|top| usize::try_from(top).ok()).unwrap_or(0);
    (logprobs == Some(true)).then_some(top)
}

fn done_reason(usage: &Usage) -> DoneReason {
    if usage.length_reached { DoneReason::Length } else { DoneReason::Stop }
}
