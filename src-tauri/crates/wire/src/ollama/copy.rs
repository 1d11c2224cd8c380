//! `POST /api/copy`: a second name for a model. Answered by nothing.

use serde::{Deserialize, Serialize};

/// Which model, and its second name.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, expecting = "a JSON object")]
pub struct CopyRequest {
    /// The model's name.
    #[serde(deserialize_with = "super::null_is_empty")]
    pub source: String,
    /// The name that it is to have too.
    #[serde(deserialize_with = "super::null_is_empty")]
    pub destination: String,
}
