//! Names and passwords for registries that want them. A password is tried before it is kept, and never told again.

use cairn_registry::{AddressError, Login, LoginStoreError, Registry, SourceError, TlsError};
use tokio::task::spawn_blocking;

use crate::transfers::error::Error;
use crate::transfers::handle::Transfers;
use crate::transfers::pull::PullError;
use crate::transfers::pull::tls_advice;

/// Who a user wants to be to a registry.
#[derive(Debug, Clone)]
pub struct LoginAttempt {
    /// The registry, `host[:port]`, perhaps with `https://` or `http://` in front.
    pub registry: String,
    /// The name and the password, and where they may go.
    pub login: Login,
}

/// Somebody whom a registry knows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoggedIn {
    /// The registry, `host[:port]`.
    pub host: String,
    /// The user's name there.
    pub user: String,
}

/// Why a name and a password were not kept.
#[derive(Debug, thiserror::Error)]
pub enum LoginError {
    /// There is no way to the registry.
    #[error(transparent)]
    Way(#[from] PullError),
    /// A name that cannot be sent.
    #[error("a user's name for a registry is not empty, and there is no colon in it")]
    User,
    /// The registry does not take them, or may not be given them.
    #[error(
        "{0}; nothing was kept. Look at the name and the password; where a token server of another host is named and you \
         trust it with them, say so: --token-server HOST"
    )]
    Refused(SourceError),
    /// Who answers is no registry.
    #[error("{0} answers, and is no registry: it has no /v2/; nothing was kept")]
    NoRegistry(String),
    /// It could not be asked.
    #[error("{0}; nothing was kept")]
    Unreachable(SourceError),
    /// Who answers does not prove to be the registry.
    #[error("{host} does not prove who it is: {cause}, so nothing was sent and nothing was kept{}", tls_advice(cause))]
    Untrusted {
        /// The registry.
        host: String,
        /// What is wrong with its proof.
        cause: TlsError,
    },
    /// They could not be written down, or what was is unreadable.
    #[error(transparent)]
    LoginStore(#[from] LoginStoreError),
}

impl From<AddressError> for LoginError {
    fn from(error: AddressError) -> Self {
        Self::Way(error.into())
    }
}

impl Transfers {
    /// Tries a name and a password at a registry, and keeps them for it. Returns the registry's host.
    ///
    /// # Errors
    /// When the registry does not take them, or they cannot be written down; nothing is kept then.
    pub async fn login(&self, attempt: LoginAttempt) -> Result<LoggedIn, Error> {
        let LoginAttempt { registry, login } = attempt;
        if login.user.is_empty() || login.user.contains(':') || login.user.contains(char::is_control) {
            return Err(LoginError::User.into());
        }
        let scheme = if login.plain_http { "http" } else { "https" };
        let address = match registry.trim_end_matches('/') {
            whole if whole.contains("://") => whole.to_owned(),
            host => format!("{scheme}://{host}"),
        };
        let (transfers, asked) = (self.clone(), login.clone());
        let way = spawn_blocking(move || {
            let transport = transfers.pulls.outside().transport()?;
            Ok::<_, LoginError>(Registry::from_address(
                &address,
                asked.plain_http,
                &transport,
                asked.into_credentials(),
            )?)
        });
        let registry = way.await.expect("setting up the way out does not panic")?;
        let host = registry.host().to_owned();
        registry.check_login().await.map_err(|error| match error {
            SourceError::Refused { .. } => LoginError::Refused(error),
            SourceError::Absent { host } => LoginError::NoRegistry(host),
            SourceError::Untrusted { host, cause } => LoginError::Untrusted { host, cause },
            SourceError::Broken { .. } | SourceError::Busy { .. } => LoginError::Unreachable(error),
        })?;
        let (transfers, user) = (self.clone(), login.user.clone());
        let kept = spawn_blocking(move || {
            transfers.pulls.outside().logins().add(&host, &login)?;
            transfers.pulls.outside().reset_credentials()?;
            Ok::<_, LoginError>(host)
        });
        let host = kept.await.expect("writing a file does not panic")?;
        tracing::info!(host, user, "a password is kept for a registry");
        Ok(LoggedIn { host, user })
    }

    /// Forgets the name and the password for a registry; `false` where there were none of ours.
    ///
    /// # Errors
    /// When they cannot be written down.
    pub async fn logout(&self, registry: &str) -> Result<bool, Error> {
        let (transfers, host) = (self.clone(), registry.to_owned());
        let removed = spawn_blocking(move || {
            let removed = transfers.pulls.outside().logins().remove(&host)?;
            transfers.pulls.outside().reset_credentials()?;
            Ok::<_, LoginError>(removed)
        });
        Ok(removed.await.expect("writing a file does not panic")?)
    }

    /// Who the user is to which registries.
    ///
    /// # Errors
    /// When that cannot be read.
    pub fn logins(&self) -> Result<Vec<LoggedIn>, Error> {
        let all = self.pulls.outside().logins().list().map_err(LoginError::from)?;
        Ok(all.into_iter().map(|(host, login)| LoggedIn { host, user: login.user }).collect())
    }
}
