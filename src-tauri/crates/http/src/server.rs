//! State that all routes share: the use cases and the properties of this daemon.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::time::SystemTime;

use cairn_app::App;
use cairn_app::secret::SecretDigest;
use tokio::sync::watch;

use crate::Activity;
use crate::body_memory::AllBodies;
use crate::pace::Pace;
use crate::request_log::RequestLog;
use crate::session_store::SessionStore;

/// State of all routes. Clones share one state.
#[derive(Clone)]
pub struct Server(Arc<Inner>);

struct Inner {
    app: App,
    activity: Activity,
    addresses: Vec<SocketAddr>,
    token: SecretDigest,
    sessions: SessionStore,
    request_log: RequestLog,
    bodies: AllBodies,
    pace: Pace,
    pid: u32,
    host_name: Option<String>,
    started_at: SystemTime,
    stop: watch::Sender<bool>,
}

impl Server {
    /// State of a daemon that listens at `addresses`. `token` is the daemon token's digest, `host_name` the machine's
    /// name in the local network.
    #[must_use]
    pub fn new(
        app: App,
        activity: Activity,
        addresses: Vec<SocketAddr>,
        token: SecretDigest,
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
            sessions: SessionStore::default(),
            request_log: RequestLog::default(),
            bodies: AllBodies::default(),
            pace: Pace::default(),
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

    /// The counter of active requests.
    #[must_use]
    pub fn activity(&self) -> &Activity {
        &self.0.activity
    }

    /// The addresses that the daemon listens at.
    #[must_use]
    pub fn addresses(&self) -> &[SocketAddr] {
        &self.0.addresses
    }

    /// The start time of the daemon.
    #[must_use]
    pub fn started_at(&self) -> SystemTime {
        self.0.started_at
    }

    /// The daemon's process id.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.0.pid
    }

    pub(crate) fn host_name(&self) -> Option<&str> {
        self.0.host_name.as_deref()
    }

    /// Returns whether `token` is the daemon's token or the token of a session. Evaluates both to keep constant time.
    pub(crate) fn is_authorized(&self, token: &str) -> bool {
        self.0.token.is(token) | self.0.sessions.has(token)
    }

    pub(crate) fn sessions(&self) -> &SessionStore {
        &self.0.sessions
    }

    pub(crate) fn request_log(&self) -> &RequestLog {
        &self.0.request_log
    }

    pub(crate) fn bodies(&self) -> &AllBodies {
        &self.0.bodies
    }

    pub(crate) fn pace(&self) -> &Pace {
        &self.0.pace
    }

    /// Returns the URL of the daemon for programs on this machine, for example `http://127.0.0.1:11434`.
    pub(crate) fn local_url(&self) -> String {
        let address = self.0.addresses.first().copied().unwrap_or_else(|| ([127, 0, 0, 1], 0).into());
        let local: SocketAddr = match address.ip() {
            ip if ip.is_loopback() => address,
            IpAddr::V6(ip) if ip.is_unspecified() => (Ipv6Addr::LOCALHOST, address.port()).into(),
            _ => (Ipv4Addr::LOCALHOST, address.port()).into(),
        };
        format!("http://{local}")
    }

    /// Requests the shutdown of the daemon.
    pub fn stop(&self) {
        self.0.stop.send_replace(true);
    }

    /// Waits until a shutdown is requested.
    pub async fn stopping(&self) {
        let is_open = self.0.stop.subscribe().wait_for(|stop| *stop).await.is_ok();
        assert!(is_open, "the sender lives as long as this server");
    }
}
