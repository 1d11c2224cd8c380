//! Authentication at registries. A 401 response names a token server, which issues a token for one repository.
//!
//! The client identifies itself to the token server by a signature of this machine's key (as Ollama does), by user and
//! password, or anonymously. **Invariant:** signatures and passwords are sent only to the registry's own host, or to a
//! token server that the user named. Passwords are sent over plain http only within this machine, or if the user allowed
//! it.
//!
//! Specifications: Docker's token authentication; RFC 6750 and RFC 7617 for the schemes.

mod challenge;
mod token;

use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use reqwest::Url;
use reqwest::header::{HeaderValue, WWW_AUTHENTICATE};
use tokio::time::Instant;

use super::address::is_loopback;
use super::registry::Registry;
use super::response::RegistryResponse;
use crate::SourceError;
use crate::auth::{CachedAuthorization, Credentials, Identity, Scope};
use challenge::Challenge;
pub(crate) use token::EMPTY_BODY;

impl Registry {
    /// Obtains an `Authorization` header for a challenge in a 401 response. `rejected` is the header that was refused.
    /// Concurrent calls share one token request.
    pub(crate) async fn authenticate(
        &self,
        unauthorized: RegistryResponse,
        scope: &Scope,
        rejected: Option<&HeaderValue>,
    ) -> Result<HeaderValue, SourceError> {
        let challenges: Vec<String> = unauthorized
            .inner
            .headers()
            .get_all(WWW_AUTHENTICATE)
            .iter()
            .filter_map(|value| Some(value.to_str().ok()?.to_owned()))
            .collect();
        drop(unauthorized);
        let credentials = &self.auth.credentials;
        let slot = self.auth.slot(scope);
        let mut cached = slot.lock().await;
        if let Some(cached) = &*cached
            && Some(&cached.header) != rejected
            && Instant::now() < cached.expires_at
        {
            return Ok(cached.header.clone());
        }
        let obtained = match (challenge::choose(&challenges), &credentials.identity) {
            (Some(Challenge::Bearer(bearer)), _) => token::obtain(self, credentials, &bearer, scope).await?,
            (Some(Challenge::Basic), Identity::Password { user, password }) => {
                check_password_transport(self, credentials, self.base())?;
                // A password does not expire; if it is wrong, a second 401 follows.
                CachedAuthorization {
                    header: basic(user, password),
                    expires_at: Instant::now() + Duration::from_secs(24 * 60 * 60),
                }
            }
            (Some(Challenge::Basic), _) => {
                return Err(self.unauthorized("unauthorized: it requires a user and a password"));
            }
            (None, _) => {
                return Err(self.unauthorized("unauthorized: its response does not name an authentication scheme"));
            }
        };
        let header = obtained.header.clone();
        *cached = Some(obtained);
        Ok(header)
    }
}

/// Returns an error if the password must not be sent to this URL.
fn check_password_transport(registry: &Registry, credentials: &Credentials, to: &Url) -> Result<(), SourceError> {
    if to.scheme() == "https" || credentials.plain_http || is_loopback(to) {
        return Ok(());
    }
    Err(registry.refusal(
        "unauthorized: it asks for the stored password over plain http, where anyone on the network could read it",
    ))
}

/// A header value that debug output hides.
fn sensitive_header(text: &str) -> Option<HeaderValue> {
    let mut value = HeaderValue::from_str(text).ok()?;
    value.set_sensitive(true);
    Some(value)
}

/// The header of HTTP basic authentication (RFC 7617).
fn basic(user: &str, password: &str) -> HeaderValue {
    let pair = STANDARD.encode(format!("{user}:{password}"));
    sensitive_header(&format!("Basic {pair}")).expect("base64 is ASCII")
}

#[cfg(test)]
mod tests;
