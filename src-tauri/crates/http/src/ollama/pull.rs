//! `POST /api/pull`: pulls a model from a registry. A disconnect of the client stops the pull, unless another client
//! waits for the same model. Downloaded bytes are kept.

use axum::Router;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use axum::routing::post;
use cairn_app::Error;
use cairn_app::transfers::{Pull, PullEvent, PullEvents, PulledBlob};
use cairn_wire::ollama::{PullLine, PullRequest};

use crate::body::Body;
use crate::client::ClientInfo;
use crate::error::{ApiError, json};
use crate::streaming::Events;
use crate::{Server, ndjson};

pub(super) fn routes() -> Router<Server> {
    Router::new().route("/api/pull", post(pull))
}

async fn pull(
    State(server): State<Server>,
    client: ClientInfo,
    Body(request): Body<PullRequest>,
) -> Result<Response, ApiError> {
    let stream = request.stream.unwrap_or(true);
    let name = if request.model.is_empty() { request.name } else { request.model };
    let pull = Pull { name, insecure: request.insecure, sources: request.sources, force: request.force };
    if !client.is_local {
        server.app().transfers().allow_remote_client(&pull).await?;
    }
    let mut events = server.app().transfers().pull(pull)?;
    if stream {
        // As in Ollama, an immediate error is a line of the stream: clients expect it there.
        return Ok(ndjson::stream(events, server.activity().begin(), line));
    }
    let mut last = PullLine::default();
    while let Some(event) = events.next().await {
        last = line(event)?;
    }
    Ok(json(StatusCode::OK, &last))
}

impl Events for PullEvents {
    type Event = PullEvent;

    fn next(&mut self) -> impl Future<Output = Option<PullEvent>> + Send {
        PullEvents::next(self)
    }
}

pub(super) fn line(event: PullEvent) -> Result<PullLine, Error> {
    match event {
        PullEvent::Step(step) => Ok(PullLine { status: step.text().to_owned(), ..PullLine::default() }),
        PullEvent::Blob(blob) => Ok(progress(blob)),
        // Ollama's clients show any status text, so their users see the reason of a delay.
        PullEvent::Problem(line) => Ok(PullLine { status: line.clone(), problem: Some(line), ..PullLine::default() }),
        PullEvent::Failed(error) => Err(error.into()),
    }
}

fn progress(blob: PulledBlob) -> PullLine {
    let hex = blob.digest.hex();
    PullLine {
        status: format!("pulling {}", hex.get(..12).unwrap_or(&hex)),
        digest: blob.digest.to_string(),
        total: blob.size_bytes,
        completed: blob.held_bytes,
        bytes_per_second: blob.bytes_per_s,
        source: blob.host,
        problem: None,
    }
}
