//! What the routes share: the use cases, and what this daemon is.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::time::SystemTime;

use cairn_app::App;
use cairn_store::Digest;
use tokio::sync::watch;

use crate::Activity;
use crate::session::Sessions;

/// State of all routes. Clones share everything.
#[derive(Clone)]
pub struct Server(Arc<Inner>);

struct Inner {
    app: App,
    activity: Activity,
    addresses: Vec<SocketAddr>,
    token: Token,
    sessions: Sessions,
    pid: u32,
    host_name: Option<String>,
    started_at: SystemTime,
    stop: watch::Sender<bool>,
}

/// What `/app` wants to see, kept as a digest: a copy of this process's memory does not open the door.
pub struct Token(Digest);

impl Token {
    /// The token with this text.
    #[must_use]
    pub fn new(text: &str) -> Self {
        Self(Digest::of(text.as_bytes()))
    }

    /// Is `text` that token? Digests are compared, and all of them, so that time tells nothing about the text.
    #[must_use]
    pub fn is(&self, text: &str) -> bool {
        let (mine, theirs) = (self.0.hex(), Digest::of(text.as_bytes()).hex());
        mine.bytes().zip(theirs.bytes()).fold(0, |different, (a, b)| different | (a ^ b)) == 0
    }
}

impl Server {
    /// A daemon that listens at `addresses`, on a machine that its network may know as `host_name`.
    #[must_use]
    pub fn new(
        app: App,
        activity: Activity,
        addresses: Vec<SocketAddr>,
        token: Token,
        pid: u32,
        host_name: Option<String>,
    ) -> Self {
        let started_at = app.clock().now();
        let stop = watch::Sender::new(false);
        Self(Arc::new(Inner {
            app,
            activity,
            addresses,
            token,
            sessions: Sessions::default(),
            pid,
            host_name,
            started_at,
            stop,
        }))
    }

    /// The use cases.
    #[must_use]
    pub fn app(&self) -> &App {
        &self.0.app
    }

    /// Who uses the daemon.
    #[must_use]
    pub fn activity(&self) -> &Activity {
        &self.0.activity
    }

    /// Where the daemon listens.
    #[must_use]
    pub fn addresses(&self) -> &[SocketAddr] {
        &self.0.addresses
    }

    /// When it started.
    #[must_use]
    pub fn started_at(&self) -> SystemTime {
        self.0.started_at
    }

    /// Its process id.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.0.pid
    }

    pub(crate) fn host_name(&self) -> Option<&str> {
        self.0.host_name.as_deref()
    }

    /// Is this what one of our own clients shows: the daemon's token, or that of a page's session?
    pub(crate) fn is_own(&self, token: &str) -> bool {
        self.0.token.is(token) | self.0.sessions.has(token)
    }

    pub(crate) fn sessions(&self) -> &Sessions {
        &self.0.sessions
    }

    /// Where programs of this machine find it, `http://127.0.0.1:11434` for instance.
    pub(crate) fn own_url(&self) -> String {
        let address = self.0.addresses.first().copied().unwrap_or_else(|| ([127, 0, 0, 1], 0).into());
        let own: SocketAddr = match address.ip() {
            ip if ip.is_loopback() => address,
            IpAddr::V6(ip) if ip.is_unspecified() => (Ipv6Addr::LOCALHOST, address.port()).into(),
            _ => (Ipv4Addr::LOCALHOST, address.port()).into(),
        };
        format!("http://{own}")
    }

    /// Asks the daemon to end.
    pub fn stop(&self) {
        self.0.stop.send_replace(true);
    }

    /// Returns once somebody asked the daemon to end.
    pub async fn stopping(&self) {
        let asked = self.0.stop.subscribe().wait_for(|asked| *asked).await.is_ok();
        assert!(asked, "the sender lives as long as this server");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_token_is_the_token() {
        let token = Token::new("abc");
        assert!(token.is("abc"), "itself");
        for other in ["", "ab", "abcd", "ABC"] {
            assert!(!token.is(other), "{other:?}");
        }
    }
}
