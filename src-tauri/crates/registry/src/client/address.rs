//! Hosts of URLs, and whether requests may be sent to them.

use std::net::IpAddr;

use reqwest::Url;

/// Whether the URL's host is this machine.
pub(crate) fn is_loopback(url: &Url) -> bool {
    let host = url.host_str().unwrap_or_default();
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    host == "localhost" || host.ends_with(".localhost") || bare.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback())
}

/// Whether a redirect from `from` to `to` is allowed: not from https to http.
pub(crate) fn is_allowed_redirect(from: &Url, to: &Url) -> bool {
    matches!((from.scheme(), to.scheme()), ("https" | "http", "https") | ("http", "http"))
}

/// The host of a URL, with a non-default port.
pub(crate) fn host_and_port(url: &Url) -> String {
    let host = url.host_str().unwrap_or_default();
    url.port().map_or_else(|| host.to_owned(), |port| format!("{host}:{port}"))
}
