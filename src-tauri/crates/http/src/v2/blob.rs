//! `GET /v2/{namespace}/{model}/blobs/{digest}`, whole or in parts.

use std::net::SocketAddr;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{ConnectInfo, Path, State};
use axum::http::{HeaderMap, Method, StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use cairn_app::transfers::{BlobReader, Offer, Serving};
use cairn_store::{Digest, ModelRef};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;

use super::Refusal;
use super::range::{Asked, asked};
use super::sign_in::{address, challenge, client};
use crate::Server;
use crate::asker::Asker;

/// Pieces that wait for a slow client.
const WAITING_PIECES: usize = 2;

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
    let app = server.app();
    let size_bytes = app.transfers().offered_blob_size(&digest).await.ok_or_else(unknown)?;

    let text = |name| headers.get(name).and_then(|value| value.to_str().ok());
    let etag = format!("\"{digest}\"");
    if text(header::IF_NONE_MATCH) == Some(etag.as_str()) {
        return Ok((StatusCode::NOT_MODIFIED, [(header::ETAG, etag)]).into_response());
    }
    // Contents never change under a digest, so a condition on them holds exactly when it names the digest.
    let conditional = text(header::IF_RANGE).is_none_or(|known| known == etag);
    let range = asked(text(header::RANGE).filter(|_| conditional), size_bytes);
    let (status, bytes, content_range) = match range {
        Asked::All => (StatusCode::OK, 0..size_bytes, None),
        Asked::Part(bytes) => {
            let content_range = format!("bytes {}-{}/{}", bytes.start, bytes.end - 1, size_bytes);
            (StatusCode::PARTIAL_CONTENT, bytes, Some(content_range))
        }
        Asked::Unsatisfiable => {
            let content_range = format!("bytes */{}", size_bytes);
            return Ok((StatusCode::RANGE_NOT_SATISFIABLE, [(header::CONTENT_RANGE, content_range)]).into_response());
        }
    };
    let asker = Asker::of(&server, peer, &headers);
    let mut answer = Response::builder()
        .status(status)
        .header(header::CONTENT_TYPE, "application/octet-stream")
        .header(header::CONTENT_LENGTH, bytes.end - bytes.start)
        .header(header::ACCEPT_RANGES, "bytes")
        .header(header::ETAG, etag)
        .header("docker-content-digest", digest.to_string());
    if let Some(content_range) = content_range {
        answer = answer.header(header::CONTENT_RANGE, content_range);
    } else {
        // Where Ollama's client asks for the parts.
        answer = answer.header(header::LOCATION, address(&server, &asker, uri.path()));
    }
    let body = if method == Method::HEAD {
        Body::empty()
    } else {
        let busy = || Refusal::new(StatusCode::TOO_MANY_REQUESTS, "TOOMANYREQUESTS", "too many answers at once");
        let serving = app.transfers().peers().begin(asker.ip, app.clock().now()).ok_or_else(busy)?;
        match app.transfers().offered_blob(&digest, client(&server, &asker, &headers)).await? {
            Offer::Here(blob) => body(&server, serving, blob.read(bytes)),
            Offer::Nothing => return Err(unknown()),
            Offer::NotForYou => {
                return Ok(challenge(&server, &asker, &format!("{namespace}/{model}")));
            }
        }
    };
    answer
        .body(body)
        .map_err(|_| Refusal::new(StatusCode::BAD_REQUEST, "UNSUPPORTED", "the Host header cannot be repeated"))
}

/// The bytes of a blob as they are read, counted for the client, whose turn ends with them. Reading ends when the client
/// goes away, even while nothing comes.
fn body(server: &Server, serving: Serving, mut reader: BlobReader) -> Body {
    let (sender, pieces) = mpsc::channel(WAITING_PIECES);
    let busy = server.activity().begin();
    tokio::spawn(async move {
        send(&mut reader, &serving, &sender).await;
        // Before the client learns that this was all.
        drop((serving, busy, sender));
    });
    Body::from_stream(ReceiverStream::new(pieces))
}

async fn send(reader: &mut BlobReader, serving: &Serving, to: &mpsc::Sender<std::io::Result<Bytes>>) {
    loop {
        let piece = tokio::select! {
            piece = reader.next() => piece,
            () = to.closed() => return,
        };
        match piece {
            Ok(None) => return,
            Ok(Some(piece)) => {
                serving.sent(piece.len() as u64);
                if to.send(Ok(piece)).await.is_err() {
                    return;
                }
            }
            Err(error) => {
                tracing::warn!(%error, "an answer with a blob breaks off");
                // Who has gone needs no telling.
                let _ = to.send(Err(error)).await;
                return;
            }
        }
    }
}
