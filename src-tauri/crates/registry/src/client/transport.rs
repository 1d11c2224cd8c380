//! HTTP transport: TLS, proxies, timeouts. One [`Transport`] serves all registries.
//!
//! Environment variables, files and the clock are passed in [`TransportConfig`], not read here. Redirects are followed in
//! [`super::request`], which decides where credentials are sent. Only HTTP/1.1 is used, so that each range of a parallel
//! download has its own connection.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use reqwest::redirect;

use super::proxies::Proxies;
use super::redirect_policy::{PublicResolver, RedirectPolicy, SystemResolver};
use super::tls;
use super::transport_error::{TransportError, root_cause};

/// Returns the current time.
pub type Clock = Arc<dyn Fn() -> SystemTime + Send + Sync>;

/// Settings of a transport.
pub struct TransportConfig {
    /// The `User-Agent` header.
    pub user_agent: String,
    /// The proxies.
    pub proxies: Proxies,
    /// A PEM file of additional root certificates.
    pub extra_ca: Option<PathBuf>,
    /// Timeout for connecting.
    pub connect_timeout: Duration,
    /// Timeout for the response, and for each read of a response that is read as a whole. Downloads of blobs have their own
    /// read timeout.
    pub response_timeout: Duration,
    /// Allowed targets of redirects.
    pub redirects: RedirectPolicy,
    /// The wall clock, for timestamps in signatures and for `Retry-After`.
    pub clock: Clock,
}

impl TransportConfig {
    /// Default settings: no proxies, the system's certificates, timeouts for slow connections, and no redirects from a public
    /// registry to private addresses.
    #[must_use]
    pub fn new(user_agent: impl Into<String>, clock: Clock) -> Self {
        Self {
            user_agent: user_agent.into(),
            proxies: Proxies::none(),
            extra_ca: None,
            connect_timeout: Duration::from_secs(15),
            response_timeout: Duration::from_secs(60),
            redirects: RedirectPolicy::SameAsRegistry,
            clock,
        }
    }
}

/// HTTP clients for registries. Clones share connections.
#[derive(Clone)]
pub struct Transport {
    /// For requests to a registry.
    pub(super) http: reqwest::Client,
    /// For the targets of its redirects.
    pub(super) redirect_http: reqwest::Client,
    single_use_http: reqwest::Client,
    public_http: reqwest::Client,
    has_proxy: bool,
    pub(super) redirects: RedirectPolicy,
    pub(super) response_timeout: Duration,
    pub(super) clock: Clock,
}

impl Transport {
    /// An HTTP client with the same certificates, proxies and timeouts for connecting. It follows no redirects.
    #[must_use]
    pub fn http_client(&self) -> reqwest::Client {
        self.http.clone()
    }

    /// Like [`Transport::http_client`], but it opens a connection for each request.
    #[must_use]
    pub fn single_use_http_client(&self) -> reqwest::Client {
        self.single_use_http.clone()
    }

    /// Like [`Transport::http_client`], but it connects by name to public addresses and proxies only. Addresses in URLs must be
    /// checked with [`is_public`](super::redirect_policy::is_public) by the caller.
    #[must_use]
    pub fn public_http_client(&self) -> reqwest::Client {
        self.public_http.clone()
    }

    /// Whether some connections go through a proxy.
    #[must_use]
    pub fn has_proxy(&self) -> bool {
        self.has_proxy
    }

    /// Creates a transport. Reads the certificates; makes no connection.
    ///
    /// # Errors
    /// If a setting is invalid.
    pub fn new(config: TransportConfig) -> Result<Self, TransportError> {
        let tls = tls::client_config(config.extra_ca.as_deref())?;
        let proxies = config.proxies.to_reqwest()?;
        let builder = || {
            let builder = reqwest::Client::builder()
                .tls_backend_preconfigured(tls.clone())
                .user_agent(&config.user_agent)
                .redirect(redirect::Policy::none())
                .connect_timeout(config.connect_timeout)
                .dns_resolver(SystemResolver)
                .no_proxy();
            proxies.iter().fold(builder, |builder, proxy| builder.proxy(proxy.clone()))
        };
        let build = |builder: reqwest::ClientBuilder| {
            builder.build().map_err(|error| TransportError::Client(root_cause(&error)))
        };
        let http = build(builder())?;
        let single_use_http = build(builder().pool_max_idle_per_host(0))?;
        let proxy_hosts = config.proxies.hosts();
        let has_proxy = !proxy_hosts.is_empty();
        let public_http = build(builder().dns_resolver(PublicResolver::with_exempt(proxy_hosts)))?;
        let redirect_http = match config.redirects {
            RedirectPolicy::AnyHost => http.clone(),
            RedirectPolicy::PublicOnly | RedirectPolicy::SameAsRegistry => public_http.clone(),
        };
        Ok(Self {
            http,
            redirect_http,
            single_use_http,
            public_http,
            has_proxy,
            redirects: config.redirects,
            response_timeout: config.response_timeout,
            clock: config.clock,
        })
    }
}

impl fmt::Debug for Transport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Transport").field("response_timeout", &self.response_timeout).finish_non_exhaustive()
    }
}
