//! `GET /v2/{namespace}/{model}/blobs/{digest}`: a blob, or a range of one.

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{Path, State};
use axum::http::{HeaderMap, Method, StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use cairn_app::transfers::{BlobReader, Offer, Serving};
use cairn_store::{Digest, ModelRef};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;

use super::range::{RequestedRange, parse_range};
use super::sign_in::{challenge, pull_client, url};
use crate::Server;
use crate::client::ClientInfo;
use crate::error::RegistryError;

/// Capacity of the channel to the client in chunks. A full channel blocks the reader.
const QUEUED_CHUNKS: usize = 2;

pub(super) fn routes() -> Router<Server> {
    Router::new().route("/v2/{namespace}/{model}/blobs/{digest}", get(blob))
}

async fn blob(
    State(server): State<Server>,
    client: ClientInfo,
    Path((namespace, model, digest)): Path<(String, String, String)>,
    method: Method,
    uri: Uri,
    headers: HeaderMap,
) -> Result<Response, RegistryError> {
    if ModelRef::from_parts("registry", &namespace, &model, "latest").is_err() {
        return Err(RegistryError::new(StatusCode::BAD_REQUEST, "NAME_INVALID", "invalid model name"));
    }
    let digest: Digest = digest.parse().map_err(|error: cairn_store::DigestError| {
        RegistryError::new(StatusCode::BAD_REQUEST, "DIGEST_INVALID", error.to_string())
    })?;
    let unknown = || RegistryError::new(StatusCode::NOT_FOUND, "BLOB_UNKNOWN", "this machine does not have the blob");
    let app = server.app();
    let size_bytes = app.transfers().offered_blob_size(&digest).await.ok_or_else(unknown)?;

    let text = |name| headers.get(name).and_then(|value| value.to_str().ok());
    let etag = format!("\"{digest}\"");
    if text(header::IF_NONE_MATCH) == Some(etag.as_str()) {
        return Ok((StatusCode::NOT_MODIFIED, [(header::ETAG, etag)]).into_response());
    }
    // The contents of a digest never change. So `If-Range` is true exactly if it has the digest.
    let is_range_valid = text(header::IF_RANGE).is_none_or(|tag| tag == etag);
    let range = parse_range(text(header::RANGE).filter(|_| is_range_valid), size_bytes);
    let (status, bytes, content_range) = match range {
        RequestedRange::Whole => (StatusCode::OK, 0..size_bytes, None),
        RequestedRange::Part(bytes) => {
            let content_range = format!("bytes {}-{}/{}", bytes.start, bytes.end - 1, size_bytes);
            (StatusCode::PARTIAL_CONTENT, bytes, Some(content_range))
        }
        RequestedRange::Unsatisfiable => {
            let content_range = format!("bytes */{}", size_bytes);
            return Ok((StatusCode::RANGE_NOT_SATISFIABLE, [(header::CONTENT_RANGE, content_range)]).into_response());
        }
    };
    let mut response = Response::builder()
        .status(status)
        .header(header::CONTENT_TYPE, "application/octet-stream")
        // A browser must not show a blob as a page of this server.
        .header(header::CONTENT_SECURITY_POLICY, "default-src 'none'; sandbox")
        .header(header::CONTENT_DISPOSITION, "attachment")
        .header(header::CONTENT_LENGTH, bytes.end - bytes.start)
        .header(header::ACCEPT_RANGES, "bytes")
        .header(header::ETAG, etag)
        .header("docker-content-digest", digest.to_string());
    if let Some(content_range) = content_range {
        response = response.header(header::CONTENT_RANGE, content_range);
    } else {
        // Ollama's client requests the ranges from this URL.
        response = response.header(header::LOCATION, url(&server, &client, uri.path()));
    }
    let body = if method == Method::HEAD {
        Body::empty()
    } else {
        let busy =
            || RegistryError::new(StatusCode::TOO_MANY_REQUESTS, "TOOMANYREQUESTS", "too many requests; retry later");
        let serving = app.transfers().peers().begin(client.ip, app.clock().now()).ok_or_else(busy)?;
        match app.transfers().offered_blob(&digest, pull_client(&server, &client, &headers)).await? {
            Offer::Here(blob) => body(&server, serving, blob.read(bytes)),
            Offer::Nothing => return Err(unknown()),
            Offer::SignInRequired => {
                return Ok(challenge(&server, &client, &format!("{namespace}/{model}")));
            }
        }
    };
    response.body(body).map_err(|_| RegistryError::new(StatusCode::BAD_REQUEST, "UNSUPPORTED", "invalid Host header"))
}

/// Returns a body that streams a blob and counts the sent bytes for the client. The client's slot is released at the
/// end of the body. Reading stops when the client disconnects, even while the reader waits for bytes.
fn body(server: &Server, serving: Serving, mut reader: BlobReader) -> Body {
    let (sender, chunks) = mpsc::channel(QUEUED_CHUNKS);
    let guard = server.activity().begin();
    tokio::spawn(async move {
        send(&mut reader, &serving, &sender).await;
        // Release the slot and the guard before the client sees the end of the body.
        drop((serving, guard, sender));
    });
    Body::from_stream(ReceiverStream::new(chunks))
}

async fn send(reader: &mut BlobReader, serving: &Serving, to: &mpsc::Sender<std::io::Result<Bytes>>) {
    loop {
        let chunk = tokio::select! {
            chunk = reader.next() => chunk,
            () = to.closed() => return,
        };
        match chunk {
            Ok(None) => return,
            Ok(Some(chunk)) => {
                serving.sent(chunk.len() as u64);
                if to.send(Ok(chunk)).await.is_err() {
                    return;
                }
            }
            Err(error) => {
                tracing::warn!(%error, "cannot read a blob while sending it");
                // The client may have disconnected.
                let _ = to.send(Err(error)).await;
                return;
            }
        }
    }
}
