//! What a request presents to prove its sender: the daemon token, an API key, or another text.
//!
//! The key is in `Authorization: Bearer KEY` or in `x-api-key: KEY`, which Anthropic's clients send.

use std::convert::Infallible;
use std::sync::Arc;

use axum::extract::{FromRequestParts, Request, State};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderName, header};
use axum::middleware::Next;
use axum::response::Response;
use cairn_app::keys::{PresentedKey, is_key};
use cairn_app::secret::SecretDigest;
use cairn_wire::app::KeyScope;

use crate::Server;

const API_KEY: HeaderName = HeaderName::from_static("x-api-key");

/// The credential of a request.
#[derive(Debug, Clone, Default)]
pub(crate) enum Credential {
    /// None.
    #[default]
    Absent,
    /// The daemon token or a session token.
    Token,
    /// A valid API key.
    Key(Arc<PresentedKey>),
    /// A text in the form of an API key that is not valid: it was mistyped or revoked.
    WrongKey(SecretDigest),
    /// Another text. Clients that must send a key send any text to a server without keys.
    OtherText(SecretDigest),
}

impl Credential {
    /// Reads the credential of a request. If both headers are present, one valid credential is enough.
    fn of(server: &Server, headers: &HeaderMap) -> Self {
        let mut other = Self::Absent;
        for text in [bearer(headers), single(headers, &API_KEY)].into_iter().flatten() {
            if server.is_authorized(text) {
                return Self::Token;
            }
            match server.app().keys().find(text) {
                Some(key) => return Self::Key(Arc::new(key)),
                None if is_key(text) => other = Self::WrongKey(SecretDigest::of(text)),
                None if matches!(other, Self::Absent) => other = Self::OtherText(SecretDigest::of(text)),
                None => {}
            }
        }
        other
    }

    /// The API key.
    pub(crate) fn key(&self) -> Option<&PresentedKey> {
        match self {
            Self::Key(key) => Some(key),
            Self::Absent | Self::Token | Self::WrongKey(_) | Self::OtherText(_) => None,
        }
    }

    /// Whether the credential allows one of these scopes. Tokens allow all.
    pub(crate) fn allows(&self, scopes: &[KeyScope]) -> bool {
        match self {
            Self::Token => true,
            Self::Key(key) => scopes.iter().any(|scope| key.allows(*scope)),
            Self::Absent | Self::WrongKey(_) | Self::OtherText(_) => false,
        }
    }
}

impl<S: Sync> FromRequestParts<S> for Credential {
    type Rejection = Infallible;

    /// Extracts the credential that [`identify`] added. Without that middleware there is none.
    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Infallible> {
        Ok(parts.extensions.get::<Self>().cloned().unwrap_or_default())
    }
}

/// Middleware that reads the credential once for all that need it.
pub(crate) async fn identify(State(server): State<Server>, mut request: Request, next: Next) -> Response {
    let credential = Credential::of(&server, request.headers());
    request.extensions_mut().insert(credential);
    next.run(request).await
}

/// Returns the text after `Bearer`. Other schemes are credentials of a proxy, not of this server.
fn bearer(headers: &HeaderMap) -> Option<&str> {
    let text = single(headers, &header::AUTHORIZATION)?;
    if text == UNREADABLE {
        return Some(text);
    }
    let (scheme, key) = text.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| key.trim()).filter(|key| !key.is_empty())
}

/// Replacement for an unreadable or repeated header, which must not count as missing. It is no valid credential.
const UNREADABLE: &str = "?";

fn single<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Option<&'a str> {
    let mut values = headers.get_all(name).iter();
    let first = values.next()?;
    let text = first.to_str().ok().filter(|_| values.next().is_none()).unwrap_or(UNREADABLE);
    (!text.is_empty()).then_some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn key_follows_the_bearer_scheme() {
        let check = |values: &[&str], expected: Option<&str>| {
            let mut headers = HeaderMap::new();
            for value in values {
                headers.append(header::AUTHORIZATION, value.parse().expect("a header's value"));
            }
            assert_eq!(bearer(&headers), expected, "{values:?}");
        };
        check(&["Bearer k"], Some("k"));
        check(&["bearer  k "], Some("k"));
        check(&["Basic k"], None);
        check(&["Bearer "], None);
        check(&[], None);
        check(&["Bearer a", "Bearer b"], Some(UNREADABLE));
    }
}
