//! `POST /app/cache/test`: checks whether a folder or a remote address can be a tier, without using it as one.

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

async fn test(State(server): State<Server>, Body(request): Body<CacheTestRequest>) -> Result<Response, ApiError> {
    let test = CacheTest { folder: request.folder.map(Into::into), remote: request.remote };
    let app = server.app().clone();
    let [folder, remote] = blocking(move || app.cache().test(test)).await?;
    Ok(json(StatusCode::OK, &CacheTested { folder: folder.map(tested), remote: remote.map(tested) }))
}

fn tested(tested: TestedPlace) -> wire::TestedPlace {
    wire::TestedPlace {
        place: tested.place,
        works: tested.reason.is_none(),
        reason: tested.reason,
        free_bytes: tested.free_bytes,
        round_trip_ms: tested.round_trip.map(|took| took.as_secs_f64() * 1e3),
    }
}
