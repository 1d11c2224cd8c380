//! `GET /app/chats/events`: streams the changes of chats.

use axum::Router;
use axum::extract::State;
use axum::response::Response;
use axum::routing::get;
use cairn_app::chats::{Changed, Changes};
use cairn_wire::app::chats::ChatEvent;

use super::wire_types;
use crate::ndjson::Events;
use crate::{Server, ndjson};

pub(super) fn routes() -> Router<Server> {
    Router::new().route("/app/chats/events", get(events))
}

async fn events(State(server): State<Server>) -> Response {
    let events = ChatEvents { changes: server.app().chats().chat_changes(), server: server.clone() };
    ndjson::stream(events, server.activity().begin(), Ok)
}

struct ChatEvents {
    changes: Changes,
    server: Server,
}

impl Events for ChatEvents {
    type Event = ChatEvent;

    async fn next(&mut self) -> Option<ChatEvent> {
        let changed = tokio::select! {
            // Send pending changes before the shutdown ends the stream.
            biased;
            changed = self.changes.next() => changed?,
            () = self.server.stopping() => return None,
        };
        Some(match changed {
            Changed::Chat(summary) => ChatEvent::Chat(wire_types::summary(*summary)),
            Changed::Removed(id) => ChatEvent::Removed(id),
            Changed::Several(count) => ChatEvent::Missed(count),
        })
    }
}
