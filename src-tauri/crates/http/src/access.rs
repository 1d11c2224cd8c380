//! Who may ask: rules about the `Host` and `Origin` of a request, so that no web page talks to the daemon unasked.
//!
//! `/api` has Ollama's rules, which let local pages, editors and extensions in. `/app` and `/metrics` let in only our own clients: from
//! this machine, with the daemon's token or a session's ([`crate::session`]), to a host that means this machine and our port;
//! `/ui` asks for no token and for all else of it. `/v2` is open to programs of
//! this machine, to others only when its user shares models, and to no web page.

use std::net::{IpAddr, SocketAddr};

use axum::extract::{ConnectInfo, Request, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use crate::Server;
use crate::asker::Asker;
use crate::error::ApiError;
use crate::v2::Refusal;
use cairn_wire::ErrorCode;

/// Origins that are always let in to `/api`; `*` stands for anything.
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

/// Origins of our own window, besides the page that the daemon itself serves.
const WINDOW_ORIGINS: [&str; 2] = ["tauri://localhost", "http://tauri.localhost"];

/// Headers that pages of allowed origins may send.
const ALLOWED_HEADERS: &str = "Authorization,Content-Type,User-Agent,Accept,X-Requested-With,OpenAI-Beta,\
                               X-Cairn-Owner,X-Cairn-Incognito,\
                               x-stainless-lang,x-stainless-package-version,x-stainless-os,x-stainless-arch,\
                               x-stainless-retry-count,x-stainless-runtime,x-stainless-runtime-version,\
                               x-stainless-async,x-stainless-helper-method,x-stainless-poll-helper,\
                               x-stainless-custom-poll-interval,x-stainless-timeout";

/// Lets a request through, or answers in its place.
pub(crate) async fn check(State(server): State<Server>, request: Request, next: Next) -> Response {
    let path = request.uri().path();
    if path.starts_with("/app/") || path == crate::metrics::PATH {
        return own(&server, request, next).await;
    }
    if path == crate::ui::PATH || path.starts_with("/ui/") {
        return match check_here(&server, &request) {
            Ok(()) => next.run(request).await,
            Err(error) => error.into_response(),
        };
    }
    let mut through_proxy = false;
    if request.uri().path().starts_with("/v2") {
        match check_share(&server, &request) {
            Ok(asker) => through_proxy = asker.is_some_and(|asker| asker.through_proxy),
            Err(refusal) => return refusal.into_response(),
        }
    }
    let loopback = server.addresses().iter().all(|address| address.ip().is_loopback());
    let host = text(request.headers(), header::HOST).unwrap_or_default().to_owned();
    // A proxy is known by names of its own, and no page reaches this machine through it unseen.
    if loopback && !through_proxy && !is_local_host(&host, server.addresses(), server.host_name()) {
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
    let everyone = configured.iter().any(|pattern| pattern == "*");
    let patterns = LOCAL_ORIGINS.into_iter().chain(WINDOW_ORIGINS).chain(configured.iter().map(String::as_str));
    if !everyone && !patterns.into_iter().any(|pattern| matches(pattern, &origin)) {
        return StatusCode::FORBIDDEN.into_response();
    }
    let response = match *request.method() {
        Method::OPTIONS => preflight(),
        _ => next.run(request).await,
    };
    readable_by(if everyone { "*" } else { &origin }, response)
}

/// `/app`: our own clients, of which the window is a page of another origin.
async fn own(server: &Server, request: Request, next: Next) -> Response {
    let origin = text(request.headers(), header::ORIGIN).unwrap_or_default();
    let window = WINDOW_ORIGINS.into_iter().find(|own| *own == origin);
    let response = match window {
        // A browser asks without the token whether it may send it.
        Some(_) if request.method() == Method::OPTIONS => preflight(),
        _ => match check_own(server, &request) {
            Ok(()) => next.run(request).await,
            Err(error) => error.into_response(),
        },
    };
    match window {
        Some(window) => readable_by(window, response),
        None => response,
    }
}

/// The answer to a browser that asks what a page may send.
fn preflight() -> Response {
    let headers = [
        (header::ACCESS_CONTROL_ALLOW_METHODS, "GET,POST,PUT,PATCH,DELETE,HEAD,OPTIONS"),
        (header::ACCESS_CONTROL_ALLOW_HEADERS, ALLOWED_HEADERS),
        (header::ACCESS_CONTROL_MAX_AGE, "43200"),
    ];
    (StatusCode::NO_CONTENT, headers).into_response()
}

/// Lets pages of an origin read the answer.
fn readable_by(origin: &str, mut response: Response) -> Response {
    if let Ok(origin) = HeaderValue::from_str(origin) {
        response.headers_mut().insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, origin);
        response.headers_mut().append(header::VARY, HeaderValue::from_static("Origin"));
    }
    response
}

/// The rules of `/app`: those of [`check_here`], and a token. A page that has none yet brings a ticket in its place.
fn check_own(server: &Server, request: &Request) -> Result<(), ApiError> {
    check_here(server, request)?;
    if request.uri().path() == crate::session::PATH {
        return Ok(());
    }
    let bearer = text(request.headers(), header::AUTHORIZATION).and_then(|text| text.strip_prefix("Bearer "));
    match bearer {
        Some(token) if server.is_own(token) => Ok(()),
        _ => Err(ApiError::new(
            StatusCode::UNAUTHORIZED,
            ErrorCode::Unauthorized,
            "unauthorized: missing or wrong daemon token",
        )),
    }
}

/// Lets in programs of this machine, and of pages only our own.
fn check_here(server: &Server, request: &Request) -> Result<(), ApiError> {
    let forbidden = |text: &str| Err(ApiError::new(StatusCode::FORBIDDEN, ErrorCode::Forbidden, text));
    if !peer_is_here(request) {
        return forbidden("only clients on this machine may ask this");
    }
    let headers = request.headers();
    let host = text(headers, header::HOST).unwrap_or_default();
    let ours = server.addresses().iter().any(|address| {
        let port = address.port();
        ["127.0.0.1", "localhost", "[::1]"].iter().any(|name| host == format!("{name}:{port}"))
    });
    if !ours {
        return forbidden("the Host header names another server");
    }
    if let Some(origin) = text(headers, header::ORIGIN)
        && !WINDOW_ORIGINS.contains(&origin)
        && !is_same_origin(origin, host)
    {
        return forbidden("the Origin header names a foreign page");
    }
    Ok(())
}

/// The rules of `/v2`, beside those that hold everywhere.
fn check_share(server: &Server, request: &Request) -> Result<Option<Asker>, Refusal> {
    if text(request.headers(), header::ORIGIN).is_some() {
        return Err(Refusal::denied("web pages cannot pull models"));
    }
    let peer = request.extensions().get::<ConnectInfo<SocketAddr>>().map(|info| info.0);
    let asker = peer.map(|peer| Asker::of(server, peer, request.headers()));
    if asker.as_ref().is_some_and(|asker| asker.is_here) || server.app().settings().at_start().sharing.share {
        return Ok(asker);
    }
    Err(Refusal::denied("this machine does not share its models; CAIRN_SHARE=1 there switches it on"))
}

/// Does the request come from this machine?
fn peer_is_here(request: &Request) -> bool {
    let peer = request.extensions().get::<ConnectInfo<SocketAddr>>().map(|info| info.0.ip());
    peer.is_some_and(|ip| ip.to_canonical().is_loopback())
}

/// A header's text. One that is there and cannot be read, or is there twice, must not pass for one that is missing: it
/// reads as a text that no rule lets in.
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

/// Does the `Host` of a request mean a machine that its sender can trust to be here? A name that anybody can register
/// does not: a page of that name could be pointed at this machine.
fn is_local_host(host: &str, addresses: &[SocketAddr], own_name: Option<&str>) -> bool {
    let name = match host.strip_prefix('[').and_then(|inside| inside.split_once(']')) {
        Some((address, _)) => address,
        None if host.matches(':').count() == 1 => host.split_once(':').map_or(host, |(name, _)| name),
        None => host,
    };
    if let Ok(ip) = name.parse::<IpAddr>().map(|ip| ip.to_canonical()) {
        let own = addresses.iter().any(|address| address.ip() == ip);
        return own || ip.is_loopback() || ip.is_unspecified() || is_private(ip);
    }
    if own_name.is_some_and(|own| own.eq_ignore_ascii_case(name)) {
        return true;
    }
    let name = name.to_ascii_lowercase();
    let local_endings = [".localhost", ".local", ".internal"];
    name.is_empty() || name == "localhost" || local_endings.iter().any(|ending| name.ends_with(ending))
}

fn is_private(ip: IpAddr) -> bool {
    match ip {
        IpAddr::V4(ip) => ip.is_private(),
        IpAddr::V6(ip) => ip.is_unique_local(),
    }
}

/// Does an origin match a pattern, in which one `*` stands for anything?
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
    fn hosts_that_mean_this_machine() {
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
    fn origin_patterns() {
        assert!(matches("http://localhost:*", "http://localhost:3000"), "any port");
        assert!(!matches("http://localhost:*", "http://localhost.evil.com"), "another host");
        assert!(!matches("http://localhost", "http://localhost:3000"), "no star, no port");
        assert!(matches("https://*.example.org", "https://a.example.org"), "a star inside");
        assert!(!matches("http://a*a", "http://a"), "start and end do not overlap");
    }
}
