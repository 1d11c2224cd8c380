//! The web page that sends a request, by `Origin` and by `Sec-Fetch-*`.
//!
//! Browsers send `Origin` with all requests but plain GETs: an image or a script of any page is requested without it.
//! `Sec-Fetch-Site` marks these. A program sends neither header.

use axum::http::{HeaderMap, HeaderName, Method, header};

use super::text;

/// Origins of pages on this machine, which always have access to `/api`. `*` matches any text.
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

/// What kind of page sends a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Page {
    /// None: the client is a program, or the user typed the address.
    Program,
    /// Cairn's own page, or its window.
    Own,
    /// A local page, an editor, an extension, or an origin of the setting `server.origins`.
    Allowed,
    /// Any other page.
    Foreign,
    /// Any page; the user follows its link, so the response replaces the page and the page cannot read it.
    Link,
}

/// A page and the origin that the browser must be allowed to show the response to, if that is not the daemon's own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Sender {
    pub(super) page: Page,
    pub(super) cors: Option<String>,
}

impl Sender {
    /// Classifies the sender of a request to the server name `host`. `configured` are further allowed origins.
    pub(super) fn of(method: &Method, headers: &HeaderMap, host: &str, configured: &[String]) -> Self {
        let Some(origin) = text(headers, header::ORIGIN) else {
            return Self { page: without_origin(method, headers), cors: None };
        };
        let cors = |page, origin: &str| Self { page, cors: Some(origin.to_owned()) };
        if WINDOW_ORIGINS.contains(&origin) {
            return cors(Page::Own, origin);
        }
        if is_same_origin(origin, host) {
            return Self { page: Page::Own, cors: None };
        }
        if configured.iter().any(|pattern| pattern == "*") {
            return cors(Page::Allowed, "*");
        }
        let mut patterns = LOCAL_ORIGINS.into_iter().chain(configured.iter().map(String::as_str));
        match patterns.any(|pattern| matches(pattern, origin)) {
            true => cors(Page::Allowed, origin),
            false => Self { page: Page::Foreign, cors: None },
        }
    }
}

/// Classifies a request without `Origin` by Fetch Metadata (<https://www.w3.org/TR/fetch-metadata/>).
fn without_origin(method: &Method, headers: &HeaderMap) -> Page {
    let value = |name| text(headers, HeaderName::from_static(name));
    let is = |name, expected| value(name) == Some(expected);
    match value("sec-fetch-site") {
        None | Some("none") => Page::Program,
        Some("same-origin") => Page::Own,
        Some(_) if method == Method::GET && is("sec-fetch-mode", "navigate") && is("sec-fetch-dest", "document") => {
            Page::Link
        }
        Some(_) => Page::Foreign,
    }
}

fn is_same_origin(origin: &str, host: &str) -> bool {
    let after_scheme = origin.strip_prefix("http://").or_else(|| origin.strip_prefix("https://"));
    !host.is_empty() && after_scheme == Some(host)
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
    fn origin_pattern_matches_one_star() {
        assert!(matches("http://localhost:*", "http://localhost:3000"), "any port");
        assert!(!matches("http://localhost:*", "http://localhost.evil.com"), "another host");
        assert!(!matches("http://localhost", "http://localhost:3000"), "a pattern without a star allows no port");
        assert!(matches("https://*.example.org", "https://a.example.org"), "a star inside");
        assert!(!matches("http://a*a", "http://a"), "start and end do not overlap");
    }

    #[test]
    fn sender_is_classified_by_origin_and_fetch_metadata() {
        let check = |method: Method, headers: &[(&'static str, &str)], page: Page, cors: Option<&str>| {
            let map = headers.iter().map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap())).collect();
            let found = Sender::of(&method, &map, "localhost:11434", &["https://a.example".to_owned()]);
            assert_eq!(found, Sender { page, cors: cors.map(str::to_owned) }, "{method} {headers:?}");
        };
        check(Method::POST, &[], Page::Program, None);
        check(Method::GET, &[("sec-fetch-site", "none")], Page::Program, None);
        check(Method::GET, &[("sec-fetch-site", "same-origin")], Page::Own, None);
        check(Method::POST, &[("origin", "http://localhost:11434")], Page::Own, None);
        check(Method::POST, &[("origin", "tauri://localhost")], Page::Own, Some("tauri://localhost"));
        check(Method::POST, &[("origin", "http://localhost:3000")], Page::Allowed, Some("http://localhost:3000"));
        check(Method::POST, &[("origin", "https://a.example")], Page::Allowed, Some("https://a.example"));
        for origin in ["null", "https://evil.example", "http://localhost.evil.example"] {
            check(Method::POST, &[("origin", origin)], Page::Foreign, None);
        }
        let image = [("sec-fetch-site", "cross-site"), ("sec-fetch-mode", "no-cors"), ("sec-fetch-dest", "image")];
        check(Method::GET, &image, Page::Foreign, None);
        check(Method::POST, &[("sec-fetch-site", "same-site")], Page::Foreign, None);
        let link = [("sec-fetch-site", "cross-site"), ("sec-fetch-mode", "navigate"), ("sec-fetch-dest", "document")];
        check(Method::GET, &link, Page::Link, None);
        check(Method::POST, &link, Page::Foreign, None);
        let frame = [("sec-fetch-site", "cross-site"), ("sec-fetch-mode", "navigate"), ("sec-fetch-dest", "iframe")];
        check(Method::GET, &frame, Page::Foreign, None);
    }
}
