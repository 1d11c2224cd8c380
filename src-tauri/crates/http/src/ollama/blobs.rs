//! `/api/blobs/{digest}`: uploads of blobs for a later `/api/create`. The body is written to disk in chunks, so its
//! size is not limited by memory.

use axum::Router;
use axum::body::{Body, BodyDataStream};
use axum::extract::{Path, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::routing::head;
use tokio_stream::StreamExt;

use crate::Server;
use crate::body::{DRAIN_BYTES, drain};
use crate::error::ApiError;

pub(super) fn routes() -> Router<Server> {
    Router::new().route("/api/blobs/{digest}", head(exists).post(receive))
}

async fn exists(State(server): State<Server>, Path(digest): Path<String>) -> Result<StatusCode, ApiError> {
    Ok(if server.app().library().blob_size(&digest)?.is_some() { StatusCode::OK } else { StatusCode::NOT_FOUND })
}

async fn receive(
    State(server): State<Server>,
    Path(digest): Path<String>,
    headers: HeaderMap,
    body: Body,
) -> Result<StatusCode, ApiError> {
    let stored_bytes = server.app().library().blob_size(&digest)?;
    let size_bytes = headers.get(header::CONTENT_LENGTH).and_then(|text| text.to_str().ok()?.parse().ok());
    let mut chunks = body.into_data_stream();
    let received = match stored_bytes {
        Some(_) => Ok(StatusCode::OK),
        None => write(&server, &digest, size_bytes, &mut chunks).await,
    };
    // A second upload of a stored blob has the blob's size.
    drain(&mut chunks, stored_bytes.unwrap_or_default().max(DRAIN_BYTES)).await;
    received
}

async fn write(
    server: &Server,
    digest: &str,
    size_bytes: Option<u64>,
    chunks: &mut BodyDataStream,
) -> Result<StatusCode, ApiError> {
    let upload = server.app().library().upload(digest, size_bytes)?;
    while let Some(chunk) = chunks.next().await {
        let chunk = chunk.map_err(|error| ApiError::bad_request(format!("the upload was interrupted: {error}")))?;
        if !upload.write(chunk).await {
            break;
        }
    }
    upload.end().await?;
    Ok(StatusCode::CREATED)
}
