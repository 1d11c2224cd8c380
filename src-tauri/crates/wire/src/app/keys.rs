//! `/app/keys`: API keys of other programs.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::{Timestamp, excerpt};

/// What an API key allows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum KeyScope {
    /// Generate, and list models.
    Chat,
    /// Pull, push, create, copy, delete and list models.
    Models,
    /// Read `/metrics`.
    Metrics,
    /// Everything, also Cairn's own API with chats, settings and keys.
    Admin,
}

/// A text that names no scope.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is not a scope of API keys; the scopes are {names}", text = excerpt(.0), names = KeyScope::ALL.map(KeyScope::name).join(", "))]
pub struct UnknownScope(pub String);

impl KeyScope {
    /// All scopes.
    pub const ALL: [Self; 4] = [Self::Chat, Self::Models, Self::Metrics, Self::Admin];

    /// Returns the name, as in JSON and on the command line.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Chat => "chat",
            Self::Models => "models",
            Self::Metrics => "metrics",
            Self::Admin => "admin",
        }
    }

    /// Whether a key with this scope may do what needs the scope `needed`.
    #[must_use]
    pub fn includes(self, needed: Self) -> bool {
        self == needed || self == Self::Admin
    }
}

impl fmt::Display for KeyScope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for KeyScope {
    type Err = UnknownScope;

    fn from_str(name: &str) -> Result<Self, UnknownScope> {
        Self::ALL.into_iter().find(|scope| scope.name() == name).ok_or_else(|| UnknownScope(name.to_owned()))
    }
}

/// `POST /app/keys`: creates a key.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(expecting = "a JSON object")]
pub struct CreateKeyRequest {
    /// Name of the key, for lists, the request log and to revoke it.
    pub name: String,
    /// What the key allows.
    pub scopes: Vec<KeyScope>,
}

/// Response to [`CreateKeyRequest`].
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CreateKeyResponse {
    /// The key, for `Authorization: Bearer KEY` or `x-api-key: KEY`. It is shown only here.
    pub key: String,
}

/// Omits the key.
impl fmt::Debug for CreateKeyResponse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CreateKeyResponse").finish_non_exhaustive()
    }
}

/// `POST /app/keys/revoke`.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(expecting = "a JSON object")]
pub struct RevokeKeyRequest {
    /// Name of the key, or the key itself.
    pub name: String,
}

/// Omits the name, which may be a key.
impl fmt::Debug for RevokeKeyRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RevokeKeyRequest").finish_non_exhaustive()
    }
}

/// `GET /app/keys`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeysResponse {
    /// Keys by name.
    pub keys: Vec<ListedKey>,
}

/// A key in a list, without its text.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ListedKey {
    /// Name of the key.
    pub name: String,
    /// What the key allows.
    pub scopes: Vec<KeyScope>,
    /// When the key was created.
    pub created_at: Timestamp,
    /// When the key was used, at most an hour before its last use. Absent if it was never used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_used_at: Option<Timestamp>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scope_names_are_the_same_in_json_and_text() {
        for scope in KeyScope::ALL {
            assert_eq!(serde_json::to_string(&scope).unwrap(), format!("\"{scope}\""), "{scope:?}");
            assert_eq!(scope.name().parse(), Ok(scope), "{scope:?}");
        }
        let error = "root".parse::<KeyScope>().expect_err("an unknown scope").to_string();
        assert_eq!(error, "\"root\" is not a scope of API keys; the scopes are chat, models, metrics, admin");
    }

    #[test]
    fn admin_includes_all_scopes_and_others_only_themselves() {
        for scope in KeyScope::ALL {
            for needed in KeyScope::ALL {
                let expected = scope == needed || scope == KeyScope::Admin;
                assert_eq!(scope.includes(needed), expected, "{scope} for {needed}");
            }
        }
    }
}
