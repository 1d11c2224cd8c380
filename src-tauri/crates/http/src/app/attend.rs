//! `GET /app/attend`: keeps the daemon alive while the client reads the response.
//!
//! An idle daemon shuts down. A client with an open prompt is idle but still needs the daemon. The response is an
//! endless stream of empty lines, which detect a broken connection.

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

const LINE_INTERVAL: Duration = Duration::from_secs(20);

pub(super) fn routes() -> Router<Server> {
    Router::new().route("/app/attend", get(attend))
}

async fn attend(State(server): State<Server>) -> Response {
    let guard = server.activity().begin();
    let (sender, receiver) = mpsc::channel(1);
    tokio::spawn(async move {
        let _guard = guard;
        while sender.send(Bytes::from_static(b"\n")).await.is_ok() {
            tokio::select! {
                () = tokio::time::sleep(LINE_INTERVAL) => {}
                () = sender.closed() => return,
                () = server.stopping() => return,
            }
        }
    });
    let lines = ReceiverStream::new(receiver).map(Ok::<_, Infallible>);
    ([(header::CONTENT_TYPE, "application/x-ndjson")], Body::from_stream(lines)).into_response()
}
