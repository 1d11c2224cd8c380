//! `GET /api/tags`: all models.

use serde::{Deserialize, Serialize};

use crate::Timestamp;

/// All models, newest first.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TagsResponse {
    /// The models.
    pub models: Vec<TagsModel>,
}

/// A model of the list.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "the names are the wire's own and mean what the Ollama API documents")]
pub struct TagsModel {
    pub name: String,
    pub model: String,
    pub modified_at: Timestamp,
    pub size: u64,
    /// Lower-case hex, without `sha256:`.
    pub digest: String,
    pub details: Details,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub capabilities: Vec<String>,
    /// Origin of a model that is not in a library. Cairn's own field.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub origin: Option<String>,
    /// Names of the remotes that have the model, if it is not on this machine. Cairn's own field.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub remotes: Vec<String>,
}

/// Details of a model.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
#[expect(missing_docs, reason = "the names are the wire's own and mean what the Ollama API documents")]
pub struct Details {
    pub parent_model: String,
    pub format: String,
    pub family: String,
    pub families: Option<Vec<String>>,
    pub parameter_size: String,
    pub quantization_level: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub context_length: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub embedding_length: Option<u64>,
}
