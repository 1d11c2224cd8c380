//! `GET /app/chats/events`: streams the changes of chats.

use axum::Router;
use axum::extract::State;
use axum::response::Response;
use axum::routing::get;
use cairn_app::chats::ChatEvents;
use cairn_wire::app::chats::ChatEvent;

use crate::streaming::Events;
use crate::{Server, ndjson};

pub(super) fn routes() -> Router<Server> {
    Router::new().route("/app/chats/events", get(events))
}

async fn events(State(server): State<Server>) -> Response {
    let events = UntilStop { events: server.app().chats().chat_events(), server: server.clone() };
    ndjson::stream(events, server.activity().begin(), Ok)
}

/// Ends the stream at the shutdown.
struct UntilStop {
    events: ChatEvents,
    server: Server,
}

impl Events for UntilStop {
    type Event = ChatEvent;

    async fn next(&mut self) -> Option<ChatEvent> {
        tokio::select! {
            // Send pending changes before the shutdown ends the stream.
            biased;
            event = self.events.next() => event,
            () = self.server.stopping() => None,
        }
    }
}
