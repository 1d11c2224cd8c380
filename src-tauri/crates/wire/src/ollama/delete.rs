//! `DELETE /api/delete`: takes a model out of the library. Answered by nothing.

use serde::{Deserialize, Serialize};

/// Which model.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, expecting = "a JSON object")]
pub struct DeleteRequest {
    /// The model's name.
    #[serde(deserialize_with = "super::null_is_empty")]
    pub model: String,
    /// The same, as older clients call it.
    #[serde(skip_serializing_if = "String::is_empty", deserialize_with = "super::null_is_empty")]
    pub name: String,
}
