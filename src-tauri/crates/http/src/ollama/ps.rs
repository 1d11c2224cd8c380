//! `GET /api/ps`: the loaded models.

use std::time::{Duration, SystemTime};

use axum::Router;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use axum::routing::get;
use cairn_app::system::Running;
use cairn_wire::Timestamp;
use cairn_wire::ollama::{PsModel, PsResponse};

use crate::Server;
use crate::error::json;

/// Lifetime that represents "never" on the wire, as in Ollama: the maximum of Go's duration type, about 292 years.
const NEVER: Duration = Duration::from_nanos(i64::MAX as u64);

pub(super) fn routes() -> Router<Server> {
    Router::new().route("/api/ps", get(ps))
}

async fn ps(State(server): State<Server>) -> Response {
    let now = server.app().clock().now();
    let models = server.app().system().running().into_iter().map(|model| row(model, now)).collect();
    json(StatusCode::OK, &PsResponse { models })
}

fn row(running: Running, now: SystemTime) -> PsModel {
    PsModel {
        details: super::details(&running.summary.details),
        model: running.summary.name.clone(),
        name: running.summary.name,
        size: running.size_bytes,
        digest: running.summary.digest,
        expires_at: Timestamp(running.expires_at.unwrap_or(now + NEVER)),
        size_vram: running.gpu_bytes,
        context_length: running.context_tokens,
    }
}
