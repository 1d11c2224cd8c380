//! Tokens: asked for at the realm that a challenge names, with a signature where we have a key.
//!
//! The signature covers the method, the complete address with a time and a random number in it, and the digest of a body
//! that is always empty. The parameters are written as Go writes them, sorted and with its own escapes: the server builds
//! the same address again to check the signature.

use std::fmt::Write;
use std::time::{Duration, UNIX_EPOCH};

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use reqwest::header::{AUTHORIZATION, HeaderValue};
use reqwest::{Method, Url};
use serde::Deserialize;
use tokio::time::Instant;

use super::challenge::Bearer;
use super::{Held, Scope, SignIn, Who, basic, secret};
use crate::SourceError;
use crate::client::{Answer, Question, Registry, may_lead, place};

/// Most of a token server's answer that is read.
const MAX_ANSWER_BYTES: usize = 64 << 10;
/// How long a token lasts that does not say (Docker's specification).
const DEFAULT_LIFE: Duration = Duration::from_secs(60);
/// No token is believed to last longer.
const MAX_LIFE: Duration = Duration::from_secs(24 * 60 * 60);

/// The SHA-256 of nothing, in hex, in base64: what stands for the body in a signed text.
pub(crate) const EMPTY_BODY: &str =
    "ZTNiMGM0NDI5OGZjMWMxNDlhZmJmNGM4OTk2ZmI5MjQyN2FlNDFlNDY0OWI5MzRjYTQ5NTk5MWI3ODUyYjg1NQ==";

#[derive(Deserialize)]
struct TokenAnswer {
    token: Option<String>,
    access_token: Option<String>,
    expires_in: Option<u64>,
}

/// Obtains a token for what the challenge asks.
pub(super) async fn obtain(
    registry: &Registry,
    sign_in: &SignIn,
    bearer: &Bearer,
    scope: &Scope,
) -> Result<Held, SourceError> {
    let realm = realm(registry, sign_in, &bearer.realm)?;
    let mut answer = match &sign_in.who {
        Who::Nobody => ask(registry, &address(registry, realm, bearer, scope)?, None, scope).await?,
        Who::Password { user, password } => {
            sign_in.may_send_password(registry, &realm)?;
            let url = address(registry, realm, bearer, scope)?;
            ask(registry, &url, Some(basic(user, password)), scope).await?
        }
        Who::Key(key) => {
            let url = address(registry, realm.clone(), bearer, scope)?;
            let signed = key.sign(format!("GET,{url},{EMPTY_BODY}")).await;
            let signed = signed.map_err(|error| registry.refusal(error.to_string()))?;
            let header = secret(&signed).expect("base64 is plain ASCII");
            let answer = ask(registry, &url, Some(header), scope).await?;
            if answer.status().is_client_error() && !scope.push {
                // A token server that knows nothing of keys may still let anybody read.
                ask(registry, &address(registry, realm, bearer, scope)?, None, scope).await?
            } else {
                answer
            }
        }
    };
    if !answer.status().is_success() {
        return Err(answer.into_error().await);
    }
    let body = answer.whole(MAX_ANSWER_BYTES).await?;
    let asked = Instant::now();
    let told: TokenAnswer =
        serde_json::from_slice(&body).map_err(|_| answer.refused("the token server's answer cannot be read"))?;
    let token = told.token.or(told.access_token).filter(|token| !token.is_empty());
    let header = token.and_then(|token| secret(&format!("Bearer {token}")));
    let header = header.ok_or_else(|| answer.refused("the token server gave no token"))?;
    let life = told.expires_in.map_or(DEFAULT_LIFE, Duration::from_secs).min(MAX_LIFE);
    // A request takes a while to get there.
    Ok(Held { header, until: asked + life * 9 / 10 })
}

async fn ask(
    registry: &Registry,
    url: &Url,
    credentials: Option<HeaderValue>,
    scope: &Scope,
) -> Result<Answer, SourceError> {
    let mut question = Question::new(Method::GET, url.clone(), scope.clone());
    if let Some(credentials) = credentials {
        question.headers.insert(AUTHORIZATION, credentials);
    }
    // No redirects: what authorises this request may go nowhere else.
    let body = reqwest::Body::default();
    let mut answer = registry.send(question.method, &question.url, &question.headers, None, body).await?;
    // Wherever the token server is, it speaks for the registry: its refusal is one, and not a direct address's.
    answer.elsewhere = None;
    Ok(answer)
}

/// The token server, if it may learn who we are.
fn realm(registry: &Registry, sign_in: &SignIn, realm: &str) -> Result<Url, SourceError> {
    let refused = |reason: String| registry.refusal(reason);
    let url = Url::parse(realm).map_err(|error| refused(format!("its realm {realm:?} is no address: {error}")))?;
    let place = place(&url);
    let trusted = place == registry.host() || sign_in.realms.iter().any(|host| host.eq_ignore_ascii_case(&place));
    if !trusted {
        return Err(refused(format!("realm host {place:?} does not match original host {:?}", registry.host())));
    }
    if !may_lead(registry.base(), &url) {
        return Err(refused(format!("its realm is {}, less safe than the registry itself", url.scheme())));
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err(refused("its realm holds a name or a password".to_owned()));
    }
    Ok(url)
}

/// The address to ask: the realm with the parameters of the challenge, the time and a random number.
fn address(registry: &Registry, mut realm: Url, bearer: &Bearer, scope: &Scope) -> Result<Url, SourceError> {
    let mut nonce = [0_u8; 16];
    getrandom::fill(&mut nonce).map_err(|error| registry.refusal(format!("no random numbers: {error}")))?;
    let since_epoch = registry.now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let mut pairs: Vec<(String, String)> = realm.query_pairs().into_owned().collect();
    let mut add = |key: &str, value: &str| pairs.push((key.to_owned(), value.to_owned()));
    if let Some(service) = &bearer.service {
        add("service", service);
    }
    let actions = if scope.push { "pull,push" } else { "pull" };
    let own = match &*scope.repository {
        // Signing in as such is for no repository.
        "" => String::new(),
        repository => format!("repository:{repository}:{actions}"),
    };
    bearer
        .scope
        .as_deref()
        .unwrap_or(&own)
        .split(' ')
        .filter(|scope| !scope.is_empty())
        .for_each(|scope| add("scope", scope));
    add("ts", &since_epoch.as_secs().to_string());
    add("nonce", &URL_SAFE_NO_PAD.encode(nonce));
    // Values of one key keep their order.
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
            _ => write!(query, "%{byte:02X}").expect("a String grows"),
        }
    }
}

#[cfg(test)]
mod tests {
    use base64::engine::general_purpose::STANDARD;

    use super::*;

    #[test]
    fn the_empty_body_is_what_it_says() {
        let hex = cairn_store::Digest::of(b"").hex();
        assert_eq!(STANDARD.encode(hex), EMPTY_BODY, "base64 of the hex of the SHA-256 of nothing");
    }

    #[test]
    fn escapes() {
        let mut query = String::new();
        escape("repository:a/b:pull,push *~é", &mut query);
        assert_eq!(query, "repository%3Aa%2Fb%3Apull%2Cpush+%2A~%C3%A9", "as Go writes it");
    }
}
