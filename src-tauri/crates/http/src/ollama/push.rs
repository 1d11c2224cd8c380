//! `POST /api/push`: pushes a model to the registry of its name. A disconnect of the client cancels the push.

use axum::Router;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use axum::routing::post;
use cairn_app::Error;
use cairn_app::transfers::{Pull, Push, PushEvent};
use cairn_wire::ollama::{PullLine, PushRequest};

use crate::body::Body;
use crate::client::ClientInfo;
use crate::error::{ApiError, json};
use crate::{Server, ndjson};

pub(super) fn routes() -> Router<Server> {
    Router::new().route("/api/push", post(push))
}

async fn push(
    State(server): State<Server>,
    client: ClientInfo,
    Body(request): Body<PushRequest>,
) -> Result<Response, ApiError> {
    let name = if request.model.is_empty() { request.name } else { request.model };
    if !client.is_local {
        // Pushes have the same address rules as pulls.
        let pull = Pull { name: name.clone(), insecure: request.insecure, ..Pull::default() };
        server.app().transfers().allow_remote_client(&pull).await?;
    }
    let mut events = server.app().transfers().push(Push { name, insecure: request.insecure });
    let guard = server.activity().begin();
    if request.stream.unwrap_or(true) {
        return ndjson::stream_or_error(events, guard, line).await;
    }
    let mut last = PullLine::default();
    while let Some(event) = events.recv().await {
        last = line(event)?;
    }
    Ok(json(StatusCode::OK, &last))
}

fn line(event: PushEvent) -> Result<PullLine, Error> {
    let step = |status: &str| PullLine { status: status.to_owned(), ..PullLine::default() };
    match event {
        PushEvent::Retrieving => Ok(step("retrieving manifest")),
        PushEvent::Blob { digest, size_bytes, sent_bytes } => {
            let hex = digest.hex();
            let digest = digest.to_string();
            let status = format!("pushing {}", hex.get(..12).unwrap_or(&hex));
            Ok(PullLine { status, digest, total: size_bytes, completed: sent_bytes, ..PullLine::default() })
        }
        PushEvent::Problem(line) => Ok(PullLine { status: line.clone(), problem: Some(line), ..PullLine::default() }),
        PushEvent::Manifest => Ok(step("pushing manifest")),
        PushEvent::Success => Ok(step("success")),
        PushEvent::Failed(error) => Err(error.into()),
    }
}
