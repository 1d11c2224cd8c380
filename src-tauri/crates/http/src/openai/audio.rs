//! `/v1/audio`: speech, which no model of this server understands. The response states that, and not that the path is unknown.

use axum::Router;
use axum::routing::post;

use crate::Server;
use crate::error::ApiError;

pub(super) fn routes() -> Router<Server> {
    Router::new().route("/v1/audio/{*endpoint}", post(refuse))
}

async fn refuse() -> ApiError {
    ApiError::bad_request(
        "audio is not supported: this server runs language models only; send text to /v1/chat/completions",
    )
}
