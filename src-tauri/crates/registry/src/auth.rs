//! Credentials for registries, and the tokens that were obtained with them.

mod key;
mod logins;

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use reqwest::header::HeaderValue;
use tokio::time::Instant;

pub use key::{KeyError, KeyFile};
pub use logins::{Login, LoginStore, LoginStoreError};

/// Credentials for a registry.
#[derive(Debug, Clone)]
pub struct Credentials {
    pub(crate) identity: Identity,
    /// Hosts of token servers, other than the registry, that may receive the credentials.
    pub(crate) realms: Vec<String>,
    /// Whether the password may be sent over plain http to another machine.
    pub(crate) plain_http: bool,
}

/// How the client identifies itself.
#[derive(Clone)]
pub(crate) enum Identity {
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
}

/// The scope of a token.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Scope {
    /// `<namespace>/<model>`.
    pub(crate) repository: String,
    /// Whether the token also allows pushes.
    pub(crate) push: bool,
}

/// The cached token of one scope. Locked while a token is requested, so that parallel streams wait for one token.
pub(crate) type Slot = Arc<tokio::sync::Mutex<Option<CachedAuthorization>>>;

/// A cached `Authorization` header.
pub(crate) struct CachedAuthorization {
    pub(crate) header: HeaderValue,
    pub(crate) expires_at: Instant,
}

/// Credentials and cached tokens for one registry.
pub(crate) struct Auth {
    pub(crate) credentials: Credentials,
    slots: Mutex<HashMap<Scope, Slot>>,
}

impl Auth {
    pub(crate) fn new(credentials: Credentials) -> Self {
        Self { credentials, slots: Mutex::default() }
    }

    pub(crate) fn slot(&self, scope: &Scope) -> Slot {
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
}
