//! `GET /v2/{namespace}/{model}/blobs/{digest}`, whole or in parts.

use std::io::SeekFrom;
use std::net::SocketAddr;

use axum::Router;
use axum::body::Body;
use axum::extract::{ConnectInfo, Path, State};
use axum::http::{HeaderMap, Method, StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use cairn_app::{Serving, SharedBlob};
use cairn_store::{Digest, ModelRef};
use tokio::io::{AsyncReadExt, AsyncSeekExt};
use tokio_stream::StreamExt;
use tokio_util::io::ReaderStream;

use super::Refusal;
use super::range::{Asked, asked};
use crate::Server;

/// Bytes that are read from the file at once.
const PIECE_BYTES: usize = 256 << 10;

pub(super) fn routes() -> Router<Server> {
    Router::new().route("/v2/{namespace}/{model}/blobs/{digest}", get(blob))
}

async fn blob(
    State(server): State<Server>,
    ConnectInfo(peer): ConnectInfo<SocketAddr>,
    Path((namespace, model, digest)): Path<(String, String, String)>,
    method: Method,
    uri: Uri,
    headers: HeaderMap,
) -> Result<Response, Refusal> {
    if ModelRef::from_parts("registry", &namespace, &model, "latest").is_none() {
        return Err(Refusal::new(StatusCode::BAD_REQUEST, "NAME_INVALID", "invalid model name"));
    }
    let digest: Digest = digest.parse().map_err(|error: cairn_store::DigestError| {
        Refusal::new(StatusCode::BAD_REQUEST, "DIGEST_INVALID", error.to_string())
    })?;
    let unknown = || Refusal::new(StatusCode::NOT_FOUND, "BLOB_UNKNOWN", "this machine does not have the blob");
    let app = server.app().clone();
    let found = tokio::task::spawn_blocking(move || app.shared_blob(&digest));
    let blob = found.await.expect("looking for a file does not panic").ok_or_else(unknown)?;

    let text = |name| headers.get(name).and_then(|value| value.to_str().ok());
    let etag = format!("\"{digest}\"");
    if text(header::IF_NONE_MATCH) == Some(etag.as_str()) {
        return Ok((StatusCode::NOT_MODIFIED, [(header::ETAG, etag)]).into_response());
    }
    // Contents never change under a digest, so a condition on them holds exactly when it names the digest.
    let conditional = text(header::IF_RANGE).is_none_or(|known| known == etag);
    let range = asked(text(header::RANGE).filter(|_| conditional), blob.size_bytes);
    let (status, bytes, content_range) = match range {
        Asked::All => (StatusCode::OK, 0..blob.size_bytes, None),
        Asked::Part(bytes) => {
            let content_range = format!("bytes {}-{}/{}", bytes.start, bytes.end - 1, blob.size_bytes);
            (StatusCode::PARTIAL_CONTENT, bytes, Some(content_range))
        }
        Asked::Unsatisfiable => {
            let content_range = format!("bytes */{}", blob.size_bytes);
            return Ok((StatusCode::RANGE_NOT_SATISFIABLE, [(header::CONTENT_RANGE, content_range)]).into_response());
        }
    };
    let host = text(header::HOST)
        .map_or_else(|| server.addresses().first().map(ToString::to_string), |host| Some(host.to_owned()));
    let mut answer = Response::builder()
        .status(status)
        .header(header::CONTENT_TYPE, "application/octet-stream")
        .header(header::CONTENT_LENGTH, bytes.end - bytes.start)
        .header(header::ACCEPT_RANGES, "bytes")
        .header(header::ETAG, etag)
        .header("docker-content-digest", digest.to_string());
    if let Some(content_range) = content_range {
        answer = answer.header(header::CONTENT_RANGE, content_range);
    } else if let Some(host) = host {
        // Where Ollama's client asks for the parts.
        answer = answer.header(header::LOCATION, format!("http://{host}{}", uri.path()));
    }
    let body = if method == Method::HEAD { Body::empty() } else { body(&server, peer, &blob, bytes).await? };
    answer
        .body(body)
        .map_err(|_| Refusal::new(StatusCode::BAD_REQUEST, "UNSUPPORTED", "the Host header cannot be repeated"))
}

/// The bytes of a blob as they are read, counted for the client, whose turn ends with them.
async fn body(
    server: &Server,
    peer: SocketAddr,
    blob: &SharedBlob,
    bytes: std::ops::Range<u64>,
) -> Result<Body, Refusal> {
    let busy = || Refusal::new(StatusCode::TOO_MANY_REQUESTS, "TOOMANYREQUESTS", "too many answers at once");
    let serving: Serving = server.app().peers().begin(peer.ip(), server.app().clock().now()).ok_or_else(busy)?;
    let unread = |error: std::io::Error| Refusal::new(StatusCode::INTERNAL_SERVER_ERROR, "UNKNOWN", error.to_string());
    let mut file = tokio::fs::File::open(&blob.path).await.map_err(unread)?;
    file.seek(SeekFrom::Start(bytes.start)).await.map_err(unread)?;
    let busy = server.activity().begin();
    let read = ReaderStream::with_capacity(file.take(bytes.end - bytes.start), PIECE_BYTES);
    Ok(Body::from_stream(read.map(move |piece| {
        let _busy = &busy;
        piece.inspect(|piece| serving.sent(piece.len() as u64))
    })))
}
