//! `POST /api/create`: creates a model from another model or from uploaded files.

use axum::Router;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use axum::routing::post;
use cairn_app::inference::Message;
use cairn_app::library::{Create, CreateStep};
use cairn_app::{CreateEvent, Error};
use cairn_wire::ollama::{CreateRequest, Licenses, ProgressLine, PullLine};
use serde::Serialize;

use super::pull;
use super::unsupported::{any, reject, reject_with_advice};
use crate::body::{Body, BodyLimit};
use crate::client::ClientInfo;
use crate::error::{ApiError, json};
use crate::{Server, ndjson};

pub(super) fn routes() -> Router<Server> {
    Router::new().route("/api/create", post(create).layer(BodyLimit::MODELFILE.layer()))
}

async fn create(
    State(server): State<Server>,
    client: ClientInfo,
    Body(request): Body<CreateRequest>,
) -> Result<Response, ApiError> {
    let has_text = |text: &Option<String>| text.as_ref().is_some_and(|text| !text.is_empty());
    let has_entries =
        |map: &Option<serde_json::Map<String, serde_json::Value>>| map.as_ref().is_some_and(|map| !map.is_empty());
    reject_with_advice(&[
        (
            has_entries(&request.draft_files) || has_text(&request.draft_quantize),
            "a draft model (draft_files, draft_quantize)",
            "create the model without one; the answers are the same but slower",
        ),
        (
            has_text(&request.remote_host),
            "a model of another server (remote_host)",
            "use that server directly (set OLLAMA_HOST for commands), or omit remote_host to pull the model",
        ),
        (
            has_entries(&request.info),
            "custom model metadata (info)",
            "omit it; the metadata of a model is read from its file",
        ),
    ])?;
    reject(&[
        (request.messages.iter().flatten().any(|message| any(message.tool_calls.as_ref())), "calling tools"),
        (request.messages.iter().flatten().any(|message| any(message.images.as_ref())), "reading images"),
    ])?;
    let stream = request.stream.unwrap_or(true);
    let mut events = server.app().create(Create { beyond: !client.is_local, ..use_case(request) });
    if stream {
        return ndjson::stream_or_error(events, server.activity().begin(), line).await;
    }
    let mut last = Err(cairn_app::inference::Error::EngineGone.into());
    let mut warnings = Vec::new();
    while let Some(event) = events.recv().await {
        match event {
            CreateEvent::Step(CreateStep::Warning(warning)) => warnings.push(warning),
            event => last = line(event),
        }
    }
    let last = match last? {
        Line::Create(line) => Line::Create(ProgressLine { warnings, ..line }),
        line @ Line::Pull(_) => line,
    };
    Ok(json(StatusCode::OK, &last))
}

/// Progress line of the creation, or of the pull of the base model.
#[derive(Serialize)]
#[serde(untagged)]
enum Line {
    Pull(PullLine),
    Create(ProgressLine),
}

fn line(event: CreateEvent) -> Result<Line, Error> {
    match event {
        CreateEvent::Pull(event) => pull::line(event).map(Line::Pull),
        CreateEvent::Step(CreateStep::Status(status)) => {
            Ok(Line::Create(ProgressLine { status, ..ProgressLine::default() }))
        }
        CreateEvent::Step(CreateStep::Warning(warning)) => {
            Ok(Line::Create(ProgressLine { status: format!("warning: {warning}"), ..ProgressLine::default() }))
        }
        CreateEvent::Step(CreateStep::Progress { status, done_bytes, total_bytes }) => {
            let digest = ProgressLine::QUANTISED.to_owned();
            let (total, completed) = (total_bytes, done_bytes);
            Ok(Line::Create(ProgressLine { status, digest, total, completed, ..ProgressLine::default() }))
        }
        CreateEvent::Failed(error) => Err(error),
    }
}

fn use_case(request: CreateRequest) -> Create {
    let message = |message: cairn_wire::ollama::Message| Message {
        thinking: message.thinking,
        ..Message::new(message.role, message.content)
    };
    Create {
        name: if request.model.is_empty() { request.name } else { request.model },
        from: request.from,
        files: request.files.map(|files| files.into_iter().collect()),
        adapters: request.adapters.unwrap_or_default().into_iter().collect(),
        quantize: request.quantize.filter(|text| !text.is_empty()).or(request.quantization),
        imatrix: request.imatrix.filter(|digest| !digest.is_empty()),
        template: request.template,
        system: request.system,
        licenses: request.license.map(Licenses::into_vec).unwrap_or_default(),
        parameters: request.parameters,
        messages: request.messages.unwrap_or_default().into_iter().map(message).collect(),
        renderer: request.renderer,
        parser: request.parser,
        requires: request.requires,
        insecure: request.insecure,
        beyond: false,
    }
}
