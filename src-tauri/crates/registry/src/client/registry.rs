//! A registry, as whoever wants something of it sees it: where it is, and how to sign in.
//!
//! Addresses are `https` unless plain `http` was asked for. A name or a setting that says `http://` is not yet asking
//! (anybody can write a name): that takes `insecure`, or a registry on this machine.

use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::SystemTime;

use cairn_store::ModelRef;
use reqwest::Url;

use super::transport::Transport;
use crate::PeerKey;
use crate::auth::{Auth, Scope, SignIn};

/// A registry. Clones share connections and tokens.
#[derive(Clone)]
pub struct Registry {
    pub(super) transport: Transport,
    pub(super) base: Url,
    pub(super) auth: Arc<Auth>,
    host: Arc<str>,
    /// The registry whose models a mirror keeps.
    stands_for: Option<Arc<str>>,
    /// The key that must have signed what it says of names.
    pub(super) pinned: Option<Arc<PeerKey>>,
}

/// Why an address is no registry's.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AddressError {
    /// Plain `http`, which nobody asked for.
    #[error("insecure protocol http")]
    Insecure {
        /// Whose.
        host: String,
    },
    /// No address of a host.
    #[error("{address:?} is no address of a registry: {reason}")]
    Invalid {
        /// What was given.
        address: String,
        /// What is wrong with it.
        reason: String,
    },
}

impl Registry {
    /// The registry that a name belongs to. `insecure` makes it plain `http`, as Ollama's flag of that name does.
    ///
    /// # Errors
    /// [`AddressError::Insecure`] for a name with `http://` when `insecure` is not set and the host is not this machine;
    /// [`AddressError::Invalid`] for a host that no URL can have.
    pub fn of(name: &ModelRef, insecure: bool, transport: &Transport, sign_in: SignIn) -> Result<Self, AddressError> {
        let scheme = if insecure || name.insecure() { "http" } else { "https" };
        Self::at(&format!("{scheme}://{}", name.host()), insecure, transport, sign_in)
    }

    /// The registry at an address, `https://host[:port]` or `http://host[:port]`.
    ///
    /// # Errors
    /// As [`Registry::of`].
    pub fn at(address: &str, insecure: bool, transport: &Transport, sign_in: SignIn) -> Result<Self, AddressError> {
        let invalid = |reason: &str| AddressError::Invalid { address: address.to_owned(), reason: reason.to_owned() };
        let base = Url::parse(address).map_err(|error| invalid(&error.to_string()))?;
        if !matches!(base.scheme(), "http" | "https") {
            return Err(invalid("its scheme is neither http nor https"));
        }
        if !base.username().is_empty() || base.password().is_some() {
            // They are not repeated.
            let address = format!("{}://{}", base.scheme(), super::exchange::place(&base));
            let reason = "a name and a password do not belong into it".to_owned();
            return Err(AddressError::Invalid { address, reason });
        }
        if base.path() != "/" || base.query().is_some() || base.fragment().is_some() {
            return Err(invalid("there is more than a host in it"));
        }
        let host = super::exchange::place(&base);
        if base.scheme() == "http" && !insecure && !is_loopback(&base) {
            return Err(AddressError::Insecure { host });
        }
        let (auth, host) = (Arc::new(Auth::new(sign_in)), host.into());
        Ok(Self { transport: transport.clone(), base, auth, host, stands_for: None, pinned: None })
    }

    /// The same registry as a mirror of the one at `origin`. Its requests say so in the parameter `ns`, as containerd's do,
    /// for mirrors that keep several registries' models.
    #[must_use]
    pub fn standing_for(mut self, origin: &str) -> Self {
        self.stands_for = Some(origin.into());
        self
    }

    /// The same registry, believed on names only where that key signed what it says.
    #[must_use]
    pub fn pinned_to(mut self, key: PeerKey) -> Self {
        self.pinned = Some(Arc::new(key));
        self
    }

    /// Its host, with the port where it is not the scheme's own.
    #[must_use]
    pub fn host(&self) -> &str {
        &self.host
    }

    /// Its scheme, host and port.
    pub(crate) fn base(&self) -> &Url {
        &self.base
    }

    /// The time by the transport's clock.
    pub(crate) fn now(&self) -> SystemTime {
        (self.transport.clock)()
    }

    /// The address of something of a model's repository: `/v2/<namespace>/<model>/<rest>`.
    pub(crate) fn url(&self, name: &ModelRef, rest: &str) -> Url {
        // The parts of a name, digests and tags hold nothing that has a meaning in a path.
        let path = format!("/v2/{}/{}/{rest}", name.namespace(), name.model());
        let mut url = self.base.clone();
        url.set_path(&path);
        if let Some(origin) = &self.stands_for {
            url.query_pairs_mut().append_pair("ns", origin);
        }
        url
    }
}

impl fmt::Debug for Registry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Registry").field("base", &self.base.as_str()).field("stands_for", &self.stands_for).finish()
    }
}

/// What a token must allow for one model.
pub(crate) fn scope(name: &ModelRef, push: bool) -> Scope {
    Scope { repository: format!("{}/{}", name.namespace(), name.model()), push }
}

/// Is it this machine?
pub(crate) fn is_loopback(url: &Url) -> bool {
    let host = url.host_str().unwrap_or_default();
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    host == "localhost" || host.ends_with(".localhost") || bare.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback())
}
