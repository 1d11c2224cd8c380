//! Token requests at the realm of a challenge, signed with the key if there is one.
//!
//! The signature covers the method, the complete URL with a timestamp and a nonce, and the digest of the empty body. The
//! query is sorted and escaped as in Go, because the server rebuilds the URL to verify the signature.

use std::fmt::Write;
use std::time::{Duration, UNIX_EPOCH};

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use reqwest::header::{AUTHORIZATION, HeaderValue};
use reqwest::{Method, Url};
use serde::Deserialize;
use tokio::time::Instant;

use super::challenge::Bearer;
use super::{basic, check_password_transport, sensitive_header};
use crate::SourceError;
use crate::auth::{CachedAuthorization, Credentials, Identity, Scope};
use crate::client::{Registry, RegistryResponse, Request, check_redirect, host_and_port};

/// Maximum size of a token server's response.
const MAX_RESPONSE_BYTES: usize = 64 << 10;
/// Lifetime of a token without `expires_in` (Docker's specification).
const DEFAULT_LIFE: Duration = Duration::from_secs(60);
/// Maximum lifetime of a token.
const MAX_LIFE: Duration = Duration::from_secs(24 * 60 * 60);

/// Base64 of the hex SHA-256 of the empty body, a part of the signed text.
pub(crate) const EMPTY_BODY: &str =
    "ZTNiMGM0NDI5OGZjMWMxNDlhZmJmNGM4OTk2ZmI5MjQyN2FlNDFlNDY0OWI5MzRjYTQ5NTk5MWI3ODUyYjg1NQ==";

#[derive(Deserialize)]
struct TokenResponse {
    token: Option<String>,
    access_token: Option<String>,
    expires_in: Option<u64>,
}

/// Requests a token for a challenge.
pub(super) async fn obtain(
    registry: &Registry,
    credentials: &Credentials,
    bearer: &Bearer,
    scope: &Scope,
) -> Result<CachedAuthorization, SourceError> {
    let realm = token_server(registry, credentials, &bearer.realm)?;
    let mut response = match &credentials.identity {
        Identity::Anonymous => {
            send_token_request(registry, &token_url(registry, realm, bearer, scope)?, None, scope).await?
        }
        Identity::Password { user, password } => {
            check_password_transport(registry, credentials, &realm)?;
            let url = token_url(registry, realm, bearer, scope)?;
            send_token_request(registry, &url, Some(basic(user, password)), scope).await?
        }
        Identity::Key(key) => {
            let url = token_url(registry, realm.clone(), bearer, scope)?;
            let signature = key.sign(format!("GET,{url},{EMPTY_BODY}")).await;
            let signature = signature.map_err(|error| registry.refusal(error.to_string()))?;
            let header = sensitive_header(&signature).expect("base64 is ASCII");
            let response = send_token_request(registry, &url, Some(header), scope).await?;
            if response.status().is_client_error() && !scope.push {
                // A token server without support for keys may allow anonymous read access.
                send_token_request(registry, &token_url(registry, realm, bearer, scope)?, None, scope).await?
            } else {
                response
            }
        }
    };
    if !response.status().is_success() {
        return Err(response.into_error().await);
    }
    let body = response.read_to_end(MAX_RESPONSE_BYTES).await?;
    let received_at = Instant::now();
    let parsed: TokenResponse =
        serde_json::from_slice(&body).map_err(|_| response.refused("cannot parse the response of the token server"))?;
    let token = parsed.token.or(parsed.access_token).filter(|token| !token.is_empty());
    let header = token.and_then(|token| sensitive_header(&format!("Bearer {token}")));
    let header = header.ok_or_else(|| response.refused("the response of the token server has no token"))?;
    let lifetime = parsed.expires_in.map_or(DEFAULT_LIFE, Duration::from_secs).min(MAX_LIFE);
    // Expire early, because a request takes time to reach the server.
    Ok(CachedAuthorization { header, expires_at: received_at + lifetime * 9 / 10 })
}

async fn send_token_request(
    registry: &Registry,
    url: &Url,
    credentials: Option<HeaderValue>,
    scope: &Scope,
) -> Result<RegistryResponse, SourceError> {
    let mut request = Request::new(Method::GET, url.clone(), scope.clone());
    if let Some(credentials) = credentials {
        request.headers.insert(AUTHORIZATION, credentials);
    }
    // Do not follow redirects: the credentials must not be sent to another host.
    let body = reqwest::Body::default();
    let mut response = registry.send(request.method, &request.url, &request.headers, None, body).await?;
    // The token server acts for the registry, so its refusal is not that of a redirect target.
    response.redirect_host = None;
    Ok(response)
}

/// The URL of the token server, if it may receive the credentials.
fn token_server(registry: &Registry, credentials: &Credentials, realm: &str) -> Result<Url, SourceError> {
    let refused = |reason: String| registry.refusal(reason);
    let url = Url::parse(realm).map_err(|error| refused(format!("invalid realm {realm:?}: {error}")))?;
    let realm_host = host_and_port(&url);
    let is_trusted =
        realm_host == registry.host() || credentials.realms.iter().any(|host| host.eq_ignore_ascii_case(&realm_host));
    if !is_trusted {
        return Err(refused(format!("realm host {realm_host:?} does not match original host {:?}", registry.host())));
    }
    check_redirect(registry.base(), &url).map_err(|reason| refused(format!("its realm is not allowed: {reason}")))?;
    Ok(url)
}

/// The URL of the token request: the realm with the parameters of the challenge, a timestamp and a nonce.
fn token_url(registry: &Registry, mut realm: Url, bearer: &Bearer, scope: &Scope) -> Result<Url, SourceError> {
    let mut nonce = [0_u8; 16];
    getrandom::fill(&mut nonce).map_err(|error| registry.refusal(format!("no random numbers: {error}")))?;
    let since_epoch = registry.now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let mut pairs: Vec<(String, String)> = realm.query_pairs().into_owned().collect();
    let mut add = |key: &str, value: &str| pairs.push((key.to_owned(), value.to_owned()));
    if let Some(service) = &bearer.service {
        add("service", service);
    }
    let actions = if scope.push { "pull,push" } else { "pull" };
    let own_scope = match &*scope.repository {
        // A login check has no repository.
        "" => String::new(),
        repository => format!("repository:{repository}:{actions}"),
    };
    bearer
        .scope
        .as_deref()
        .unwrap_or(&own_scope)
        .split(' ')
        .filter(|scope| !scope.is_empty())
        .for_each(|scope| add("scope", scope));
    add("ts", &since_epoch.as_secs().to_string());
    add("nonce", &URL_SAFE_NO_PAD.encode(nonce));
    // The sort is stable: values of one key keep their order.
    pairs.sort_by(|(a, _), (b, _)| a.cmp(b));
    let mut query = String::new();
    for (key, value) in &pairs {
        if !query.is_empty() {
            query.push('&');
        }
        escape(key, &mut query);
        query.push('=');
        escape(value, &mut query);
    }
    realm.set_query(Some(&query));
    realm.set_fragment(None);
    Ok(realm)
}

/// Escapes as Go's `url.QueryEscape` does.
fn escape(text: &str, query: &mut String) {
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => query.push(char::from(byte)),
            b' ' => query.push('+'),
            _ => write!(query, "%{byte:02X}").expect("writing to a String does not fail"),
        }
    }
}

#[cfg(test)]
mod tests {
    use base64::engine::general_purpose::STANDARD;

    use super::*;

    #[test]
    fn empty_body_constant_is_digest_of_nothing() {
        let hex = cairn_store::Digest::of(b"").hex();
        assert_eq!(STANDARD.encode(hex), EMPTY_BODY, "base64 of the hex of the SHA-256 of nothing");
    }

    #[test]
    fn query_escape_matches_go() {
        let mut query = String::new();
        escape("repository:a/b:pull,push *~é", &mut query);
        assert_eq!(query, "repository%3Aa%2Fb%3Apull%2Cpush+%2A~%C3%A9", "the escapes of Go");
    }
}
