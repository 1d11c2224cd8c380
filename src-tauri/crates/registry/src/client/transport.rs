//! How requests reach other machines: TLS, proxies, time-outs. One [`Transport`] serves all registries.
//!
//! Nothing of it is taken from the surroundings: variables, files and the clock come in through [`TransportConfig`]. It
//! follows no redirect by itself, because where credentials may go is decided in [`super::exchange`]. It speaks HTTP/1.1
//! only: the parallel ranges of a download are worth something because each has a connection of its own.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use reqwest::redirect;

use super::proxies::Proxies;
use super::reach::{Names, PublicOnly, Reach};
use super::tls;

/// Tells the time.
pub type Clock = Arc<dyn Fn() -> SystemTime + Send + Sync>;

/// What a transport is made of.
pub struct TransportConfig {
    /// What it says that it is, to every server.
    pub user_agent: String,
    /// Which proxies lead out of here.
    pub proxies: Proxies,
    /// A PEM file of certificates to trust beside the system's.
    pub extra_ca: Option<PathBuf>,
    /// How long a connection may take to be made.
    pub connect_timeout: Duration,
    /// How long a server may think before it answers, and how long it may pause within an answer that is read whole. The
    /// pauses within a blob are watched by who downloads it.
    pub answer_timeout: Duration,
    /// How far redirects may lead away from a registry.
    pub reach: Reach,
    /// The wall clock: signatures carry the time, and `Retry-After` may name one.
    pub clock: Clock,
}

impl TransportConfig {
    /// The usual: no proxies, the system's certificates, and time-outs that suit slow lines.
    #[must_use]
    pub fn new(user_agent: impl Into<String>, clock: Clock) -> Self {
        Self {
            user_agent: user_agent.into(),
            proxies: Proxies::none(),
            extra_ca: None,
            connect_timeout: Duration::from_secs(15),
            answer_timeout: Duration::from_secs(60),
            reach: Reach::Anywhere,
            clock,
        }
    }
}

/// Why there is no transport: a setting is wrong.
#[derive(Debug, thiserror::Error)]
pub enum TransportError {
    /// The file of further certificates cannot be used.
    #[error("the certificates in {} cannot be used: {reason}", path.display())]
    ExtraCa {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// A proxy's address cannot be read. It is not repeated here, because it may hold a password.
    #[error("the address of the {kind} proxy is no URL: {reason}")]
    Proxy {
        /// For which scheme.
        kind: &'static str,
        /// What is wrong with it.
        reason: String,
    },
    /// The HTTP client cannot be set up.
    #[error("the HTTP client cannot be set up: {0}")]
    Client(String),
}

/// The way out to other machines. Clones share their connections.
#[derive(Clone)]
pub struct Transport {
    /// For a registry itself.
    pub(super) http: reqwest::Client,
    /// For where it redirects to.
    pub(super) elsewhere: reqwest::Client,
    pub(super) reach: Reach,
    pub(super) answer_timeout: Duration,
    pub(super) clock: Clock,
}

impl Transport {
    /// Sets one up. It connects to nobody yet; the file of further certificates and the system's are read here.
    ///
    /// # Errors
    /// What is wrong with the configuration.
    pub fn new(config: TransportConfig) -> Result<Self, TransportError> {
        let tls = tls::client_config(config.extra_ca.as_deref())?;
        let proxies = config.proxies.to_reqwest()?;
        let builder = || {
            let builder = reqwest::Client::builder()
                .tls_backend_preconfigured(tls.clone())
                .user_agent(&config.user_agent)
                .redirect(redirect::Policy::none())
                .connect_timeout(config.connect_timeout)
                .dns_resolver(Names)
                .no_proxy();
            proxies.iter().fold(builder, |builder, proxy| builder.proxy(proxy.clone()))
        };
        let build =
            |builder: reqwest::ClientBuilder| builder.build().map_err(|error| TransportError::Client(root(&error)));
        let http = build(builder())?;
        let elsewhere = match config.reach {
            Reach::Anywhere => http.clone(),
            Reach::Public | Reach::AsRegistry => {
                build(builder().dns_resolver(PublicOnly::besides(config.proxies.hosts())))?
            }
        };
        Ok(Self { http, elsewhere, reach: config.reach, answer_timeout: config.answer_timeout, clock: config.clock })
    }
}

impl fmt::Debug for Transport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Transport").field("answer_timeout", &self.answer_timeout).finish_non_exhaustive()
    }
}

/// The innermost reason of a failure; the layers around it say only that sending failed, and repeat the URL, whose query
/// may be a signed address that does not belong into logs.
pub(crate) fn root(error: &(dyn std::error::Error + 'static)) -> String {
    let mut reason = error;
    while let Some(source) = reason.source() {
        reason = source;
    }
    reason.to_string()
}
