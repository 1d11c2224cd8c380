//! A registry: its address and its authentication.
//!
//! Registries use `https`. Plain `http` needs the `insecure` flag, or a registry on this machine. `http://` in a model name is
//! not sufficient, because a name may come from another user.

use std::fmt;
use std::sync::Arc;
use std::time::SystemTime;

use cairn_store::ModelRef;
use reqwest::Url;

use super::address::{host_and_port, is_loopback};
use super::transport::Transport;
use crate::PeerKey;
use crate::auth::{Auth, Credentials, Scope};

/// A registry. Clones share connections and tokens.
#[derive(Clone)]
pub struct Registry {
    pub(super) transport: Transport,
    pub(super) base: Url,
    pub(super) auth: Arc<Auth>,
    host: Arc<str>,
    /// The host of the registry that this mirror mirrors.
    mirrored_host: Option<Arc<str>>,
    /// The key that must sign manifests.
    pub(super) pinned: Option<Arc<PeerKey>>,
}

/// Error of a registry address.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AddressError {
    /// Plain `http` without `insecure`.
    #[error("insecure protocol http")]
    Insecure {
        /// The host.
        host: String,
    },
    /// Not an address of a registry.
    #[error("invalid registry address {address:?}: {reason}")]
    Invalid {
        /// The address.
        address: String,
        /// Why it is invalid.
        reason: String,
    },
}

impl Registry {
    /// The registry of a model name. With `insecure`, it uses plain `http`, like Ollama's `--insecure`.
    ///
    /// # Errors
    /// [`AddressError::Insecure`] for a name with `http://` if `insecure` is not set and the host is not this machine;
    /// [`AddressError::Invalid`] if the host is not valid in a URL.
    pub fn for_name(
        name: &ModelRef,
        insecure: bool,
        transport: &Transport,
        credentials: Credentials,
    ) -> Result<Self, AddressError> {
        let scheme = if insecure || name.insecure() { "http" } else { "https" };
        Self::from_address(&format!("{scheme}://{}", name.host()), insecure, transport, credentials)
    }

    /// The registry at an address, `https://host[:port]` or `http://host[:port]`.
    ///
    /// # Errors
    /// As [`Registry::for_name`].
    pub fn from_address(
        address: &str,
        insecure: bool,
        transport: &Transport,
        credentials: Credentials,
    ) -> Result<Self, AddressError> {
        let invalid = |reason: &str| AddressError::Invalid { address: address.to_owned(), reason: reason.to_owned() };
        let base = Url::parse(address).map_err(|error| invalid(&error.to_string()))?;
        if !matches!(base.scheme(), "http" | "https") {
            return Err(invalid("the scheme must be http or https"));
        }
        if !base.username().is_empty() || base.password().is_some() {
            // Do not repeat them in the error.
            let address = format!("{}://{}", base.scheme(), host_and_port(&base));
            let reason = "it must not contain a user or a password".to_owned();
            return Err(AddressError::Invalid { address, reason });
        }
        if base.path() != "/" || base.query().is_some() || base.fragment().is_some() {
            return Err(invalid("it must contain only a host"));
        }
        let host = host_and_port(&base);
        if base.scheme() == "http" && !insecure && !is_loopback(&base) {
            return Err(AddressError::Insecure { host });
        }
        let (auth, host) = (Arc::new(Auth::new(credentials)), host.into());
        Ok(Self { transport: transport.clone(), base, auth, host, mirrored_host: None, pinned: None })
    }

    /// Marks this registry as a mirror of `origin`. Requests then have the query parameter `ns`, like containerd's, for mirrors
    /// of several registries.
    #[must_use]
    pub fn as_mirror_of(mut self, origin: &str) -> Self {
        self.mirrored_host = Some(origin.into());
        self
    }

    /// Requires that this key signs the manifests of tags.
    #[must_use]
    pub fn with_pinned_key(mut self, key: PeerKey) -> Self {
        self.pinned = Some(Arc::new(key));
        self
    }

    /// The host, with a non-default port.
    #[must_use]
    pub fn host(&self) -> &str {
        &self.host
    }

    /// The scheme, host and port.
    pub(crate) fn base(&self) -> &Url {
        &self.base
    }

    /// The current time of the transport's clock.
    pub(crate) fn now(&self) -> SystemTime {
        (self.transport.clock)()
    }

    /// The URL of a resource in a model's repository: `/v2/<namespace>/<model>/<rest>`.
    pub(crate) fn url(&self, name: &ModelRef, rest: &str) -> Url {
        // Names, digests and tags contain no characters that need escaping.
        let path = format!("/v2/{}/{}/{rest}", name.namespace(), name.model());
        let mut url = self.base.clone();
        url.set_path(&path);
        if let Some(origin) = &self.mirrored_host {
            url.query_pairs_mut().append_pair("ns", origin);
        }
        url
    }
}

impl fmt::Debug for Registry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Registry")
            .field("base", &self.base.as_str())
            .field("mirrored_host", &self.mirrored_host)
            .finish()
    }
}

/// The token scope of a model.
pub(crate) fn scope(name: &ModelRef, push: bool) -> Scope {
    Scope { repository: format!("{}/{}", name.namespace(), name.model()), push }
}
