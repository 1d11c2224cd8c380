//! Which proxy leads to a host.
//!
//! A setting names one for everything; otherwise the customary variables do, read as curl reads them: `http_proxy`,
//! `https_proxy`, `all_proxy`, `no_proxy`, and the same in upper case. This machine itself is never reached through one.

use std::fmt;

use reqwest::{NoProxy, Proxy, Url};

use super::transport::TransportError;

/// What is reached directly, whatever the settings say.
const LOOPBACK: &str = "localhost,127.0.0.0/8,::1";

/// Proxies by scheme, and the hosts that are reached without one.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Proxies {
    /// For `http://`.
    http: Option<String>,
    /// For `https://`.
    https: Option<String>,
    /// Hosts, domains and networks without one, with commas between.
    bypass: String,
}

impl Proxies {
    /// None at all.
    #[must_use]
    pub fn none() -> Self {
        Self::default()
    }

    /// One for everything: `http://`, `https://`, `socks5://` or `socks5h://`, with name and password if it wants them.
    /// `bypass` lists hosts, domains and networks (`10.0.0.0/8`) to reach directly, with commas between.
    #[must_use]
    pub fn all(url: &str, bypass: &str) -> Self {
        Self { http: Some(url.to_owned()), https: Some(url.to_owned()), bypass: bypass.to_owned() }
    }

    /// Those of the customary variables; `read` gives a variable's value.
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

    /// The hosts of the proxies themselves.
    pub(super) fn hosts(&self) -> Vec<String> {
        let urls = [&self.http, &self.https].into_iter().flatten();
        let parsed = urls.filter_map(|url| Url::parse(&with_scheme(url)).ok());
        parsed.filter_map(|url| url.host_str().map(str::to_owned)).collect()
    }

    /// The same as reqwest has it.
    pub(super) fn to_reqwest(&self) -> Result<Vec<Proxy>, TransportError> {
        let bypass = NoProxy::from_string(&format!("{LOOPBACK},{}", self.bypass));
        let proxy = |kind, make: fn(String) -> reqwest::Result<Proxy>, url: &Option<String>| {
            let Some(url) = url else { return Ok(None) };
            let made = make(with_scheme(url))
                .map_err(|error| TransportError::Proxy { kind, reason: super::transport::root(&error) })?;
            Ok(Some(made.no_proxy(bypass.clone())))
        };
        let both = [proxy("http", Proxy::http, &self.http)?, proxy("https", Proxy::https, &self.https)?];
        Ok(both.into_iter().flatten().collect())
    }
}

/// `host:port` alone is how many write a proxy's address.
fn with_scheme(url: &str) -> String {
    if url.contains("://") { url.to_owned() } else { format!("http://{url}") }
}

/// Says which there are and not what they are: an address may hold a password.
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
