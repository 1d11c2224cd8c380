//! Access control by token, client address and the `Host` and `Origin` headers. It blocks foreign web pages.
//!
//! - `/api` follows Ollama's rules: local pages, editors and browser extensions have access.
//! - `/app` and `/metrics` require a client on this machine, the daemon's token or a session token
//!   ([`crate::session`]), and a `Host` header with a loopback name and the daemon's port.
//! - `/ui` has the same rules without the token.
//! - `/v2` is open to programs on this machine, and to other machines only if models are shared. Web pages have no
//!   access.

use std::net::{IpAddr, SocketAddr};

use axum::extract::{ConnectInfo, Request, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use crate::Server;
use crate::client::ClientInfo;
use crate::error::ApiError;
use crate::v2::RegistryError;
use cairn_wire::ErrorCode;

/// Origins that always have access to `/api`. `*` matches any text.
const LOCAL_ORIGINS: [&str; 20] = [
    "http://localhost",
    "https://localhost",
    "http://localhost:*",
    "https://localhost:*",
    "http://127.0.0.1",
    "https://127.0.0.1",
    "http://127.0.0.1:*",
    "https://127.0.0.1:*",
    "http://0.0.0.0",
    "https://0.0.0.0",
    "http://0.0.0.0:*",
    "https://0.0.0.0:*",
    "app://*",
    "file://*",
    "tauri://*",
    "vscode-webview://*",
    "vscode-file://*",
    "chrome-extension://*",
    "moz-extension://*",
    "safari-web-extension://*",
];

/// Origins of the desktop window, in addition to the page that the daemon serves.
const WINDOW_ORIGINS: [&str; 2] = ["tauri://localhost", "http://tauri.localhost"];

/// Request headers that pages of allowed origins may send.
const ALLOWED_HEADERS: &str = "Authorization,Content-Type,User-Agent,Accept,X-Requested-With,OpenAI-Beta,\
                               X-Cairn-Owner,X-Cairn-Incognito,\
                               x-stainless-lang,x-stainless-package-version,x-stainless-os,x-stainless-arch,\
                               x-stainless-retry-count,x-stainless-runtime,x-stainless-runtime-version,\
                               x-stainless-async,x-stainless-helper-method,x-stainless-poll-helper,\
                               x-stainless-custom-poll-interval,x-stainless-timeout";

/// Middleware that passes an allowed request on, or rejects it.
pub(crate) async fn check(State(server): State<Server>, request: Request, next: Next) -> Response {
    let path = request.uri().path();
    if path.starts_with("/app/") || path == crate::metrics::PATH {
        return check_app(&server, request, next).await;
    }
    if path == crate::ui::PATH || path.starts_with("/ui/") {
        return match check_local(&server, &request) {
            Ok(()) => next.run(request).await,
            Err(error) => error.into_response(),
        };
    }
    let mut is_proxied = false;
    if request.uri().path().starts_with("/v2") {
        match check_registry(&server, &request) {
            Ok(client) => is_proxied = client.is_some_and(|client| client.is_proxied),
            Err(error) => return error.into_response(),
        }
    }
    let is_loopback_only = server.addresses().iter().all(|address| address.ip().is_loopback());
    let host = text(request.headers(), header::HOST).unwrap_or_default().to_owned();
    // Clients reach a trusted proxy under its own host names.
    if is_loopback_only && !is_proxied && !is_local_host(&host, server.addresses(), server.host_name()) {
        return StatusCode::FORBIDDEN.into_response();
    }
    let Some(origin) = text(request.headers(), header::ORIGIN).map(str::to_owned) else {
        return match *request.method() {
            Method::OPTIONS => StatusCode::NO_CONTENT.into_response(),
            _ => next.run(request).await,
        };
    };
    if is_same_origin(&origin, &host) {
        return next.run(request).await;
    }
    let configured = &server.app().settings().at_start().server.origins;
    let any_origin = configured.iter().any(|pattern| pattern == "*");
    let patterns = LOCAL_ORIGINS.into_iter().chain(WINDOW_ORIGINS).chain(configured.iter().map(String::as_str));
    if !any_origin && !patterns.into_iter().any(|pattern| matches(pattern, &origin)) {
        return StatusCode::FORBIDDEN.into_response();
    }
    let response = match *request.method() {
        Method::OPTIONS => preflight(),
        _ => next.run(request).await,
    };
    allow_origin(if any_origin { "*" } else { &origin }, response)
}

/// Middleware for `/app` and `/metrics`. The desktop window needs CORS headers: its page has another origin.
async fn check_app(server: &Server, request: Request, next: Next) -> Response {
    let origin = text(request.headers(), header::ORIGIN).unwrap_or_default();
    let window = WINDOW_ORIGINS.into_iter().find(|window| *window == origin);
    let response = match window {
        // Preflight requests never carry the token.
        Some(_) if request.method() == Method::OPTIONS => preflight(),
        _ => match check_token(server, &request) {
            Ok(()) => next.run(request).await,
            Err(error) => error.into_response(),
        },
    };
    match window {
        Some(window) => allow_origin(window, response),
        None => response,
    }
}

/// Response to a CORS preflight request.
fn preflight() -> Response {
    let headers = [
        (header::ACCESS_CONTROL_ALLOW_METHODS, "GET,POST,PUT,PATCH,DELETE,HEAD,OPTIONS"),
        (header::ACCESS_CONTROL_ALLOW_HEADERS, ALLOWED_HEADERS),
        (header::ACCESS_CONTROL_MAX_AGE, "43200"),
    ];
    (StatusCode::NO_CONTENT, headers).into_response()
}

/// Adds the CORS headers that let pages of `origin` read the response.
fn allow_origin(origin: &str, mut response: Response) -> Response {
    if let Ok(origin) = HeaderValue::from_str(origin) {
        response.headers_mut().insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, origin);
        response.headers_mut().append(header::VARY, HeaderValue::from_static("Origin"));
    }
    response
}

/// Checks the rules of [`check_local`] and the token. Creating a session needs no token: the body has a ticket instead.
fn check_token(server: &Server, request: &Request) -> Result<(), ApiError> {
    check_local(server, request)?;
    if request.uri().path() == crate::session::PATH {
        return Ok(());
    }
    let bearer = text(request.headers(), header::AUTHORIZATION).and_then(|text| text.strip_prefix("Bearer "));
    match bearer {
        Some(token) if server.is_authorized(token) => Ok(()),
        _ => Err(ApiError::new(
            StatusCode::UNAUTHORIZED,
            ErrorCode::Unauthorized,
            "unauthorized: missing or wrong daemon token",
        )),
    }
}

/// Checks that the client runs on this machine and, if it is a web page, that the page is part of Cairn.
fn check_local(server: &Server, request: &Request) -> Result<(), ApiError> {
    let forbidden = |text: &str| Err(ApiError::new(StatusCode::FORBIDDEN, ErrorCode::Forbidden, text));
    if !is_peer_local(request) {
        return forbidden("forbidden: this path is open to clients on the daemon's machine only");
    }
    let headers = request.headers();
    let host = text(headers, header::HOST).unwrap_or_default();
    let is_own_host = server.addresses().iter().any(|address| {
        let port = address.port();
        ["127.0.0.1", "localhost", "[::1]"].iter().any(|name| host == format!("{name}:{port}"))
    });
    if !is_own_host {
        return forbidden("forbidden: the Host header names another server");
    }
    if let Some(origin) = text(headers, header::ORIGIN)
        && !WINDOW_ORIGINS.contains(&origin)
        && !is_same_origin(origin, host)
    {
        return forbidden("forbidden: the Origin header names a foreign page");
    }
    Ok(())
}

/// Checks the additional rules of `/v2`. Returns the client, or `None` if its address is unknown.
fn check_registry(server: &Server, request: &Request) -> Result<Option<ClientInfo>, RegistryError> {
    if text(request.headers(), header::ORIGIN).is_some() {
        return Err(RegistryError::denied("web pages cannot pull models"));
    }
    let peer = request.extensions().get::<ConnectInfo<SocketAddr>>().map(|info| info.0);
    let client = peer.map(|peer| ClientInfo::new(server, peer, request.headers()));
    if client.as_ref().is_some_and(|client| client.is_local) || server.app().settings().at_start().sharing.share {
        return Ok(client);
    }
    Err(RegistryError::denied("this machine does not share its models; set CAIRN_SHARE=1 on it to share them"))
}

/// Returns whether the connection comes from this machine.
fn is_peer_local(request: &Request) -> bool {
    let peer = request.extensions().get::<ConnectInfo<SocketAddr>>().map(|info| info.0.ip());
    peer.is_some_and(|ip| ip.to_canonical().is_loopback())
}

/// Returns the text of a header. An unreadable or repeated header must not count as missing: it returns a text that no
/// rule allows.
fn text(headers: &HeaderMap, name: HeaderName) -> Option<&str> {
    const UNREADABLE: &str = "?";
    let mut values = headers.get_all(name).iter();
    let first = values.next()?;
    Some(first.to_str().ok().filter(|_| values.next().is_none()).unwrap_or(UNREADABLE))
}

fn is_same_origin(origin: &str, host: &str) -> bool {
    let after_scheme = origin.strip_prefix("http://").or_else(|| origin.strip_prefix("https://"));
    !host.is_empty() && after_scheme == Some(host)
}

/// Returns whether a `Host` header is safe from DNS rebinding. A public DNS name is not: its owner could serve a page
/// under that name and then point the name at this machine.
fn is_local_host(host: &str, addresses: &[SocketAddr], own_name: Option<&str>) -> bool {
    let name = match host.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((address, _)) => address,
        None if host.matches(':').count() == 1 => host.split_once(':').map_or(host, |(name, _)| name),
        None => host,
    };
    if let Ok(ip) = name.parse::<IpAddr>().map(|ip| ip.to_canonical()) {
        let is_own = addresses.iter().any(|address| address.ip() == ip);
        return is_own || ip.is_loopback() || ip.is_unspecified() || is_private(ip);
    }
    if own_name.is_some_and(|own| own.eq_ignore_ascii_case(name)) {
        return true;
    }
    let name = name.to_ascii_lowercase();
    let local_suffixes = [".localhost", ".local", ".internal"];
    name.is_empty() || name == "localhost" || local_suffixes.iter().any(|suffix| name.ends_with(suffix))
}

fn is_private(ip: IpAddr) -> bool {
    match ip {
        IpAddr::V4(ip) => ip.is_private(),
        IpAddr::V6(ip) => ip.is_unique_local(),
    }
}

/// Returns whether an origin matches a pattern. The first `*` of the pattern matches any text.
fn matches(pattern: &str, origin: &str) -> bool {
    match pattern.split_once('*') {
        None => pattern == origin,
        Some((start, end)) => {
            origin.len() >= start.len() + end.len() && origin.starts_with(start) && origin.ends_with(end)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn local_hosts_are_recognized() {
        let check = |host: &str, expected: bool| {
            assert_eq!(is_local_host(host, &[], Some("Workstation")), expected, "{host:?}");
        };
        for host in ["", "localhost", "localhost:11434", "127.0.0.1:1", "[::1]:11434", "::1", "0.0.0.0", "192.168.1.2"]
        {
            check(host, true);
        }
        for host in [
            "workstation:11434",
            "[::ffff:127.0.0.1]:1",
            "LOCALHOST",
            "box.local",
            "host.docker.internal:11434",
            "a.localhost",
        ] {
            check(host, true);
        }
        for host in
            ["example.org", "example.org:11434", "8.8.8.8", "local", "evil-localhost.com", "[2001:db8::1]:1", "?"]
        {
            check(host, false);
        }
    }

    #[test]
    fn origin_pattern_matches_one_star() {
        assert!(matches("http://localhost:*", "http://localhost:3000"), "any port");
        assert!(!matches("http://localhost:*", "http://localhost.evil.com"), "another host");
        assert!(!matches("http://localhost", "http://localhost:3000"), "a pattern without a star allows no port");
        assert!(matches("https://*.example.org", "https://a.example.org"), "a star inside");
        assert!(!matches("http://a*a", "http://a"), "start and end do not overlap");
    }
}
