//! `/app/keys`: API keys of other programs.

use serde::{Deserialize, Serialize};

use crate::Timestamp;

/// What an API key allows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum KeyScope {
    /// Read `/metrics`, from any machine.
    Metrics,
}

/// `POST /app/keys`: creates a key.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CreateKeyRequest {
    /// Name of the key, for lists and to revoke it.
    pub name: String,
    /// What the key allows.
    pub scope: KeyScope,
}

/// Response to [`CreateKeyRequest`].
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CreateKeyResponse {
    /// The key, for `Authorization: Bearer KEY`. It is shown only here.
    pub key: String,
}

/// Omits the key.
impl std::fmt::Debug for CreateKeyResponse {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CreateKeyResponse").finish_non_exhaustive()
    }
}

/// `POST /app/keys/revoke`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RevokeKeyRequest {
    /// Name of the key, or the key itself.
    pub name: String,
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
    pub scope: KeyScope,
    /// When the key was created.
    pub created_at: Timestamp,
}
