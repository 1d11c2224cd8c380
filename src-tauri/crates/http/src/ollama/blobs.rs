//! `/api/blobs/{digest}`: contents that a client sends before it asks for a model to be made of them. They go to the disk as
//! they come, so that their length is no matter.

use axum::Router;
use axum::body::{Body, BodyDataStream};
use axum::extract::{Path, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::routing::head;
use tokio_stream::StreamExt;

use crate::Server;
use crate::error::ApiError;

pub(super) fn routes() -> Router<Server> {
    Router::new().route("/api/blobs/{digest}", head(exists).post(receive))
}

async fn exists(State(server): State<Server>, Path(digest): Path<String>) -> Result<StatusCode, ApiError> {
    Ok(if server.app().library().has_blob(&digest)? { StatusCode::OK } else { StatusCode::NOT_FOUND })
}

async fn receive(
    State(server): State<Server>,
    Path(digest): Path<String>,
    headers: HeaderMap,
    body: Body,
) -> Result<StatusCode, ApiError> {
    let size_bytes = headers.get(header::CONTENT_LENGTH).and_then(|text| text.to_str().ok()?.parse().ok());
    let mut pieces = body.into_data_stream();
    let received = take(&server, &digest, size_bytes, &mut pieces).await;
    // Clients listen once all is sent. Were the connection to end before, they would hear of that and not of the reason.
    while let Some(Ok(_)) = pieces.next().await {}
    received
}

async fn take(
    server: &Server,
    digest: &str,
    size_bytes: Option<u64>,
    pieces: &mut BodyDataStream,
) -> Result<StatusCode, ApiError> {
    if server.app().library().has_blob(digest)? {
        return Ok(StatusCode::OK);
    }
    let upload = server.app().library().upload(digest, size_bytes)?;
    while let Some(piece) = pieces.next().await {
        let piece = piece.map_err(|error| ApiError::bad_request(format!("the contents broke off: {error}")))?;
        if !upload.write(piece).await {
            break;
        }
    }
    upload.end().await?;
    Ok(StatusCode::CREATED)
}
