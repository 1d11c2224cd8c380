//! Who asks, where a reverse proxy may stand in between: whose limits and counters count, whether it is a program of this
//! machine, and by which address it knows this server.
//!
//! `X-Forwarded-For`, `-Proto` and `-Host` are believed from the proxies of `CAIRN_TRUSTED_PROXIES` only: anybody can send
//! such headers. A request that says that it was forwarded is no request of this machine's own programs, whoever sent it,
//! because a proxy on this machine that nobody named would otherwise let the whole network in as one of them.

use std::net::{IpAddr, SocketAddr};

use axum::extract::{ConnectInfo, FromRequestParts};
use axum::http::request::Parts;
use axum::http::{HeaderMap, header};

use crate::Server;
use crate::error::ApiError;

/// Headers that proxies add.
const FORWARDED: [&str; 5] = ["x-forwarded-for", "x-forwarded-host", "x-real-ip", "forwarded", "via"];

/// Where a request comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Asker {
    /// Its address: the client's where a trusted proxy says it, else that of the connection.
    pub(crate) ip: IpAddr,
    /// Whether it is a program of this machine.
    pub(crate) is_here: bool,
    /// Whether a trusted proxy brought it.
    pub(crate) through_proxy: bool,
    /// `http://host:port` or `https://host`, as the client knows this server.
    base: Option<String>,
}

impl Asker {
    pub(crate) fn of(server: &Server, peer: SocketAddr, headers: &HeaderMap) -> Self {
        Self::through(&server.app().settings().at_start().sharing.trusted_proxies, peer.ip(), headers)
    }

    fn through(trusted: &[IpAddr], connected: IpAddr, headers: &HeaderMap) -> Self {
        let connected = connected.to_canonical();
        let host = last(headers, header::HOST.as_str());
        if !trusted.contains(&connected) {
            let is_here = connected.is_loopback() && !FORWARDED.iter().any(|name| headers.contains_key(*name));
            return Self { ip: connected, is_here, through_proxy: false, base: base("http", host) };
        }
        // Each proxy adds whom it heard at the end, so what stands before the last that is none of ours anybody may have
        // written.
        let heard: Vec<&str> = headers.get_all("x-forwarded-for").iter().flat_map(entries).collect();
        let client = heard.iter().rev().map(|text| address(text)).find(|ip| ip.is_none_or(|ip| !trusted.contains(&ip)));
        let scheme = if last(headers, "x-forwarded-proto") == Some("https") { "https" } else { "http" };
        let host = last(headers, "x-forwarded-host").or(host);
        let ip = client.flatten().unwrap_or(connected);
        Self { ip, is_here: false, through_proxy: true, base: base(scheme, host) }
    }

    /// An address of this server, as the client knows it; `None` where it did not say.
    pub(crate) fn url(&self, path: &str) -> Option<String> {
        self.base.as_ref().map(|base| format!("{base}{path}"))
    }
}

impl FromRequestParts<Server> for Asker {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, server: &Server) -> Result<Self, ApiError> {
        let peer = parts.extensions.get::<ConnectInfo<SocketAddr>>().map(|info| info.0);
        let peer = peer.ok_or_else(|| ApiError::bad_request("nobody knows where this request comes from"))?;
        Ok(Self::of(server, peer, &parts.headers))
    }
}

fn base(scheme: &str, host: Option<&str>) -> Option<String> {
    Some(format!("{scheme}://{}", host.filter(|host| is_authority(host))?))
}

/// Can it be repeated inside quotes?
fn is_authority(host: &str) -> bool {
    !host.is_empty() && host.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._:[]".contains(&byte))
}

/// The last entry of a header that may be there more than once.
fn last<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get_all(name).iter().flat_map(entries).last()
}

fn entries(value: &axum::http::HeaderValue) -> impl Iterator<Item = &str> {
    value.to_str().unwrap_or("?").split(',').map(str::trim).filter(|entry| !entry.is_empty())
}

/// `10.0.0.1`, `10.0.0.1:5000`, `2001:db8::1`, `[2001:db8::1]:5000`.
fn address(text: &str) -> Option<IpAddr> {
    let with_port = || text.parse::<SocketAddr>().map(|address| address.ip());
    let bare = text.trim_start_matches('[').trim_end_matches(']');
    with_port().or_else(|_| bare.parse()).ok().map(|ip: IpAddr| ip.to_canonical())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_is_believed_to_ask() {
        let trusted: [IpAddr; 2] = ["10.0.0.5".parse().unwrap(), "127.0.0.1".parse().unwrap()];
        let check =
            |trusted: &[IpAddr], from: &str, headers: &[(&'static str, &str)], ip: &str, is_here, base: &str| {
                let headers =
                    headers.iter().map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap())).collect();
                let asker = Asker::through(trusted, from.parse().unwrap(), &headers);
                let found = (asker.ip.to_string(), asker.is_here, asker.url("/v2/token").unwrap_or_default());
                assert_eq!(found, (ip.to_owned(), is_here, base.to_owned()), "{from} {headers:?}");
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
        // Nobody said that this proxy is one.
        check(&[], "127.0.0.1", &forwarded, "127.0.0.1", false, "http://nas:1/v2/token");
        check(&trusted, "10.0.0.9", &forwarded, "10.0.0.9", false, "http://nas:1/v2/token");
        check(&trusted, "127.0.0.1", &forwarded, "192.0.2.9", false, "https://models.example/v2/token");
        check(&trusted, "10.0.0.5", &forwarded, "192.0.2.9", false, "https://models.example/v2/token");
        let lied = [("host", "nas"), ("x-forwarded-for", "127.0.0.1, 192.0.2.9, 10.0.0.5")];
        check(&trusted, "127.0.0.1", &lied, "192.0.2.9", false, "http://nas/v2/token");
        let nobody = [("host", "nas"), ("x-forwarded-for", "unknown")];
        check(&trusted, "127.0.0.1", &nobody, "127.0.0.1", false, "http://nas/v2/token");
        check(&trusted, "127.0.0.1", &[("host", "nas")], "127.0.0.1", false, "http://nas/v2/token");
    }

    #[test]
    fn addresses_as_proxies_write_them() {
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
