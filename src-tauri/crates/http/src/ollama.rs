//! `/api`: Ollama's interface. One file per endpoint; what several of them say about a model is here.

mod chat;
mod generate;
mod ps;
mod refused;
mod root;
mod show;
mod tags;
mod version;

use axum::Router;
use cairn_app::{Cost, Details, Reason};
use cairn_wire::ollama::{self as wire, DoneReason, Metrics};

use crate::Server;

pub(crate) fn routes() -> Router<Server> {
    Router::new()
        .merge(chat::routes())
        .merge(generate::routes())
        .merge(ps::routes())
        .merge(root::routes())
        .merge(show::routes())
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

fn metrics(cost: &Cost) -> Metrics {
    Metrics {
        total_duration: cost.total_ns,
        load_duration: cost.load_ns,
        prompt_eval_count: cost.prompt_tokens,
        prompt_eval_duration: cost.prompt_ns,
        eval_count: cost.answer_tokens,
        eval_duration: cost.answer_ns,
        cached_tokens: cost.cached_tokens,
    }
}

fn done_reason(reason: Reason) -> DoneReason {
    match reason {
        Reason::Stop => DoneReason::Stop,
        Reason::Length => DoneReason::Length,
    }
}
