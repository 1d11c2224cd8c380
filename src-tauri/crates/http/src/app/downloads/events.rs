//! `GET /app/downloads/events`: streams the full list at once and after each change.
//!
//! Each line has the full list, so a client never has to apply a sequence of changes.

use std::time::Duration;

use axum::Router;
use axum::extract::State;
use axum::response::Response;
use axum::routing::get;
use cairn_app::App;
use cairn_wire::app::DownloadsResponse;
use tokio::sync::watch;

use super::response;
use crate::streaming::Events;
use crate::{Server, ndjson};

/// Delay after a change, which limits the rate of lines.
const LINE_INTERVAL: Duration = Duration::from_millis(200);

pub(super) fn routes() -> Router<Server> {
    Router::new().route("/app/downloads/events", get(events))
}

async fn events(State(server): State<Server>) -> Response {
    let mut changes = server.app().transfers().changes();
    // The first line is the current list.
    changes.mark_changed();
    let events = ListEvents { app: server.app().clone(), changes, server: server.clone() };
    ndjson::stream(events, server.activity().begin(), Ok)
}

struct ListEvents {
    app: App,
    changes: watch::Receiver<u64>,
    server: Server,
}

impl Events for ListEvents {
    type Event = DownloadsResponse;

    async fn next(&mut self) -> Option<DownloadsResponse> {
        tokio::select! {
            changed = self.changes.changed() => changed.ok()?,
            () = self.server.stopping() => return None,
        }
        // Collect the changes of this interval into one line.
        tokio::time::sleep(LINE_INTERVAL).await;
        self.changes.mark_unchanged();
        Some(response(&self.app))
    }
}
