//! Names and passwords for registries that want them. A password is tried before it is kept, and never told again.

use cairn_registry::{AddressError, Distrust, Login, LoginsError, Registry, SourceError};
use tokio::task::spawn_blocking;

use crate::pull::on_distrust;
use crate::{App, Error, PullError};

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
    #[error(
        "{host} does not prove who it is: {distrust}, so nothing was sent and nothing was kept{}",
        on_distrust(distrust)
    )]
    Untrusted {
        /// The registry.
        host: String,
        /// What is wrong with its proof.
        distrust: Distrust,
    },
    /// They could not be written down, or what was is unreadable.
    #[error(transparent)]
    Logins(#[from] LoginsError),
}

impl From<AddressError> for LoginError {
    fn from(error: AddressError) -> Self {
        Self::Way(error.into())
    }
}

impl App {
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
        let (app, asked) = (self.clone(), login.clone());
        let way = spawn_blocking(move || {
            let transport = app.pulls.outside().transport()?;
            Ok::<_, LoginError>(Registry::at(&address, asked.plain_http, &transport, asked.sign_in())?)
        });
        let registry = way.await.expect("setting up the way out does not panic")?;
        let host = registry.host().to_owned();
        registry.enter().await.map_err(|error| match error {
            SourceError::Refused { .. } => LoginError::Refused(error),
            SourceError::Absent { host } => LoginError::NoRegistry(host),
            SourceError::Untrusted { host, distrust } => LoginError::Untrusted { host, distrust },
            SourceError::Broken { .. } | SourceError::Busy { .. } => LoginError::Unreachable(error),
        })?;
        let (app, user) = (self.clone(), login.user.clone());
        let kept = spawn_blocking(move || {
            app.pulls.outside().logins().add(&host, &login)?;
            app.pulls.outside().sign_in_anew()?;
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
        let (app, host) = (self.clone(), registry.to_owned());
        let removed = spawn_blocking(move || {
            let removed = app.pulls.outside().logins().remove(&host)?;
            app.pulls.outside().sign_in_anew()?;
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
