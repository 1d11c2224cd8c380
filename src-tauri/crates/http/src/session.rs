//! Sessions of pages in a browser: a ticket that is good once and for a minute becomes a token that is good until the
//! daemon ends.
//!
//! The ticket stands behind the `#` of the address that `cairn ui` opens, which no browser sends anywhere; the page gives it
//! back in the body of a POST. Both have 128 random bits. Only digests are kept, and comparing takes the same time whatever
//! was sent.

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

/// What a page asks that has no token yet; see [`crate::access`].
pub(crate) const PATH: &str = "/app/session";
/// How long a ticket is good.
const TICKET_LIFE: Duration = Duration::from_secs(60);
/// Tickets that are open at a time; the oldest one goes.
const MAX_TICKETS: usize = 16;
/// Sessions at a time; the oldest one goes.
const MAX_SESSIONS: usize = 64;
/// Anybody on this machine may send a body here.
const MAX_BODY_BYTES: usize = 1 << 10;

/// Tickets and sessions, the oldest first.
#[derive(Default)]
pub(crate) struct Sessions(Mutex<Open>);

#[derive(Default)]
struct Open {
    tickets: Vec<(Token, Instant)>,
    sessions: Vec<Token>,
}

impl Sessions {
    /// A new ticket.
    fn ticket(&self) -> Result<String, getrandom::Error> {
        let ticket = random_hex()?;
        let mut open = self.open();
        open.tickets.push((Token::new(&ticket), Instant::now()));
        let surplus = open.tickets.len().saturating_sub(MAX_TICKETS);
        open.tickets.drain(..surplus);
        Ok(ticket)
    }

    /// The token of a new session; none where the ticket is not good, or not any more.
    fn begin(&self, ticket: &str) -> Result<Option<String>, getrandom::Error> {
        let token = random_hex()?;
        let mut open = self.open();
        open.tickets.retain(|(_, made)| made.elapsed() < TICKET_LIFE);
        let known = open.tickets.iter().enumerate().fold(
            None,
            |known, (at, (open, _))| {
                if open.is(ticket) { Some(at) } else { known }
            },
        );
        let Some(at) = known else { return Ok(None) };
        open.tickets.remove(at);
        open.sessions.push(Token::new(&token));
        let surplus = open.sessions.len().saturating_sub(MAX_SESSIONS);
        open.sessions.drain(..surplus);
        Ok(Some(token))
    }

    /// Is this the token of a session?
    pub(crate) fn has(&self, token: &str) -> bool {
        // All of them are looked at, so that time does not tell which one it is like.
        self.open().sessions.iter().fold(false, |known, session| known | session.is(token))
    }

    fn open(&self) -> MutexGuard<'_, Open> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

pub(crate) fn routes() -> Router<Server> {
    Router::new()
        .route(PATH, post(begin).layer(DefaultBodyLimit::max(MAX_BODY_BYTES)))
        .route("/app/session/ticket", post(ticket))
}

async fn ticket(State(server): State<Server>) -> Result<Response, ApiError> {
    let ticket = server.sessions().ticket().map_err(no_random)?;
    let url = format!("{}/ui/#t={ticket}", server.own_url());
    Ok(secret(json(StatusCode::OK, &TicketResponse { url })))
}

async fn begin(State(server): State<Server>, Body(asked): Body<SessionRequest>) -> Result<Response, ApiError> {
    let token = server.sessions().begin(&asked.ticket).map_err(no_random)?;
    let refused = || {
        ApiError::new(
            StatusCode::UNAUTHORIZED,
            ErrorCode::SessionExpired,
            "this address was used before or is too old: run `cairn ui`",
        )
    };
    let token = token.ok_or_else(refused)?;
    Ok(secret(json(StatusCode::OK, &SessionResponse { token })))
}

/// No cache keeps it.
fn secret(answer: Response) -> Response {
    ([(header::CACHE_CONTROL, "no-store")], answer).into_response()
}

fn no_random(error: getrandom::Error) -> ApiError {
    ApiError::new(
        StatusCode::INTERNAL_SERVER_ERROR,
        ErrorCode::Internal,
        format!("the system has no random numbers: {error}"),
    )
}

/// 128 random bits.
fn random_hex() -> Result<String, getrandom::Error> {
    let mut bytes = [0_u8; 16];
    getrandom::fill(&mut bytes)?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_ticket_is_good_once_and_for_a_minute() {
        let sessions = Sessions::default();
        let ticket = sessions.ticket().unwrap();
        assert_eq!(ticket.len(), 32, "128 bits");
        assert!(sessions.begin(&ticket[1..]).unwrap().is_none(), "another text");
        let token = sessions.begin(&ticket).unwrap().expect("it is good");
        assert!(sessions.has(&token) && !sessions.has(&ticket) && !sessions.has(""), "the token, and nothing else");
        assert!(sessions.begin(&ticket).unwrap().is_none(), "it was used");
        let late = sessions.ticket().unwrap();
        tokio::time::advance(TICKET_LIFE).await;
        assert!(sessions.begin(&late).unwrap().is_none(), "it is too old");
        assert!(sessions.has(&token), "a session goes on");
    }

    #[tokio::test]
    async fn the_oldest_go_where_there_are_many() {
        let sessions = Sessions::default();
        let begin = || sessions.begin(&sessions.ticket().unwrap()).unwrap().expect("a new ticket is good");
        let first = begin();
        let tokens: Vec<String> = (0..MAX_SESSIONS).map(|_| begin()).collect();
        assert!(!sessions.has(&first) && tokens.iter().all(|token| sessions.has(token)), "only the first one is gone");
        let tickets: Vec<String> = (0..=MAX_TICKETS).map(|_| sessions.ticket().unwrap()).collect();
        assert!(sessions.begin(&tickets[0]).unwrap().is_none(), "the oldest ticket is gone");
        assert!(sessions.begin(&tickets[1]).unwrap().is_some(), "the next one is not");
    }
}
