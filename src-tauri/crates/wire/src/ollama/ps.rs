//! `GET /api/ps`: loaded models.

use serde::{Deserialize, Serialize};

use super::Details;
use crate::Timestamp;

/// All loaded models; the one that expires last is first.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PsResponse {
    /// The models.
    pub models: Vec<PsModel>,
}

/// A loaded model.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "the names are the wire's own and mean what the Ollama API documents")]
pub struct PsModel {
    pub name: String,
    pub model: String,
    pub size: u64,
    pub digest: String,
    pub details: Details,
    pub expires_at: Timestamp,
    pub size_vram: u64,
    pub context_length: u64,
}
