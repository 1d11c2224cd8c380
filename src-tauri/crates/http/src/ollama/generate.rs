//! `POST /api/generate`: one prompt, one answer.

use axum::Router;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use axum::routing::post;
use cairn_app::inference::{CacheScope, Done, Event, Generate, Reply, Said};
use cairn_app::{App, Error};
use cairn_wire::Timestamp;
use cairn_wire::ollama::{DebugInfo, DoneReason, GenerateChunk, GenerateRequest, Metrics};

use super::Whole;
use super::refused::{any, asks_for_format, check_top_logprobs, refuse};
use crate::body::Body;
use crate::error::{ApiError, json};
use crate::requests::Logged;
use crate::whose::For;
use crate::{Server, ndjson};

pub(super) fn routes() -> Router<Server> {
    Router::new().route("/api/generate", post(generate))
}

async fn generate(
    State(server): State<Server>,
    For(whose): For,
    logged: Logged,
    Body(request): Body<GenerateRequest>,
) -> Result<Response, ApiError> {
    check_top_logprobs(request.top_logprobs)?;
    let says = |text: &Option<String>| text.as_ref().is_some_and(|text| !text.is_empty());
    if request.raw == Some(true) && says(&request.template) {
        return Err(cairn_app::inference::Error::RawWithTemplate.into());
    }
    refuse(&[
        (says(&request.suffix), "filling in before a suffix"),
        (says(&request.template), "a template in the request"),
        (any(request.images.as_ref()), "reading images"),
        (asks_for_format(request.format.as_ref()), "structured output (format)"),
    ])?;
    logged.asks(&request.model);
    let streams = request.stream.unwrap_or(true);
    let chunk = Chunk { app: server.app().clone(), model: request.model.clone(), logged };
    let answer = match server.app().inference().generate(use_case(request, whose)).await? {
        Reply::Answer(answer) => answer,
        Reply::Rendered(text) => return Ok(json(StatusCode::OK, &chunk.rendered(text))),
        Reply::Loaded => return Ok(json(StatusCode::OK, &chunk.empty(DoneReason::Load))),
        Reply::Unloaded => return Ok(json(StatusCode::OK, &chunk.empty(DoneReason::Unload))),
    };
    if streams {
        return Ok(ndjson::stream(*answer, server.activity().begin(), move |event| chunk.of(event)));
    }
    let Whole { text, thinking, done } = Whole::of(*answer).await?;
    Ok(json(StatusCode::OK, &chunk.last(done, text, thinking)))
}

fn use_case(request: GenerateRequest, whose: CacheScope) -> Generate {
    Generate {
        model: request.model,
        prompt: request.prompt,
        system: request.system.filter(|text| !text.is_empty()),
        context: request.context.unwrap_or_default(),
        raw: request.raw.unwrap_or(false),
        options: request.options,
        think: request.think,
        keep_alive: request.keep_alive,
        no_shift: request.shift == Some(false),
        whole: request.truncate == Some(false),
        logprobs: super::asked_logprobs(request.logprobs, request.top_logprobs),
        whose,
        render_only: request.debug_render_only == Some(true),
    }
}

/// Makes chunks of one answer.
struct Chunk {
    app: App,
    model: String,
    logged: Logged,
}

impl Chunk {
    fn piece(&self, response: String, thinking: String) -> GenerateChunk {
        GenerateChunk {
            model: self.model.clone(),
            created_at: Timestamp(self.app.clock().now()),
            response,
            thinking,
            done: false,
            done_reason: None,
            context: None,
            logprobs: Vec::new(),
            metrics: Metrics::default(),
            truncated: None,
            debug_info: None,
        }
    }

    fn rendered(&self, text: String) -> GenerateChunk {
        GenerateChunk {
            debug_info: Some(DebugInfo { rendered_template: text }),
            ..self.piece(String::new(), String::new())
        }
    }

    fn empty(&self, reason: DoneReason) -> GenerateChunk {
        GenerateChunk { done: true, done_reason: Some(reason), ..self.piece(String::new(), String::new()) }
    }

    fn last(&self, done: Done, response: String, thinking: String) -> GenerateChunk {
        self.logged.cost(&done.cost);
        GenerateChunk {
            done: true,
            done_reason: Some(super::done_reason(done.reason)),
            metrics: super::metrics(&done.cost),
            truncated: done.truncated.map(super::truncated),
            logprobs: super::logprobs(done.logprobs),
            context: done.context,
            ..self.piece(response, thinking)
        }
    }

    fn of(&self, event: Event) -> Result<GenerateChunk, Error> {
        if matches!(event, Event::Text(_) | Event::Thinking(_)) {
            self.logged.piece();
        }
        match event {
            Event::Text(Said { text, logprobs }) => {
                Ok(GenerateChunk { logprobs: super::logprobs(logprobs), ..self.piece(text, String::new()) })
            }
            Event::Thinking(Said { text, logprobs }) => {
                Ok(GenerateChunk { logprobs: super::logprobs(logprobs), ..self.piece(String::new(), text) })
            }
            Event::Done(done) => Ok(self.last(done, String::new(), String::new())),
            Event::Failed(error) => Err(error.into()),
        }
    }
}
