//! `GET /app/chats/events`: each change of a chat, for as long as the client reads.

use axum::Router;
use axum::extract::State;
use axum::response::Response;
use axum::routing::get;
use cairn_app::chats::{Changed, Changes};
use cairn_wire::app::chats::ChatEvent;

use super::told;
use crate::ndjson::Events;
use crate::{Server, ndjson};

pub(super) fn routes() -> Router<Server> {
    Router::new().route("/app/chats/events", get(events))
}

async fn events(State(server): State<Server>) -> Response {
    let lines = Lines { changes: server.app().chats().chat_changes(), server: server.clone() };
    ndjson::stream(lines, server.activity().begin(), Ok)
}

struct Lines {
    changes: Changes,
    server: Server,
}

impl Events for Lines {
    type Event = ChatEvent;

    async fn next(&mut self) -> Option<ChatEvent> {
        let changed = tokio::select! {
            // What has changed before the end is told before it.
            biased;
            changed = self.changes.next() => changed?,
            () = self.server.stopping() => return None,
        };
        Some(match changed {
            Changed::Chat(summary) => ChatEvent::Chat(told::summary(*summary)),
            Changed::Removed(id) => ChatEvent::Removed(id),
            Changed::Several(count) => ChatEvent::Missed(count),
        })
    }
}
