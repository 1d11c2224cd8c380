//! `POST /api/create`: a model made of another one, or of files that were sent.

use axum::Router;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use axum::routing::post;
use cairn_app::{Create, CreateEvent, Error, Message};
use cairn_wire::ollama::{CreateRequest, Licenses, ProgressLine};

use super::refused::{any, refuse};
use crate::body::Body;
use crate::error::{ApiError, json};
use crate::{Server, ndjson};

pub(super) fn routes() -> Router<Server> {
    Router::new().route("/api/create", post(create))
}

async fn create(State(server): State<Server>, Body(request): Body<CreateRequest>) -> Result<Response, ApiError> {
    let some = |text: &Option<String>| text.as_ref().is_some_and(|text| !text.is_empty());
    refuse(&[
        (request.draft_files.as_ref().is_some_and(|files| !files.is_empty()), "draft models"),
        (some(&request.remote_host), "a model of another server"),
        (request.messages.iter().flatten().any(|message| any(message.tool_calls.as_ref())), "calling tools"),
        (request.messages.iter().flatten().any(|message| any(message.images.as_ref())), "reading images"),
    ])?;
    let streams = request.stream.unwrap_or(true);
    let mut events = server.app().create(use_case(request));
    if streams {
        return ndjson::stream_or_refuse(events, server.activity().begin(), line).await;
    }
    let mut last = Err(Error::EngineGone);
    while let Some(event) = events.recv().await {
        last = line(event);
    }
    Ok(json(StatusCode::OK, &last?))
}

fn line(event: CreateEvent) -> Result<ProgressLine, Error> {
    match event {
        CreateEvent::Status(status) => Ok(ProgressLine { status, ..ProgressLine::default() }),
        CreateEvent::Progress { status, done_bytes, total_bytes } => {
            let digest = ProgressLine::QUANTISED.to_owned();
            Ok(ProgressLine { status, digest, total: total_bytes, completed: done_bytes })
        }
        CreateEvent::Failed(error) => Err(error),
    }
}

fn use_case(request: CreateRequest) -> Create {
    let message = |message: cairn_wire::ollama::Message| Message {
        role: message.role,
        content: message.content,
        thinking: message.thinking,
    };
    Create {
        name: if request.model.is_empty() { request.name } else { request.model },
        from: request.from,
        files: request.files.map(|files| files.into_iter().collect()),
        adapters: request.adapters.unwrap_or_default().into_iter().collect(),
        quantize: request.quantize.filter(|text| !text.is_empty()).or(request.quantization),
        template: request.template,
        system: request.system,
        licenses: request.license.map(Licenses::into_vec).unwrap_or_default(),
        parameters: request.parameters,
        messages: request.messages.unwrap_or_default().into_iter().map(message).collect(),
        renderer: request.renderer,
        parser: request.parser,
        requires: request.requires,
    }
}
