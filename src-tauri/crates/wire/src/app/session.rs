//! Sessions of the browser interface: a ticket from one of Cairn's own programs is exchanged for a session token.

use serde::{Deserialize, Serialize};

/// Response to `POST /app/session/ticket`, which Cairn's own programs send with the daemon token.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TicketResponse {
    /// `http://127.0.0.1:PORT/ui/#t=...`: valid once, for a minute.
    pub url: String,
}

/// `POST /app/session`: sends the ticket after `#t=`. Requires no token.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(expecting = "a JSON object")]
pub struct SessionRequest {
    /// The ticket.
    pub ticket: String,
}

/// Response to [`SessionRequest`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionResponse {
    /// Bearer token of this page, valid until the daemon stops.
    pub token: String,
}
