//! `POST /app/cache/test`: tries a place for kept prefixes without using it.

use axum::Router;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use axum::routing::post;
use cairn_app::cache::{CacheTest, TestedPlace};
use cairn_wire::app::{self as wire, CacheTestRequest, CacheTested};

use crate::Server;
use crate::body::Body;
use crate::error::{ApiError, blocking, json};

pub(super) fn routes() -> Router<Server> {
    Router::new().route("/app/cache/test", post(test))
}

async fn test(State(server): State<Server>, Body(asked): Body<CacheTestRequest>) -> Result<Response, ApiError> {
    let test = CacheTest { folder: asked.folder.map(Into::into), remote: asked.remote };
    let app = server.app().clone();
    let [folder, remote] = blocking(move || app.cache().test(test)).await?;
    Ok(json(StatusCode::OK, &CacheTested { folder: folder.map(told), remote: remote.map(told) }))
}

fn told(tested: TestedPlace) -> wire::TestedPlace {
    wire::TestedPlace {
        place: tested.place,
        works: tested.reason.is_none(),
        reason: tested.reason,
        free_bytes: tested.free_bytes,
        round_trip_ms: tested.round_trip.map(|took| took.as_secs_f64() * 1e3),
    }
}
