//! Tickets and sessions of browser pages.
//!
//! Tickets and session tokens have 128 random bits. The daemon stores only digests and compares them in constant time.

use std::time::Duration;

use cairn_app::secret::{RandomError, SecretDigest, random_hex};
use parking_lot::Mutex;
use tokio::time::Instant;

/// Random bytes of tickets and session tokens.
const TOKEN_BYTES: usize = 16;
const TICKET_LIFE: Duration = Duration::from_secs(60);
/// Limit of unused tickets. A new ticket evicts the oldest.
const MAX_TICKETS: usize = 16;
/// Limit of sessions. A new session evicts the oldest.
const MAX_SESSIONS: usize = 64;

/// Store of tickets and sessions, each from oldest to newest.
#[derive(Default)]
pub(crate) struct SessionStore(Mutex<Credentials>);

#[derive(Default)]
struct Credentials {
    tickets: Vec<(SecretDigest, Instant)>,
    sessions: Vec<SecretDigest>,
}

impl SessionStore {
    /// Creates a ticket.
    pub(crate) fn create_ticket(&self) -> Result<String, RandomError> {
        let ticket = random_hex::<TOKEN_BYTES>()?;
        let mut credentials = self.0.lock();
        credentials.tickets.push((SecretDigest::of(&ticket), Instant::now()));
        let surplus = credentials.tickets.len().saturating_sub(MAX_TICKETS);
        credentials.tickets.drain(..surplus);
        Ok(ticket)
    }

    /// Exchanges a ticket for the token of a new session. Returns `None` if the ticket is unknown, used or expired.
    pub(crate) fn begin(&self, ticket: &str) -> Result<Option<String>, RandomError> {
        let token = random_hex::<TOKEN_BYTES>()?;
        let mut credentials = self.0.lock();
        credentials.tickets.retain(|(_, created_at)| created_at.elapsed() < TICKET_LIFE);
        let found = credentials
            .tickets
            .iter()
            .enumerate()
            .fold(None, |found, (index, (candidate, _))| if candidate.is(ticket) { Some(index) } else { found });
        let Some(index) = found else { return Ok(None) };
        credentials.tickets.remove(index);
        credentials.sessions.push(SecretDigest::of(&token));
        let surplus = credentials.sessions.len().saturating_sub(MAX_SESSIONS);
        credentials.sessions.drain(..surplus);
        Ok(Some(token))
    }

    /// Returns whether `token` is the token of a session.
    pub(crate) fn has(&self, token: &str) -> bool {
        // No early exit, to keep constant time.
        self.0.lock().sessions.iter().fold(false, |found, session| found | session.is(token))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn ticket_is_valid_once_and_for_a_minute() {
        let sessions = SessionStore::default();
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
        let sessions = SessionStore::default();
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
