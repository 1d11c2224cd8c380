//! `GET /app/server`: the daemon's addresses, its clients and the last requests. `/app/server/events` streams it after
//! each change.

use std::time::Duration;

use axum::Router;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use axum::routing::get;
use cairn_wire::Timestamp;
use cairn_wire::app::ServerResponse;
use tokio::sync::watch;

use crate::error::json;
use crate::streaming::Events;
use crate::{Server, ndjson};

/// Minimum time between lines.
const LINE_INTERVAL: Duration = Duration::from_millis(500);

pub(super) fn routes() -> Router<Server> {
    Router::new().route("/app/server", get(server)).route("/app/server/events", get(events))
}

async fn server(State(server): State<Server>) -> Response {
    json(StatusCode::OK, &response(&server))
}

async fn events(State(server): State<Server>) -> Response {
    let mut changes = server.request_log().changes();
    changes.mark_changed();
    ndjson::stream(ServerEvents { changes, is_first: true, server: server.clone() }, server.activity().begin(), Ok)
}

struct ServerEvents {
    changes: watch::Receiver<u64>,
    is_first: bool,
    server: Server,
}

impl Events for ServerEvents {
    type Event = ServerResponse;

    async fn next(&mut self) -> Option<ServerResponse> {
        if !std::mem::take(&mut self.is_first) {
            tokio::select! {
                () = tokio::time::sleep(LINE_INTERVAL) => {}
                () = self.server.stopping() => return None,
            }
        }
        tokio::select! {
            // The sender lives as long as the server.
            changed = self.changes.changed() => changed.ok()?,
            () = self.server.stopping() => return None,
        }
        Some(response(&self.server))
    }
}

fn response(server: &Server) -> ServerResponse {
    let settings = server.app().settings().at_start();
    ServerResponse {
        version: cairn_app::VERSION.to_owned(),
        started_at: Timestamp(server.started_at()),
        addresses: server.addresses().iter().map(ToString::to_string).collect(),
        url: server.local_url(),
        lan: server.addresses().iter().any(|address| !address.ip().is_loopback()),
        share: settings.sharing.share,
        origins: settings.server.origins.clone(),
        clients: server.request_log().clients(),
        requests: server.request_log().requests(),
    }
}
