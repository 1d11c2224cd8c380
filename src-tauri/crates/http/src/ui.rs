//! `/ui/`: the interface for browsers, as it was built into this program.
//!
//! The files are public, as far as programs of this machine go; what they show comes from `/app`, for which a page needs a
//! session ([`crate::session`]). A page may load and ask only what the daemon itself serves, and nobody may frame it, so
//! that even a script that a model's answer smuggled in had nowhere to send anything to.

use axum::Router;
use axum::extract::Path;
use axum::http::{HeaderName, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Redirect, Response};
use axum::routing::get;

use crate::Server;

/// Where it is.
pub(crate) const PATH: &str = "/ui";
/// Its files by path, `index.html` among them. Made by `build.rs`.
const FILES: &[(&str, &[u8])] = include!(concat!(env!("OUT_DIR"), "/ui.rs"));
/// Files here have a digest in their names.
const DIGESTED: &str = "assets/";

/// What a page may do. Pictures may be inside of the page itself: those that its user attaches.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; font-src 'self'; \
                      img-src 'self' data: blob:; worker-src 'self'; connect-src 'self'; base-uri 'none'; \
                      form-action 'none'; frame-ancestors 'none'";
/// Headers of every answer.
const HEADERS: [(HeaderName, &str); 6] = [
    (header::CONTENT_SECURITY_POLICY, POLICY),
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (header::REFERRER_POLICY, "no-referrer"),
    (header::X_FRAME_OPTIONS, "DENY"),
    (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
    (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
];

pub(crate) fn routes() -> Router<Server> {
    Router::new()
        .route(PATH, get(async || guarded(Redirect::permanent("/ui/"))))
        .route("/ui/", get(async || file("index.html")))
        .route("/ui/{*path}", get(async |Path(path): Path<String>| file(&path)))
}

fn file(path: &str) -> Response {
    let Some((_, bytes)) = FILES.iter().find(|(known, _)| *known == path) else {
        return guarded((StatusCode::NOT_FOUND, "404 page not found"));
    };
    // What keeps its name must be asked for anew, or a new version would show an old page.
    let cache = if path.starts_with(DIGESTED) { "public, max-age=31536000, immutable" } else { "no-cache" };
    guarded(([(header::CONTENT_TYPE, kind(path)), (header::CACHE_CONTROL, cache)], *bytes))
}

fn guarded(answer: impl IntoResponse) -> Response {
    let mut response = answer.into_response();
    for (name, value) in HEADERS {
        response.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    response
}

fn kind(path: &str) -> &'static str {
    match path.rsplit_once('.').map_or("", |(_, ending)| ending) {
        "html" => "text/html; charset=utf-8",
        "js" | "mjs" => "text/javascript; charset=utf-8",
        "css" => "text/css; charset=utf-8",
        "json" | "map" => "application/json",
        "svg" => "image/svg+xml",
        "png" => "image/png",
        "ico" => "image/x-icon",
        "woff2" => "font/woff2",
        "woff" => "font/woff",
        "ttf" => "font/ttf",
        "txt" => "text/plain; charset=utf-8",
        "wasm" => "application/wasm",
        _ => "application/octet-stream",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_is_a_page_and_files_have_kinds() {
        assert!(FILES.iter().any(|(path, bytes)| *path == "index.html" && !bytes.is_empty()), "the page itself");
        for (path, _) in FILES {
            assert_ne!(kind(path), "application/octet-stream", "{path} needs a row: with nosniff no browser takes it");
        }
    }
}
