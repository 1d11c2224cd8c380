//! `/app/logins`: names and passwords for registries. Passwords come in and never go out.

use serde::{Deserialize, Serialize};

/// `POST /app/logins`: tries a name and a password at a registry, and keeps them for it.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LoginRequest {
    /// `host[:port]`.
    pub registry: String,
    /// The user's name there.
    pub user: String,
    /// The password, or a token that stands for one.
    pub password: String,
    /// Hosts of token servers that are given the password too.
    #[serde(default)]
    pub token_servers: Vec<String>,
    /// Whether plain http will do, also for the password.
    #[serde(default)]
    pub insecure: bool,
}

/// All but the password.
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
pub struct LogoutRequest {
    /// `host[:port]`.
    pub registry: String,
}

/// `GET /app/logins`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LoginsResponse {
    /// In the order of their hosts.
    pub logins: Vec<KnownLogin>,
}

/// Who the user is to a registry.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct KnownLogin {
    /// `host[:port]`.
    pub registry: String,
    /// The user's name there.
    pub user: String,
}
