//! Signing in to registries: a 401 names a token server, the token server wants to know who asks, and the token opens one
//! repository for a while.
//!
//! Who asks is told by a signature of this machine's key, as Ollama does, or by a name and a password, as companies'
//! registries want, or not at all. **Invariant:** a signature or a password goes only to the registry's own host, or to a
//! token server that the user named; a password goes over plain http only within this machine, or where that was asked for.
//!
//! Specifications: Docker's token authentication; RFC 6750 and RFC 7617 for the schemes.

mod challenge;
mod key;
mod logins;
mod token;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use reqwest::Url;
use reqwest::header::HeaderValue;
use tokio::time::Instant;

use crate::SourceError;
use crate::client::{Registry, is_loopback};
use challenge::Challenge;
pub use key::{KeyError, KeyFile};
pub use logins::{Login, Logins, LoginsError};
pub(crate) use token::EMPTY_BODY;

/// Who we are to a registry.
#[derive(Debug, Clone)]
pub struct SignIn {
    who: Who,
    /// Hosts of token servers, other than the registry itself, that may learn who we are.
    realms: Vec<String>,
    /// Whether a password may go over plain http to another machine.
    plain_http: bool,
}

#[derive(Clone)]
enum Who {
    Nobody,
    Key(Arc<KeyFile>),
    Password { user: String, password: String },
}

impl std::fmt::Debug for Who {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Nobody => f.write_str("Nobody"),
            Self::Key(_) => f.write_str("Key"),
            Self::Password { user, .. } => write!(f, "Password of {user:?}"),
        }
    }
}

impl SignIn {
    /// Nobody in particular: tokens are asked for without saying who asks.
    #[must_use]
    pub fn anonymous() -> Self {
        Self { who: Who::Nobody, realms: Vec::new(), plain_http: false }
    }

    /// The owner of a key, which is made when it is first needed.
    #[must_use]
    pub fn key(key: Arc<KeyFile>) -> Self {
        Self { who: Who::Key(key), realms: Vec::new(), plain_http: false }
    }

    /// A user with a password.
    #[must_use]
    pub fn password(user: impl Into<String>, password: impl Into<String>) -> Self {
        let who = Who::Password { user: user.into(), password: password.into() };
        Self { who, realms: Vec::new(), plain_http: false }
    }

    /// Lets token servers on another host, `host[:port]`, know who we are too. Some registries have theirs elsewhere; a
    /// registry that merely claims so could pass our signature on.
    #[must_use]
    pub fn trusting_realms(mut self, hosts: impl IntoIterator<Item = String>) -> Self {
        self.realms.extend(hosts);
        self
    }

    /// Lets a password go over plain http to other machines, where everybody on the way can read it.
    #[must_use]
    pub fn over_plain_http(mut self) -> Self {
        self.plain_http = true;
        self
    }

    /// Refuses to send a password to where others could read it on the way.
    fn may_send_password(&self, registry: &Registry, to: &Url) -> Result<(), SourceError> {
        if to.scheme() == "https" || self.plain_http || is_loopback(to) {
            return Ok(());
        }
        Err(registry.refusal(
            "unauthorized: it wants the password that is kept for it over plain http, where everybody on the way could read it",
        ))
    }
}

/// What a token must allow.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Scope {
    /// `<namespace>/<model>`.
    pub(crate) repository: String,
    /// To write too.
    pub(crate) push: bool,
}

/// The token of one scope, or none yet. Locked while a new one is obtained, so that the streams of a download wait for one
/// token and do not each ask for their own.
type Slot = Arc<tokio::sync::Mutex<Option<Held>>>;

/// What a registry accepted, or will.
struct Held {
    header: HeaderValue,
    until: Instant,
}

/// One registry's tokens.
pub(crate) struct Auth {
    sign_in: SignIn,
    slots: Mutex<HashMap<Scope, Slot>>,
}

impl Auth {
    pub(crate) fn new(sign_in: SignIn) -> Self {
        Self { sign_in, slots: Mutex::default() }
    }

    fn slot(&self, scope: &Scope) -> Slot {
        let mut slots = self.slots.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(slots.entry(scope.clone()).or_default())
    }

    /// The credentials that this scope has already, unless they have run out.
    pub(crate) async fn held(&self, scope: &Scope) -> Option<HeaderValue> {
        let slot = self.slot(scope);
        let held = slot.lock().await;
        held.as_ref().filter(|held| Instant::now() < held.until).map(|held| held.header.clone())
    }

    /// Takes back credentials that opened nothing.
    pub(crate) async fn forget(&self, scope: &Scope) {
        *self.slot(scope).lock().await = None;
    }

    /// Credentials for a scope, as one of the challenges wants them; `rejected` are those that did not do. Who comes while
    /// another obtains them gets the same.
    pub(crate) async fn sign_in(
        &self,
        registry: &Registry,
        challenges: &[String],
        scope: &Scope,
        rejected: Option<&HeaderValue>,
    ) -> Result<HeaderValue, SourceError> {
        let slot = self.slot(scope);
        let mut held = slot.lock().await;
        if let Some(held) = &*held
            && Some(&held.header) != rejected
            && Instant::now() < held.until
        {
            return Ok(held.header.clone());
        }
        let obtained = match (challenge::choose(challenges), &self.sign_in.who) {
            (Some(Challenge::Bearer(bearer)), _) => token::obtain(registry, &self.sign_in, &bearer, scope).await?,
            (Some(Challenge::Basic), Who::Password { user, password }) => {
                self.sign_in.may_send_password(registry, registry.base())?;
                // They do not run out; a 401 that follows says that they are wrong.
                Held {
                    header: basic(user, password),
                    until: Instant::now() + std::time::Duration::from_secs(24 * 60 * 60),
                }
            }
            (Some(Challenge::Basic), _) => {
                return Err(registry.unauthorized("unauthorized: it wants a name and a password"));
            }
            (None, _) => return Err(registry.unauthorized("unauthorized: it does not say how to sign in")),
        };
        let header = obtained.header.clone();
        *held = Some(obtained);
        Ok(header)
    }
}

/// A secret header's value, which debug output leaves out.
fn secret(text: &str) -> Option<HeaderValue> {
    let mut value = HeaderValue::from_str(text).ok()?;
    value.set_sensitive(true);
    Some(value)
}

/// A name and a password as RFC 7617 writes them.
fn basic(user: &str, password: &str) -> HeaderValue {
    let pair = STANDARD.encode(format!("{user}:{password}"));
    secret(&format!("Basic {pair}")).expect("base64 is plain ASCII")
}

#[cfg(test)]
mod tests;
