//! `POST /api/generate`: the answer to one prompt.

use axum::Router;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use axum::routing::post;
use cairn_app::inference::{CacheScope, Delta, Endpoint, Event, Finish, Generate, Reply};
use cairn_app::{App, Error};
use cairn_wire::Timestamp;
use cairn_wire::ollama::{DebugInfo, DoneReason, GenerateChunk, GenerateRequest, Metrics};

use super::FullAnswer;
use super::unsupported::check_top_logprobs;
use crate::body::{BodyLimit, JsonBytes};
use crate::client_inference::ClientInference;
use crate::error::{ApiError, json};
use crate::relay::{RelayOutcome, RelayRequest, relay};
use crate::request_log::LogHandle;
use crate::{Server, images, ndjson};

pub(super) fn routes() -> Router<Server> {
    Router::new().route("/api/generate", post(generate).layer(BodyLimit::PROMPT.layer()))
}

impl RelayRequest for GenerateRequest {
    const ENDPOINT: Endpoint = Endpoint::OllamaGenerate;

    fn model(&self) -> &str {
        &self.model
    }

    fn is_streamed(&self) -> bool {
        self.stream.unwrap_or(true)
    }
}

async fn generate(
    State(server): State<Server>,
    client: ClientInference,
    log: LogHandle,
    body: JsonBytes,
) -> Result<Response, ApiError> {
    let request: GenerateRequest = match relay(&server, &client, &log, body).await? {
        RelayOutcome::Local(request) => request,
        RelayOutcome::Response(response) => return Ok(response),
    };
    let ClientInference { inference, scope } = client;
    check_top_logprobs(request.top_logprobs)?;
    let has_text = |text: &Option<String>| text.as_ref().is_some_and(|text| !text.is_empty());
    if request.raw == Some(true) && has_text(&request.template) {
        return Err(cairn_app::inference::Error::RawWithTemplate.into());
    }
    log.set_model(&request.model);
    let stream = request.is_streamed();
    let chunks = ChunkBuilder { app: server.app().clone(), model: request.model.clone(), log };
    let answer = match inference.generate(use_case(request, scope)?).await? {
        Reply::Answer(answer) => answer,
        Reply::Rendered(text) => return Ok(json(StatusCode::OK, &chunks.rendered(text))),
        Reply::Loaded => return Ok(json(StatusCode::OK, &chunks.empty(DoneReason::Load))),
        Reply::Unloaded => return Ok(json(StatusCode::OK, &chunks.empty(DoneReason::Unload))),
    };
    if stream {
        return Ok(ndjson::stream(*answer, server.activity().begin(), move |event| chunks.event(event)));
    }
    let FullAnswer { text, thinking, finish, .. } = FullAnswer::collect(*answer).await?;
    Ok(json(StatusCode::OK, &chunks.last(finish, text, thinking)))
}

fn use_case(request: GenerateRequest, scope: CacheScope) -> Result<Generate, ApiError> {
    Ok(Generate {
        model: request.model,
        prompt: request.prompt,
        suffix: request.suffix,
        template: request.template,
        images: images::of_list(request.images)?,
        format: super::format(request.format)?,
        system: request.system.filter(|text| !text.is_empty()),
        context: request.context.unwrap_or_default(),
        raw: request.raw.unwrap_or(false),
        options: request.options,
        think: request.think,
        keep_alive: request.keep_alive,
        no_shift: request.shift == Some(false),
        whole: request.truncate == Some(false),
        logprobs: super::requested_logprobs(request.logprobs, request.top_logprobs),
        scope,
        render_only: request.debug_render_only == Some(true),
    })
}

/// Builder of the response chunks of one answer.
struct ChunkBuilder {
    app: App,
    model: String,
    log: LogHandle,
}

impl ChunkBuilder {
    fn delta(&self, response: String, thinking: String) -> GenerateChunk {
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
            warnings: Vec::new(),
            debug_info: None,
        }
    }

    fn rendered(&self, text: String) -> GenerateChunk {
        GenerateChunk {
            debug_info: Some(DebugInfo { rendered_template: text }),
            ..self.delta(String::new(), String::new())
        }
    }

    fn empty(&self, reason: DoneReason) -> GenerateChunk {
        GenerateChunk { done: true, done_reason: Some(reason), ..self.delta(String::new(), String::new()) }
    }

    fn last(&self, finish: Finish, response: String, thinking: String) -> GenerateChunk {
        self.log.set_usage(&finish.usage);
        GenerateChunk {
            done: true,
            done_reason: Some(super::done_reason(&finish.usage)),
            metrics: super::metrics(&finish.usage),
            truncated: finish.usage.truncated,
            warnings: crate::warnings::of_answer(&finish),
            logprobs: super::logprobs(finish.logprobs),
            context: finish.context,
            ..self.delta(response, thinking)
        }
    }

    fn event(&self, event: Event) -> Result<GenerateChunk, Error> {
        match event {
            Event::Delta(delta, logprobs) => {
                self.log.record_first_token();
                let (text, thinking) = match delta {
                    Delta::Text(text) => (text, String::new()),
                    Delta::Thinking(thinking) => (String::new(), thinking),
                    // This endpoint offers no tools, so that a call is a text like any other.
                    Delta::ToolCall(call) => (call.to_string(), String::new()),
                };
                Ok(GenerateChunk { logprobs: super::logprobs(logprobs), ..self.delta(text, thinking) })
            }
            Event::Finish(finish) => Ok(self.last(finish, String::new(), String::new())),
            Event::Failed(error) => Err(error.into()),
        }
    }
}
