//! Proxy settings.
//!
//! A setting names one proxy for all requests. Otherwise the usual environment variables apply, as in curl: `http_proxy`,
//! `https_proxy`, `all_proxy`, `no_proxy`, and the same in upper case. Loopback never uses a proxy.

use std::fmt;

use reqwest::{NoProxy, Proxy, Url};

use super::transport_error::{TransportError, root_cause};

/// Hosts that never use a proxy.
const LOOPBACK: &str = "localhost,127.0.0.0/8,::1";

/// Proxies by scheme, and the hosts that bypass them.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Proxies {
    /// For `http://`.
    http: Option<String>,
    /// For `https://`.
    https: Option<String>,
    /// Comma-separated hosts, domains and networks that bypass the proxies.
    bypass: String,
}

impl Proxies {
    /// No proxies.
    #[must_use]
    pub fn none() -> Self {
        Self::default()
    }

    /// One proxy for all requests: `http://`, `https://`, `socks5://` or `socks5h://`, optionally with user and password.
    /// `bypass` is a comma-separated list of hosts, domains and networks (`10.0.0.0/8`) to connect to directly.
    #[must_use]
    pub fn all(url: &str, bypass: &str) -> Self {
        Self { http: Some(url.to_owned()), https: Some(url.to_owned()), bypass: bypass.to_owned() }
    }

    /// The proxies of the environment variables; `read` returns a variable's value.
    #[must_use]
    pub fn from_variables(read: impl Fn(&str) -> Option<String>) -> Self {
        let either = |name: &str| {
            let value = read(name).or_else(|| read(&name.to_ascii_uppercase()))?;
            let value = value.trim();
            (!value.is_empty()).then(|| value.to_owned())
        };
        let all = either("all_proxy");
        Self {
            http: either("http_proxy").or_else(|| all.clone()),
            https: either("https_proxy").or(all),
            bypass: either("no_proxy").unwrap_or_default(),
        }
    }

    /// The hosts of the proxies.
    pub(super) fn hosts(&self) -> Vec<String> {
        let urls = [&self.http, &self.https].into_iter().flatten();
        let parsed = urls.filter_map(|url| Url::parse(&with_scheme(url)).ok());
        parsed.filter_map(|url| url.host_str().map(str::to_owned)).collect()
    }

    /// Converts to reqwest's type.
    pub(super) fn to_reqwest(&self) -> Result<Vec<Proxy>, TransportError> {
        let bypass = NoProxy::from_string(&format!("{LOOPBACK},{}", self.bypass));
        let proxy = |kind, make: fn(String) -> reqwest::Result<Proxy>, url: &Option<String>| {
            let Some(url) = url else { return Ok(None) };
            let made =
                make(with_scheme(url)).map_err(|error| TransportError::Proxy { kind, reason: root_cause(&error) })?;
            Ok(Some(made.no_proxy(bypass.clone())))
        };
        let both = [proxy("http", Proxy::http, &self.http)?, proxy("https", Proxy::https, &self.https)?];
        Ok(both.into_iter().flatten().collect())
    }
}

/// Adds `http://` to an address without a scheme.
fn with_scheme(url: &str) -> String {
    if url.contains("://") { url.to_owned() } else { format!("http://{url}") }
}

/// Hides the addresses, which may contain passwords.
impl fmt::Debug for Proxies {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let there = |url: &Option<String>| if url.is_some() { "set" } else { "none" };
        f.debug_struct("Proxies")
            .field("http", &there(&self.http))
            .field("https", &there(&self.https))
            .field("bypass", &self.bypass)
            .finish()
    }
}
