//! Access control by the table in [`table`]: client machine, `Host` header, web page, and token or API key.

mod host;
mod page;
mod table;

use std::time::Duration;

use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use cairn_wire::{ErrorCode, excerpt};

use crate::Server;
use crate::client::ClientInfo;
use crate::credential::Credential;
use crate::error::{ApiError, RegistryError};
use crate::revocable_body::until_revoked;
use host::OwnNames;
use page::Sender;
pub use table::document;
use table::{Facts, Refusal, Row, any_of};
pub(crate) use table::{Needs, needs_of};

/// Request headers that pages of allowed origins may send.
const ALLOWED_HEADERS: &str = "Authorization,Content-Type,User-Agent,Accept,X-Requested-With,OpenAI-Beta,\
                               X-Api-Key,Anthropic-Version,Anthropic-Beta,Anthropic-Dangerous-Direct-Browser-Access,\
                               X-Cairn-Owner,X-Cairn-Incognito,X-Cairn-Priority,\
                               x-stainless-lang,x-stainless-package-version,x-stainless-os,x-stainless-arch,\
                               x-stainless-retry-count,x-stainless-runtime,x-stainless-runtime-version,\
                               x-stainless-async,x-stainless-helper-method,x-stainless-poll-helper,\
                               x-stainless-custom-poll-interval,x-stainless-timeout";

/// Paths of Cairn's own clients. Streams of events there never end by themselves, so they end when their key is revoked.
const APP: &str = "/app/";

/// Delay before a web page learns that it is refused. A page that repeats its requests would otherwise use the processor time of
/// answers; a browser has only a few connections to one server.
const PAGE_REFUSAL_DELAY: Duration = Duration::from_millis(100);

/// Middleware that passes an allowed request on with its client, or refuses it.
pub(crate) async fn check(State(server): State<Server>, mut request: Request, next: Next) -> Response {
    let row = Row::of(request.uri().path());
    let client = ClientInfo::of(&server, &request);
    let (facts, sender) = facts(&server, &request, client.as_ref());
    if let Some(client) = client {
        request.extensions_mut().insert(client);
    }
    let response = match row.decide(&facts) {
        Err(refusal) => {
            if matches!(refusal, Refusal::Page | Refusal::Host) {
                tokio::time::sleep(PAGE_REFUSAL_DELAY).await;
            }
            refused(&request, refusal, &facts.credential)
        }
        Ok(()) if facts.is_preflight && sender.cors.is_some() => preflight(),
        Ok(()) if facts.is_preflight => StatusCode::NO_CONTENT.into_response(),
        Ok(()) => {
            let key = facts.credential.key().filter(|_| request.uri().path().starts_with(APP));
            let response = next.run(request).await;
            match key {
                Some(key) => until_revoked(response, server.app().keys(), key.digest),
                None => response,
            }
        }
    };
    match sender.cors.filter(|_| row.allows_page(sender.page)) {
        Some(origin) => allow_origin(&origin, response),
        None => response,
    }
}

/// Returns the properties of a request that the table reads, and the page that sent it.
fn facts(server: &Server, request: &Request, client: Option<&ClientInfo>) -> (Facts, Sender) {
    let settings = server.app().settings().at_start();
    let headers = request.headers();
    let name = text(headers, header::HOST).unwrap_or_default();
    let names = own_names(server);
    let sender = Sender::of(request.method(), headers, name, &settings.server.origins);
    let facts = Facts {
        is_proxied: client.is_some_and(|client| client.is_proxied),
        is_local: client.is_some_and(|client| client.is_local),
        host: names.classify(name),
        page: sender.page,
        shares: settings.sharing.share,
        require_key: server.app().settings().require_key(),
        credential: request.extensions().get::<Credential>().cloned().unwrap_or_default(),
        is_preflight: request.method() == Method::OPTIONS,
    };
    (facts, sender)
}

/// Returns the names of this machine.
pub(crate) fn own_names(server: &Server) -> OwnNames<'_> {
    let configured = &server.app().settings().at_start().server.names;
    OwnNames { addresses: server.addresses(), machine: server.host_name(), configured }
}

/// Returns the response to a refused request.
fn refused(request: &Request, refusal: Refusal, credential: &Credential) -> Response {
    let text = match refusal {
        Refusal::Host => {
            let host = text(request.headers(), header::HOST).unwrap_or_default();
            format!(
                "forbidden: the Host header names {:?}, which is no name of this machine for this path; if it is one, add \
                 it to CAIRN_NAMES on the daemon",
                excerpt(host)
            )
        }
        Refusal::Page => {
            "forbidden: web pages of this origin have no access to this path; OLLAMA_ORIGINS on the daemon \
                          allows origins for /api"
                .to_owned()
        }
        Refusal::Machine => "forbidden: this path is open to programs on the daemon's machine only".to_owned(),
        Refusal::NotShared => {
            "this machine does not share its models; set CAIRN_SHARE=1 on it to share them".to_owned()
        }
        Refusal::Token => "unauthorized: missing or wrong token or API key".to_owned(),
        Refusal::NoKey(scopes) => format!(
            "unauthorized: from another machine, this path needs an API key for {}; create one on the daemon's machine \
             with `cairn key create NAME --scope {}`, and send it as `Authorization: Bearer KEY` or `x-api-key: KEY`",
            any_of(scopes),
            scopes.first().map_or("chat", |scope| scope.name()),
        ),
        Refusal::WrongKey => {
            "unauthorized: the API key is wrong or was revoked; `cairn key list` on the daemon's machine lists \
                              the keys, and `cairn key create NAME` creates one"
                .to_owned()
        }
        Refusal::Scope(scopes) => format!(
            "forbidden: this path needs an API key for {}; the key {:?} has no such scope",
            any_of(scopes),
            credential.key().map_or("", |key| &key.name),
        ),
    };
    if RegistryError::is_for(request.uri().path()) {
        return RegistryError::denied(&text).into_response();
    }
    let (status, code) = match refusal {
        Refusal::Token => (StatusCode::UNAUTHORIZED, ErrorCode::Unauthorized),
        Refusal::NoKey(_) => (StatusCode::UNAUTHORIZED, ErrorCode::ApiKeyMissing),
        Refusal::WrongKey => (StatusCode::UNAUTHORIZED, ErrorCode::ApiKeyInvalid),
        Refusal::Scope(_) => (StatusCode::FORBIDDEN, ErrorCode::ApiKeyScope),
        Refusal::Host | Refusal::Page | Refusal::Machine | Refusal::NotShared => {
            (StatusCode::FORBIDDEN, ErrorCode::Forbidden)
        }
    };
    let error = ApiError::new(status, code, text);
    let response = match refusal {
        Refusal::NoKey(scopes) | Refusal::Scope(scopes) => error.with("scope", any_of(scopes)).into_response(),
        _ => error.into_response(),
    };
    match status {
        // RFC 9110, section 11.6.1, requires it.
        StatusCode::UNAUTHORIZED => ([(header::WWW_AUTHENTICATE, "Bearer")], response).into_response(),
        _ => response,
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

/// Returns the text of a header. An unreadable or repeated header must not count as missing: it returns a text that no
/// rule allows.
fn text(headers: &HeaderMap, name: HeaderName) -> Option<&str> {
    const UNREADABLE: &str = "?";
    let mut values = headers.get_all(name).iter();
    let first = values.next()?;
    Some(first.to_str().ok().filter(|_| values.next().is_none()).unwrap_or(UNREADABLE))
}
