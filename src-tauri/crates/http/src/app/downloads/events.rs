//! `GET /app/downloads/events`: the whole list, now and whenever something changed, for as long as the client reads.
//!
//! A list is short, and whoever gets all of it each time can miss nothing.

use std::time::Duration;

use axum::Router;
use axum::extract::State;
use axum::response::Response;
use axum::routing::get;
use cairn_app::App;
use cairn_wire::app::DownloadsResponse;
use tokio::sync::watch;

use super::response;
use crate::ndjson::Events;
use crate::{Server, ndjson};

/// Numbers change faster than anybody reads them.
const BETWEEN_LINES: Duration = Duration::from_millis(200);

pub(super) fn routes() -> Router<Server> {
    Router::new().route("/app/downloads/events", get(events))
}

async fn events(State(server): State<Server>) -> Response {
    let mut changes = server.app().transfers().changes();
    // The first line is how things are.
    changes.mark_changed();
    let events = Lists { app: server.app().clone(), changes, server: server.clone() };
    ndjson::stream(events, server.activity().begin(), Ok)
}

struct Lists {
    app: App,
    changes: watch::Receiver<u64>,
    server: Server,
}

impl Events for Lists {
    type Event = DownloadsResponse;

    async fn next(&mut self) -> Option<DownloadsResponse> {
        tokio::select! {
            changed = self.changes.changed() => changed.ok()?,
            () = self.server.stopping() => return None,
        }
        // Whatever happens within that time is in one list.
        tokio::time::sleep(BETWEEN_LINES).await;
        self.changes.mark_unchanged();
        Some(response(&self.app))
    }
}
