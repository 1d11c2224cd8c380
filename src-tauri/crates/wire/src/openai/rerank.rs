//! `POST /v1/rerank`: orders documents by their relevance for a query. OpenAI has no such endpoint; the format is the one
//! that Jina and llama.cpp share: <https://jina.ai/reranker>.

use serde::{Deserialize, Serialize};

use super::InputUsage;

/// Request for the order of documents.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, expecting = "a JSON object")]
pub struct RerankRequest {
    /// The model's name.
    pub model: String,
    /// The query.
    pub query: String,
    /// The documents.
    pub documents: Vec<RerankDocument>,
    /// Most results; all if absent.
    pub top_n: Option<usize>,
    /// Whether the results contain the documents; false if absent.
    pub return_documents: Option<bool>,
}

/// A document.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged, expecting = "invalid document: it must be a text, or an object with a text")]
pub enum RerankDocument {
    /// A text.
    Text(String),
    /// An object with a text.
    Object {
        /// The text.
        text: String,
    },
}

impl RerankDocument {
    /// Returns the text.
    #[must_use]
    pub fn into_text(self) -> String {
        match self {
            Self::Text(text) | Self::Object { text } => text,
        }
    }
}

/// The most relevant documents.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RerankResponse {
    /// The model's name, as in the request.
    pub model: String,
    /// The most relevant document first.
    pub results: Vec<RerankResult>,
    /// Token counts.
    pub usage: InputUsage,
}

/// A document and its score.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RerankResult {
    /// Index of the document in the request.
    pub index: usize,
    /// Relevance: from 0 to 1 for a cross-encoder, a cosine from -1 to 1 for other embedding models.
    pub relevance_score: f32,
    /// The document, if requested.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub document: Option<RerankDocument>,
}
