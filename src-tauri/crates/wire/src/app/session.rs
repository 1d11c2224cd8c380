//! How a page in a browser gets in: a ticket from one of our own programs, and a session for it.

use serde::{Deserialize, Serialize};

/// The answer to `POST /app/session/ticket`, which our own programs ask with the daemon's token.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TicketResponse {
    /// `http://127.0.0.1:PORT/ui/#t=...`: good once, for a minute.
    pub url: String,
}

/// `POST /app/session`: what stood behind `#t=`. Asked without a token.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionRequest {
    /// The ticket.
    pub ticket: String,
}

/// The answer to [`SessionRequest`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionResponse {
    /// What this page sends as `Authorization: Bearer` from now on, until the daemon ends.
    pub token: String,
}
