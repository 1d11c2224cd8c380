//! `DELETE /api/delete`: deletes a model from the library. The response is empty.

use serde::{Deserialize, Serialize};

/// The model to delete.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, expecting = "a JSON object")]
pub struct DeleteRequest {
    /// The model's name.
    #[serde(deserialize_with = "super::null_is_empty")]
    pub model: String,
    /// Name of `model` in older clients.
    #[serde(skip_serializing_if = "String::is_empty", deserialize_with = "super::null_is_empty")]
    pub name: String,
}
