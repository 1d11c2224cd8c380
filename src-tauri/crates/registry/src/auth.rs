//! Authentication at registries. A 401 response names a token server, which issues a token for one repository.
//!
//! The client identifies itself to the token server by a signature of this machine's key (as Ollama does), by user and
//! password, or anonymously. **Invariant:** signatures and passwords are sent only to the registry's own host, or to a
//! token server that the user named. Passwords are sent over plain http only within this machine, or if the user allowed
//! it.
//!
//! Specifications: Docker's token authentication; RFC 6750 and RFC 7617 for the schemes.

mod challenge;
mod key;
mod logins;
mod token;

use std::collections::HashMap;
use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use parking_lot::Mutex;
use reqwest::Url;
use reqwest::header::HeaderValue;
use tokio::time::Instant;

use crate::SourceError;
use crate::client::{Registry, is_loopback};
use challenge::Challenge;
pub use key::{KeyError, KeyFile};
pub use logins::{Login, LoginStore, LoginStoreError};
pub(crate) use token::EMPTY_BODY;

/// Credentials for a registry.
#[derive(Debug, Clone)]
pub struct Credentials {
    identity: Identity,
    /// Hosts of token servers, other than the registry, that may receive the credentials.
    realms: Vec<String>,
    /// Whether the password may be sent over plain http to another machine.
    plain_http: bool,
}

#[derive(Clone)]
enum Identity {
    Anonymous,
    Key(Arc<KeyFile>),
    Password { user: String, password: String },
}

impl std::fmt::Debug for Identity {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Anonymous => f.write_str("Anonymous"),
            Self::Key(_) => f.write_str("Key"),
            Self::Password { user, .. } => write!(f, "Password of {user:?}"),
        }
    }
}

impl Credentials {
    /// No credentials: tokens are requested anonymously.
    #[must_use]
    pub fn anonymous() -> Self {
        Self { identity: Identity::Anonymous, realms: Vec::new(), plain_http: false }
    }

    /// A key, which is loaded or generated at its first use.
    #[must_use]
    pub fn key(key: Arc<KeyFile>) -> Self {
        Self { identity: Identity::Key(key), realms: Vec::new(), plain_http: false }
    }

    /// User and password.
    #[must_use]
    pub fn password(user: impl Into<String>, password: impl Into<String>) -> Self {
        let identity = Identity::Password { user: user.into(), password: password.into() };
        Self { identity, realms: Vec::new(), plain_http: false }
    }

    /// Allows sending the credentials to token servers on other hosts, `host[:port]`. Without this list, a registry could name
    /// a foreign token server to obtain a signature.
    #[must_use]
    pub fn with_trusted_realms(mut self, hosts: impl IntoIterator<Item = String>) -> Self {
        self.realms.extend(hosts);
        self
    }

    /// Allows sending the password over plain http to other machines, where anyone on the network path can read it.
    #[must_use]
    pub fn allow_plain_http(mut self) -> Self {
        self.plain_http = true;
        self
    }

    /// Returns an error if the password must not be sent to this URL.
    fn check_password_transport(&self, registry: &Registry, to: &Url) -> Result<(), SourceError> {
        if to.scheme() == "https" || self.plain_http || is_loopback(to) {
            return Ok(());
        }
        Err(registry.refusal(
            "unauthorized: it asks for the stored password over plain http, where anyone on the network could read it",
        ))
    }
}

/// The scope of a token.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Scope {
    /// `<namespace>/<model>`.
    pub(crate) repository: String,
    /// Also write access.
    pub(crate) push: bool,
}

/// The cached token of one scope. Locked while a token is requested, so that parallel streams wait for one token.
type Slot = Arc<tokio::sync::Mutex<Option<CachedAuthorization>>>;

/// A cached `Authorization` header.
struct CachedAuthorization {
    header: HeaderValue,
    expires_at: Instant,
}

/// Credentials and cached tokens for one registry.
pub(crate) struct Auth {
    credentials: Credentials,
    slots: Mutex<HashMap<Scope, Slot>>,
}

impl Auth {
    pub(crate) fn new(credentials: Credentials) -> Self {
        Self { credentials, slots: Mutex::default() }
    }

    fn slot(&self, scope: &Scope) -> Slot {
        let mut slots = self.slots.lock();
        Arc::clone(slots.entry(scope.clone()).or_default())
    }

    /// The cached header of a scope, unless it has expired.
    pub(crate) async fn cached_authorization(&self, scope: &Scope) -> Option<HeaderValue> {
        let slot = self.slot(scope);
        let cached = slot.lock().await;
        cached.as_ref().filter(|cached| Instant::now() < cached.expires_at).map(|cached| cached.header.clone())
    }

    /// Removes the cached header of a scope.
    pub(crate) async fn forget(&self, scope: &Scope) {
        *self.slot(scope).lock().await = None;
    }

    /// Obtains an `Authorization` header for a scope, as one of the challenges requires. `rejected` is the header that was
    /// refused. Concurrent calls share one token request.
    pub(crate) async fn authenticate(
        &self,
        registry: &Registry,
        challenges: &[String],
        scope: &Scope,
        rejected: Option<&HeaderValue>,
    ) -> Result<HeaderValue, SourceError> {
        let slot = self.slot(scope);
        let mut cached = slot.lock().await;
        if let Some(cached) = &*cached
            && Some(&cached.header) != rejected
            && Instant::now() < cached.expires_at
        {
            return Ok(cached.header.clone());
        }
        let obtained = match (challenge::choose(challenges), &self.credentials.identity) {
            (Some(Challenge::Bearer(bearer)), _) => token::obtain(registry, &self.credentials, &bearer, scope).await?,
            (Some(Challenge::Basic), Identity::Password { user, password }) => {
                self.credentials.check_password_transport(registry, registry.base())?;
                // A password does not expire; if it is wrong, a second 401 follows.
                CachedAuthorization {
                    header: basic(user, password),
                    expires_at: Instant::now() + std::time::Duration::from_secs(24 * 60 * 60),
                }
            }
            (Some(Challenge::Basic), _) => {
                return Err(registry.unauthorized("unauthorized: it requires a user and a password"));
            }
            (None, _) => {
                return Err(registry.unauthorized("unauthorized: its response does not name an authentication scheme"));
            }
        };
        let header = obtained.header.clone();
        *cached = Some(obtained);
        Ok(header)
    }
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
