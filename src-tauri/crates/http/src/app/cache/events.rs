//! `GET /app/cache/events`: streams the full status at once and after each change.
//!
//! Each line has the full status, so a client never has to apply a sequence of changes.

use std::time::Duration;

use axum::Router;
use axum::extract::State;
use axum::response::Response;
use axum::routing::get;
use cairn_wire::app::CacheResponse;

use super::response;
use crate::streaming::Events;
use crate::{Server, ndjson};

/// Poll interval, which limits the rate of lines.
const POLL_INTERVAL: Duration = Duration::from_millis(500);

pub(super) fn routes() -> Router<Server> {
    Router::new().route("/app/cache/events", get(events))
}

async fn events(State(server): State<Server>) -> Response {
    let events = StatusEvents { last: None, server: server.clone() };
    ndjson::stream(events, server.activity().begin(), Ok)
}

struct StatusEvents {
    last: Option<CacheResponse>,
    server: Server,
}

impl Events for StatusEvents {
    type Event = CacheResponse;

    async fn next(&mut self) -> Option<CacheResponse> {
        loop {
            let status = response(self.server.app());
            if self.last.as_ref() != Some(&status) {
                self.last = Some(status.clone());
                return Some(status);
            }
            tokio::select! {
                () = tokio::time::sleep(POLL_INTERVAL) => {}
                () = self.server.stopping() => return None,
            }
        }
    }
}
