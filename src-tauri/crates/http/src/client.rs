//! Identification of the client of a request, also behind a reverse proxy: its IP address, whether it runs on this
//! machine, and the base URL under which it reaches this server.
//!
//! `X-Forwarded-For`, `-Proto` and `-Host` are read only from the proxies in `CAIRN_TRUSTED_PROXIES`, because any
//! client can send these headers. A request with forwarding headers never counts as local. Otherwise a proxy on this
//! machine that is not configured would make the whole network look local.

use std::net::{IpAddr, SocketAddr};

use axum::extract::{ConnectInfo, FromRequestParts, Request};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderName, header};

use crate::Server;
use crate::error::ApiError;

/// Headers that proxies add, besides those that begin with `x-forwarded`. Each of them marks a request as forwarded.
const FORWARDED: [&str; 9] = [
    "forwarded",
    "via",
    "x-real-ip",
    "x-client-ip",
    "x-cluster-client-ip",
    "x-original-host",
    "x-envoy-external-address",
    "cf-connecting-ip",
    "true-client-ip",
];

/// Client of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ClientInfo {
    /// Address that a trusted proxy forwarded, otherwise the address of the connection.
    pub(crate) ip: IpAddr,
    /// Whether the client is a program on this machine.
    pub(crate) is_local: bool,
    /// Whether the request came through a trusted proxy.
    pub(crate) is_proxied: bool,
    /// `http://host:port` or `https://host` under which the client reaches this server, according to the client.
    base_url: Option<String>,
    /// Address at which the connection arrived.
    pub(crate) local: Option<SocketAddr>,
}

/// The address at which a request's connection arrived, as an extension of the request.
#[derive(Debug, Clone, Copy)]
pub struct LocalAddress(pub SocketAddr);

impl ClientInfo {
    /// Resolves the client of a request. Returns `None` if the address of its connection is unknown.
    pub(crate) fn of(server: &Server, request: &Request) -> Option<Self> {
        let peer = request.extensions().get::<ConnectInfo<SocketAddr>>()?.0;
        let local = request.extensions().get::<LocalAddress>().map(|address| address.0);
        let trusted = &server.app().settings().at_start().sharing.trusted_proxies;
        Some(Self { local, ..Self::resolve(trusted, peer.ip(), request.headers()) })
    }

    fn resolve(trusted: &[IpAddr], connected: IpAddr, headers: &HeaderMap) -> Self {
        let connected = connected.to_canonical();
        let host = last(headers, header::HOST.as_str());
        if !trusted.contains(&connected) {
            let is_local = connected.is_loopback() && !headers.keys().any(is_forwarded);
            return Self { ip: connected, is_local, is_proxied: false, base_url: base_url("http", host), local: None };
        }
        // Each proxy appends the address of its peer. The client is the last entry that is not a trusted proxy; a
        // client can forge all entries before it.
        let hops: Vec<&str> = headers.get_all("x-forwarded-for").iter().flat_map(entries).collect();
        let client = hops.iter().rev().map(|text| address(text)).find(|ip| ip.is_none_or(|ip| !trusted.contains(&ip)));
        let scheme = if last(headers, "x-forwarded-proto") == Some("https") { "https" } else { "http" };
        let host = last(headers, "x-forwarded-host").or(host);
        let ip = client.flatten().unwrap_or(connected);
        Self { ip, is_local: false, is_proxied: true, base_url: base_url(scheme, host), local: None }
    }

    /// URL of `path` on this server as the client reaches it. `None` if the request has no valid `Host` header.
    pub(crate) fn url(&self, path: &str) -> Option<String> {
        self.base_url.as_ref().map(|base| format!("{base}{path}"))
    }

    /// `host:port` under which the client reaches this server, as the client states it. Empty if it is not valid.
    pub(crate) fn authority(&self) -> &str {
        self.base_url.as_deref().and_then(|url| url.split_once("://")).map_or("", |(_, authority)| authority)
    }
}

impl<S: Sync> FromRequestParts<S> for ClientInfo {
    type Rejection = ApiError;

    /// Extracts the client that [`crate::access::check`] added.
    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, ApiError> {
        let client = parts.extensions.get::<Self>().cloned();
        client.ok_or_else(|| ApiError::bad_request("cannot determine the client's address"))
    }
}

fn is_forwarded(name: &HeaderName) -> bool {
    name.as_str().starts_with("x-forwarded") || FORWARDED.contains(&name.as_str())
}

fn base_url(scheme: &str, host: Option<&str>) -> Option<String> {
    Some(format!("{scheme}://{}", host.filter(|host| is_authority(host))?))
}

/// Returns whether `host` can be echoed inside a quoted string: it contains only the characters of `host:port`.
fn is_authority(host: &str) -> bool {
    !host.is_empty() && host.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._:[]".contains(&byte))
}

/// Returns the last entry of a list header that may occur more than once.
fn last<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get_all(name).iter().flat_map(entries).last()
}

fn entries(value: &axum::http::HeaderValue) -> impl Iterator<Item = &str> {
    value.to_str().unwrap_or("?").split(',').map(str::trim).filter(|entry| !entry.is_empty())
}

/// Parses `10.0.0.1`, `10.0.0.1:5000`, `2001:db8::1` or `[2001:db8::1]:5000`.
fn address(text: &str) -> Option<IpAddr> {
    let with_port = || text.parse::<SocketAddr>().map(|address| address.ip());
    let bare = text.trim_start_matches('[').trim_end_matches(']');
    with_port().or_else(|_| bare.parse()).ok().map(|ip: IpAddr| ip.to_canonical())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn client_address_is_taken_from_trusted_proxies_only() {
        let trusted: [IpAddr; 2] = ["10.0.0.5".parse().unwrap(), "127.0.0.1".parse().unwrap()];
        let check =
            |trusted: &[IpAddr], from: &str, headers: &[(&'static str, &str)], ip: &str, is_local, url: &str| {
                let headers =
                    headers.iter().map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap())).collect();
                let client = ClientInfo::resolve(trusted, from.parse().unwrap(), &headers);
                let found = (client.ip.to_string(), client.is_local, client.url("/v2/token").unwrap_or_default());
                assert_eq!(found, (ip.to_owned(), is_local, url.to_owned()), "{from} {headers:?}");
            };
        let direct = [("host", "nas:1")];
        check(&[], "127.0.0.1", &direct, "127.0.0.1", true, "http://nas:1/v2/token");
        check(&[], "::ffff:127.0.0.1", &direct, "127.0.0.1", true, "http://nas:1/v2/token");
        check(&[], "10.0.0.9", &direct, "10.0.0.9", false, "http://nas:1/v2/token");
        check(&[], "10.0.0.9", &[("host", "a\"b")], "10.0.0.9", false, "");
        let forwarded = [
            ("host", "nas:1"),
            ("x-forwarded-for", "192.0.2.9"),
            ("x-forwarded-proto", "https"),
            ("x-forwarded-host", "models.example"),
        ];
        // This proxy is not configured.
        check(&[], "127.0.0.1", &forwarded, "127.0.0.1", false, "http://nas:1/v2/token");
        check(&trusted, "10.0.0.9", &forwarded, "10.0.0.9", false, "http://nas:1/v2/token");
        check(&trusted, "127.0.0.1", &forwarded, "192.0.2.9", false, "https://models.example/v2/token");
        check(&trusted, "10.0.0.5", &forwarded, "192.0.2.9", false, "https://models.example/v2/token");
        let forged = [("host", "nas"), ("x-forwarded-for", "127.0.0.1, 192.0.2.9, 10.0.0.5")];
        check(&trusted, "127.0.0.1", &forged, "192.0.2.9", false, "http://nas/v2/token");
        let unknown = [("host", "nas"), ("x-forwarded-for", "unknown")];
        check(&trusted, "127.0.0.1", &unknown, "127.0.0.1", false, "http://nas/v2/token");
        check(&trusted, "127.0.0.1", &[("host", "nas")], "127.0.0.1", false, "http://nas/v2/token");
    }

    #[test]
    fn address_parses_all_forwarded_forms() {
        let check = |text: &str, expected: Option<&str>| {
            assert_eq!(address(text).map(|ip| ip.to_string()).as_deref(), expected, "{text:?}");
        };
        check("10.0.0.1", Some("10.0.0.1"));
        check("10.0.0.1:5000", Some("10.0.0.1"));
        check("2001:db8::1", Some("2001:db8::1"));
        check("[2001:db8::1]:5000", Some("2001:db8::1"));
        check("::ffff:10.0.0.1", Some("10.0.0.1"));
        check("unknown", None);
        check("_hidden", None);
    }
}
