//! Secrets that authorize `/app` requests: the daemon token, and tickets and sessions of browser pages.
//!
//! Tickets and session tokens have 128 random bits. The daemon stores only digests and compares them in constant time.

use std::time::Duration;

use cairn_store::Digest;
use parking_lot::Mutex;
use tokio::time::Instant;

use crate::random;

const TICKET_LIFE: Duration = Duration::from_secs(60);
/// Limit of unused tickets. A new ticket evicts the oldest.
const MAX_TICKETS: usize = 16;
/// Limit of sessions. A new session evicts the oldest.
const MAX_SESSIONS: usize = 64;

/// Secret that authorizes `/app` requests, stored as its digest: a memory dump does not reveal the token.
pub struct Token(Digest);

impl Token {
    /// Hashes the text of a token.
    #[must_use]
    pub fn new(text: &str) -> Self {
        Self(Digest::of(text.as_bytes()))
    }

    /// Returns whether `text` is this token. Compares the digests in constant time.
    #[must_use]
    pub fn is(&self, text: &str) -> bool {
        let (expected, found) = (self.0.hex(), Digest::of(text.as_bytes()).hex());
        expected.bytes().zip(found.bytes()).fold(0, |difference, (a, b)| difference | (a ^ b)) == 0
    }
}

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
    pub(crate) fn create_ticket(&self) -> Result<String, getrandom::Error> {
        let ticket = random::hex()?;
        let mut credentials = self.0.lock();
        credentials.tickets.push((Token::new(&ticket), Instant::now()));
        let surplus = credentials.tickets.len().saturating_sub(MAX_TICKETS);
        credentials.tickets.drain(..surplus);
        Ok(ticket)
    }

    /// Exchanges a ticket for the token of a new session. Returns `None` if the ticket is unknown, used or expired.
    pub(crate) fn begin(&self, ticket: &str) -> Result<Option<String>, getrandom::Error> {
        let token = random::hex()?;
        let mut credentials = self.0.lock();
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
        self.0.lock().sessions.iter().fold(false, |found, session| found | session.is(token))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn token_matches_only_its_own_text() {
        let token = Token::new("abc");
        assert!(token.is("abc"), "the same text");
        for other in ["", "ab", "abcd", "ABC"] {
            assert!(!token.is(other), "{other:?}");
        }
    }

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
