//! `GET /app/cache/events`: the whole status, now and whenever something changed, for as long as the client reads.
//!
//! A status is short, and whoever gets all of it each time can miss nothing.

use std::time::Duration;

use axum::Router;
use axum::extract::State;
use axum::response::Response;
use axum::routing::get;
use cairn_wire::app::CacheResponse;

use super::response;
use crate::ndjson::Events;
use crate::{Server, ndjson};

/// Numbers change faster than anybody reads them.
const BETWEEN_LOOKS: Duration = Duration::from_millis(500);

pub(super) fn routes() -> Router<Server> {
    Router::new().route("/app/cache/events", get(events))
}

async fn events(State(server): State<Server>) -> Response {
    let events = Statuses { last: None, server: server.clone() };
    ndjson::stream(events, server.activity().begin(), Ok)
}

struct Statuses {
    last: Option<CacheResponse>,
    server: Server,
}

impl Events for Statuses {
    type Event = CacheResponse;

    async fn next(&mut self) -> Option<CacheResponse> {
        loop {
            let now = response(self.server.app());
            if self.last.as_ref() != Some(&now) {
                self.last = Some(now.clone());
                return Some(now);
            }
            tokio::select! {
                () = tokio::time::sleep(BETWEEN_LOOKS) => {}
                () = self.server.stopping() => return None,
            }
        }
    }
}
