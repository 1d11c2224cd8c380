//! `POST /app/copy` and `POST /app/delete`: as under `/api`, with the number of copied or freed bytes.

use axum::Router;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use axum::routing::post;
use cairn_app::Error;
use cairn_app::library::{CopyEvent, Progress, Stage};
use cairn_wire::app::{CopyLine, CopyResponse, DeleteResponse};
use cairn_wire::ollama::{CopyRequest, DeleteRequest};

use crate::body::Body;
use crate::error::{ApiError, blocking, json};
use crate::{Server, ndjson};

pub(super) fn routes() -> Router<Server> {
    Router::new().route("/app/copy", post(copy)).route("/app/delete", post(delete))
}

async fn copy(State(server): State<Server>, Body(request): Body<CopyRequest>) -> Result<Response, ApiError> {
    let CopyRequest { source, destination } = request;
    let events = server.app().library().copying(source.clone(), destination);
    ndjson::stream_or_error(events, server.activity().begin(), move |event| line(event, &source)).await
}

fn line(event: CopyEvent, source: &str) -> Result<CopyLine, Error> {
    match event {
        CopyEvent::Progress(Progress { stage, done_bytes: completed, total_bytes: total }) => Ok(match stage {
            Stage::Hashing => CopyLine::Hashing { completed, total },
            Stage::Copying => CopyLine::Copying { completed, total },
        }),
        CopyEvent::Done(copied) => Ok(CopyLine::Success(CopyResponse {
            source: source.to_owned(),
            destination: copied.name,
            copied_bytes: Some(copied.copied_bytes),
        })),
        CopyEvent::Failed(error) => Err(error.into()),
    }
}

async fn delete(State(server): State<Server>, Body(request): Body<DeleteRequest>) -> Result<Response, ApiError> {
    let name = if request.model.is_empty() { request.name } else { request.model };
    let app = server.app().clone();
    let deleted = blocking(move || app.delete(&name)).await??;
    Ok(json(StatusCode::OK, &DeleteResponse { model: deleted.name, freed_bytes: Some(deleted.freed_bytes) }))
}
