//! `POST /api/copy`: gives a model a second name. The response is empty.

use serde::{Deserialize, Serialize};

/// The model and its second name.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, expecting = "a JSON object")]
pub struct CopyRequest {
    /// The model's name.
    #[serde(deserialize_with = "super::null_is_empty")]
    pub source: String,
    /// The second name.
    #[serde(deserialize_with = "super::null_is_empty")]
    pub destination: String,
}
