//! `GET /app/updates?model=...&insecure=true`: compares one model, or all pulled ones, with their registries.

use serde::{Deserialize, Serialize};

/// Whether pulled models are current. `cairn updates --json` prints it too.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct UpdatesResponse {
    /// The models, in the order of the library.
    pub models: Vec<ModelUpdate>,
}

/// Whether a model is current.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ModelUpdate {
    /// Name of the model.
    pub model: String,
    /// The result.
    pub state: UpdateState,
    /// Bytes that a pull would download. Only of a newer model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub download_bytes: Option<u64>,
    /// Why the registry could not be asked. Only of an unknown state.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
}

/// Result of comparing a model with its registry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum UpdateState {
    /// The registry has the same model.
    Current,
    /// The registry has a newer model: a pull updates it.
    Newer,
    /// The registry no longer has the model.
    Removed,
    /// The model was made or changed on this machine.
    MadeHere,
    /// The registry could not be asked.
    Unknown,
}
