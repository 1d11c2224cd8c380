//! `GET /app/attend`: a client that waits for its user says that it is there, for as long as it reads this answer.
//!
//! The daemon ends when nobody has been there for a while; an open prompt is somebody. An empty line comes from time to
//! time, so that a connection whose other end vanished is noticed.

use std::convert::Infallible;
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use tokio::sync::mpsc;
use tokio_stream::StreamExt;
use tokio_stream::wrappers::ReceiverStream;

use crate::Server;

const BETWEEN_LINES: Duration = Duration::from_secs(20);

pub(super) fn routes() -> Router<Server> {
    Router::new().route("/app/attend", get(attend))
}

async fn attend(State(server): State<Server>) -> Response {
    let busy = server.activity().begin();
    let (sender, receiver) = mpsc::channel(1);
    tokio::spawn(async move {
        let _busy = busy;
        while sender.send(Bytes::from_static(b"\n")).await.is_ok() {
            tokio::select! {
                () = tokio::time::sleep(BETWEEN_LINES) => {}
                () = sender.closed() => return,
                () = server.stopping() => return,
            }
        }
    });
    let lines = ReceiverStream::new(receiver).map(Ok::<_, Infallible>);
    ([(header::CONTENT_TYPE, "application/x-ndjson")], Body::from_stream(lines)).into_response()
}
