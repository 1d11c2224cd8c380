//! User names and passwords for registries. A password is verified before it is stored, and is never returned.

mod error;

use cairn_registry::{Login, Registry, SourceError};
use tokio::task::spawn_blocking;

use crate::transfers::Transfers;
use crate::transfers::error::Error;
pub use error::LoginError;

/// Parameters of a login.
#[derive(Debug, Clone)]
pub struct LoginAttempt {
    /// The registry, `host[:port]`, optionally with `https://` or `http://` in front.
    pub registry: String,
    /// The user name and the password, and the hosts to which they may be sent.
    pub login: Login,
}

/// A stored login.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoggedIn {
    /// The registry, `host[:port]`.
    pub host: String,
    /// The user name.
    pub user: String,
}

impl Transfers {
    /// Verifies a login at its registry and stores it. Returns the registry's host and the user.
    ///
    /// # Errors
    /// If the registry refuses the login, or the login cannot be stored. Nothing is stored then.
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
        let (transfers, attempted) = (self.clone(), login.clone());
        let registry = spawn_blocking(move || {
            let transport = transfers.pulls.registry_access().transport()?;
            Ok::<_, LoginError>(Registry::from_address(
                &address,
                attempted.plain_http,
                &transport,
                attempted.into_credentials(),
            )?)
        });
        let registry = registry.await.expect("opening connections does not panic")?;
        let host = registry.host().to_owned();
        registry.check_login().await.map_err(|error| match error {
            SourceError::Refused { .. } | SourceError::InvalidManifest { .. } => LoginError::Refused(error),
            SourceError::Absent { host } => LoginError::NoRegistry(host),
            SourceError::Untrusted { host, cause } => LoginError::Untrusted { host, cause },
            SourceError::Broken { .. } | SourceError::Busy { .. } => LoginError::Unreachable(error),
        })?;
        let (transfers, user) = (self.clone(), login.user.clone());
        let stored = spawn_blocking(move || {
            transfers.pulls.registry_access().logins().add(&host, &login)?;
            transfers.pulls.registry_access().reset_credentials()?;
            Ok::<_, LoginError>(host)
        });
        let host = stored.await.expect("writing a file does not panic")?;
        tracing::info!(host, user, "stored a login for a registry");
        Ok(LoggedIn { host, user })
    }

    /// Removes the stored login of a registry. Returns `false` if there was none.
    ///
    /// # Errors
    /// If the logins cannot be written.
    pub async fn logout(&self, registry: &str) -> Result<bool, Error> {
        let (transfers, host) = (self.clone(), registry.to_owned());
        let removed = spawn_blocking(move || {
            let removed = transfers.pulls.registry_access().logins().remove(&host)?;
            transfers.pulls.registry_access().reset_credentials()?;
            Ok::<_, LoginError>(removed)
        });
        Ok(removed.await.expect("writing a file does not panic")?)
    }

    /// Lists the stored logins.
    ///
    /// # Errors
    /// If the logins cannot be read.
    pub fn logins(&self) -> Result<Vec<LoggedIn>, Error> {
        let all = self.pulls.registry_access().logins().list().map_err(LoginError::from)?;
        Ok(all.into_iter().map(|(host, login)| LoggedIn { host, user: login.user }).collect())
    }
}
