//! `/app/logins`: logins at registries. Responses never have passwords.

use serde::{Deserialize, Serialize};

/// `POST /app/logins`: verifies a login at a registry and stores it.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(expecting = "a JSON object")]
pub struct LoginRequest {
    /// `host[:port]`.
    pub registry: String,
    /// User name.
    pub user: String,
    /// The password or access token.
    pub password: String,
    /// Hosts of token servers that may receive the password too.
    #[serde(default)]
    pub token_servers: Vec<String>,
    /// Whether plain HTTP is allowed, also for the password.
    #[serde(default)]
    pub insecure: bool,
}

/// Omits the password.
impl std::fmt::Debug for LoginRequest {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LoginRequest")
            .field("registry", &self.registry)
            .field("user", &self.user)
            .finish_non_exhaustive()
    }
}

/// `POST /app/logins/forget`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(expecting = "a JSON object")]
pub struct LogoutRequest {
    /// `host[:port]`.
    pub registry: String,
}

/// `GET /app/logins`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LoginsResponse {
    /// Logins in the order of their hosts.
    pub logins: Vec<KnownLogin>,
}

/// A stored login.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct KnownLogin {
    /// `host[:port]`.
    pub registry: String,
    /// User name.
    pub user: String,
}
