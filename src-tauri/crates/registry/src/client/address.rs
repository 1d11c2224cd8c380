//! Hosts of URLs, and whether requests may be sent to them.

use std::net::IpAddr;

use reqwest::Url;

/// Whether the URL's host is this machine.
pub(crate) fn is_loopback(url: &Url) -> bool {
    let host = url.host_str().unwrap_or_default();
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    host == "localhost" || host.ends_with(".localhost") || bare.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback())
}

/// Checks the target of a redirect: it must not lead from https to http, and must not contain a user or a password. The
/// HTTP client would send these as an `Authorization` header, so the redirecting server would choose the credentials.
pub(crate) fn check_redirect(from: &Url, to: &Url) -> Result<(), String> {
    if !matches!((from.scheme(), to.scheme()), ("https" | "http", "https") | ("http", "http")) {
        return Err(format!("a redirect from {} to {}", from.scheme(), to.scheme()));
    }
    match to.username().is_empty() && to.password().is_none() {
        true => Ok(()),
        // They are not repeated in the error.
        false => Err(format!("a redirect with a user or a password to {}", host_and_port(to))),
    }
}

/// The host of a URL, with a non-default port.
pub(crate) fn host_and_port(url: &Url) -> String {
    let host = url.host_str().unwrap_or_default();
    url.port().map_or_else(|| host.to_owned(), |port| format!("{host}:{port}"))
}
