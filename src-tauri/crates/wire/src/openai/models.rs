//! `GET /v1/models` and `GET /v1/models/{model}`.

use serde::{Deserialize, Serialize};

/// The models that requests can name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ModelList {
    /// `list`
    pub object: String,
    /// The models, newest first.
    pub data: Vec<Model>,
}

/// A model.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Model {
    /// The name that requests use.
    pub id: String,
    /// `model`
    pub object: String,
    /// When the model was stored, in Unix seconds.
    pub created: i64,
    /// The namespace of the name: `library` for official ones.
    pub owned_by: String,
}
