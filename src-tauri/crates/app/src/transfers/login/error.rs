//! Errors of logins at registries.

use cairn_registry::{AddressError, LoginStoreError, SourceError, TlsError};

use crate::transfers::pull::{PullError, tls_advice};

/// Error of a login.
#[derive(Debug, thiserror::Error)]
pub enum LoginError {
    /// The connection cannot be set up.
    #[error(transparent)]
    Way(#[from] PullError),
    /// The user name is invalid.
    #[error("invalid user name: it must not be empty, and must not contain a colon")]
    User,
    /// The registry refused the login, or the login may not be sent to it.
    #[error(
        "{0}; nothing was kept; check the user name and the password; to send them to a token server on another host, \
         add --token-server HOST"
    )]
    Refused(SourceError),
    /// The server is not a registry.
    #[error("{0} is not a registry: it has no /v2/; nothing was kept")]
    NoRegistry(String),
    /// The registry is unreachable.
    #[error("{0}; nothing was kept")]
    Unreachable(SourceError),
    /// The identity of the registry cannot be verified.
    #[error("cannot verify the identity of {host}: {cause}; nothing was sent or kept{}", tls_advice(cause))]
    Untrusted {
        /// The registry.
        host: String,
        /// The cause.
        cause: TlsError,
    },
    /// The logins cannot be read or written.
    #[error(transparent)]
    LoginStore(#[from] LoginStoreError),
}

impl From<AddressError> for LoginError {
    fn from(error: AddressError) -> Self {
        Self::Way(error.into())
    }
}
