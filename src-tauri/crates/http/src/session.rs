//! Sessions of browser pages. A page exchanges a ticket, which is valid once and for one minute, for a session token,
//! which is valid until the daemon stops.
//!
//! The ticket is in the fragment (`#t=...`) of the URL that `cairn ui` opens. Browsers never send a fragment to a
//! server. The page sends the ticket in the body of a POST. Tickets and tokens have 128 random bits. The daemon stores
//! only their digests and compares them in constant time.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use axum::Router;
use axum::extract::{DefaultBodyLimit, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use cairn_wire::ErrorCode;
use cairn_wire::app::{SessionRequest, SessionResponse, TicketResponse};
use tokio::time::Instant;

use crate::body::Body;
use crate::error::{ApiError, json};
use crate::{Server, Token};

/// Path that a page requests before it has a token. [`crate::access`] exempts it from the token check.
pub(crate) const PATH: &str = "/app/session";
const TICKET_LIFE: Duration = Duration::from_secs(60);
/// Limit of unused tickets. A new ticket evicts the oldest.
const MAX_TICKETS: usize = 16;
/// Limit of sessions. A new session evicts the oldest.
const MAX_SESSIONS: usize = 64;
/// Limit of the request body, which is small because the client has no token yet.
const MAX_BODY_BYTES: usize = 1 << 10;

/// Store of tickets and sessions, each from oldest to newest.
#[derive(Default)]
pub(crate) struct Sessions(Mutex<Credentials>);

#[derive(Default)]
struct Credentials {
    tickets: Vec<(Token, Instant)>,
    sessions: Vec<Token>,
}

impl Sessions {
    /// Creates a ticket.
    fn create_ticket(&self) -> Result<String, getrandom::Error> {
        let ticket = random_hex()?;
        let mut credentials = self.lock();
        credentials.tickets.push((Token::new(&ticket), Instant::now()));
        let surplus = credentials.tickets.len().saturating_sub(MAX_TICKETS);
        credentials.tickets.drain(..surplus);
        Ok(ticket)
    }

    /// Exchanges a ticket for the token of a new session. Returns `None` if the ticket is unknown, used or expired.
    fn begin(&self, ticket: &str) -> Result<Option<String>, getrandom::Error> {
        let token = random_hex()?;
        let mut credentials = self.lock();
        credentials.tickets.retain(|(_, created_at)| created_at.elapsed() < TICKET_LIFE);
        let found = credentials
            .tickets
            .iter()
            .enumerate()
            .fold(None, |found, (index, (candidate, _))| if candidate.is(ticket) { Some(index) } else { found });
        let Some(index) = found else { return Ok(None) };
        credentials.tickets.remove(index);
        credentials.sessions.push(Token::new(&token));
        let surplus = credentials.sessions.len().saturating_sub(MAX_SESSIONS);
        credentials.sessions.drain(..surplus);
        Ok(Some(token))
    }

    /// Returns whether `token` is the token of a session.
    pub(crate) fn has(&self, token: &str) -> bool {
        // No early exit, to keep constant time.
        self.lock().sessions.iter().fold(false, |found, session| found | session.is(token))
    }

    fn lock(&self) -> MutexGuard<'_, Credentials> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

pub(crate) fn routes() -> Router<Server> {
    Router::new()
        .route(PATH, post(begin).layer(DefaultBodyLimit::max(MAX_BODY_BYTES)))
        .route("/app/session/ticket", post(create_ticket))
}

async fn create_ticket(State(server): State<Server>) -> Result<Response, ApiError> {
    let ticket = server.sessions().create_ticket().map_err(random_error)?;
    let url = format!("{}/ui/#t={ticket}", server.local_url());
    Ok(no_store(json(StatusCode::OK, &TicketResponse { url })))
}

async fn begin(State(server): State<Server>, Body(request): Body<SessionRequest>) -> Result<Response, ApiError> {
    let token = server.sessions().begin(&request.ticket).map_err(random_error)?;
    let expired = || {
        ApiError::new(
            StatusCode::UNAUTHORIZED,
            ErrorCode::SessionExpired,
            "this sign-in link was already used or has expired; run `cairn ui`",
        )
    };
    let token = token.ok_or_else(expired)?;
    Ok(no_store(json(StatusCode::OK, &SessionResponse { token })))
}

/// Forbids caches to store the response: it contains a secret.
fn no_store(response: Response) -> Response {
    ([(header::CACHE_CONTROL, "no-store")], response).into_response()
}

fn random_error(error: getrandom::Error) -> ApiError {
    ApiError::new(
        StatusCode::INTERNAL_SERVER_ERROR,
        ErrorCode::Internal,
        format!("cannot read random numbers from the system: {error}"),
    )
}

/// Returns 128 random bits as 32 hexadecimal digits.
fn random_hex() -> Result<String, getrandom::Error> {
    let mut bytes = [0_u8; 16];
    getrandom::fill(&mut bytes)?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn ticket_is_valid_once_and_for_a_minute() {
        let sessions = Sessions::default();
        let ticket = sessions.create_ticket().unwrap();
        assert_eq!(ticket.len(), 32, "128 bits");
        assert!(sessions.begin(&ticket[1..]).unwrap().is_none(), "another text");
        let token = sessions.begin(&ticket).unwrap().expect("a valid ticket");
        assert!(sessions.has(&token) && !sessions.has(&ticket) && !sessions.has(""), "only the token is valid");
        assert!(sessions.begin(&ticket).unwrap().is_none(), "a used ticket");
        let late = sessions.create_ticket().unwrap();
        tokio::time::advance(TICKET_LIFE).await;
        assert!(sessions.begin(&late).unwrap().is_none(), "an expired ticket");
        assert!(sessions.has(&token), "sessions do not expire");
    }

    #[tokio::test]
    async fn sessions_evict_the_oldest_above_the_limit() {
        let sessions = Sessions::default();
        let begin = || sessions.begin(&sessions.create_ticket().unwrap()).unwrap().expect("a valid ticket");
        let first = begin();
        let tokens: Vec<String> = (0..MAX_SESSIONS).map(|_| begin()).collect();
        assert!(
            !sessions.has(&first) && tokens.iter().all(|token| sessions.has(token)),
            "only the first session is evicted"
        );
        let tickets: Vec<String> = (0..=MAX_TICKETS).map(|_| sessions.create_ticket().unwrap()).collect();
        assert!(sessions.begin(&tickets[0]).unwrap().is_none(), "the oldest ticket is evicted");
        assert!(sessions.begin(&tickets[1]).unwrap().is_some(), "the second ticket is still valid");
    }
}
