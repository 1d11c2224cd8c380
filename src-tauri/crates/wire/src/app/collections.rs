//! `/app/collections`: collections of documents, and searches in them.

use serde::{Deserialize, Serialize};

use super::documents::{DocumentFormat, PartPlace};
use crate::{ErrorBody, Timestamp};

/// `GET /app/collections`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CollectionsResponse {
    /// All collections, by name.
    pub collections: Vec<Collection>,
}

/// A collection of documents.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Collection {
    /// Id of the collection.
    pub id: String,
    /// Name of the collection.
    pub name: String,
    /// Creation time.
    pub created_at: Timestamp,
    /// The embedding model; absent if searches find words only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Number of documents.
    pub documents: u64,
    /// Number of chunks of all documents.
    pub chunks: u64,
    /// Chunks that have no vector because the model cannot read their script. Searches find them by their words.
    pub unreadable_chunks: u64,
    /// Whether searches find chunks by their meaning.
    pub meaning: MeaningSearch,
}

/// Whether searches find chunks by their meaning.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "state")]
pub enum MeaningSearch {
    /// All chunks that the model can read have vectors.
    Ready,
    /// Vectors are being computed. Searches use those that exist.
    Embedding {
        /// Chunks with vectors.
        done: u64,
        /// Chunks that get vectors.
        total: u64,
    },
    /// The collection has no embedding model.
    NoModel,
    /// The embedding model is not installed.
    ModelMissing,
    /// The embedding model failed. The daemon tries again after a while.
    Failed {
        /// Error of the model.
        error: ErrorBody,
    },
}

/// `POST /app/collections`: creates a collection.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NewCollectionRequest {
    /// Name of the collection.
    pub name: String,
    /// The embedding model; empty for none. If absent, an installed embedding model is used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
}

/// `PATCH /app/collections/{id}`: changes a collection. Absent fields stay.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CollectionChange {
    /// New name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The embedding model; empty for none. Another model computes all vectors again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
}

/// `GET /app/collections/{id}`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CollectionResponse {
    /// The collection.
    pub collection: Collection,
    /// Its documents, in the order in which they were added.
    pub documents: Vec<CollectionDocument>,
}

/// A document of a collection.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CollectionDocument {
    /// Id of the document.
    pub id: String,
    /// File name.
    pub name: String,
    /// Format of the file; absent until its text was read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub format: Option<DocumentFormat>,
    /// Pages, sheets or slides; absent for formats without them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pages: Option<u32>,
    /// Bytes of the file.
    pub bytes: u64,
    /// When the document was added.
    pub added_at: Timestamp,
    /// Number of chunks.
    pub chunks: u64,
    /// Chunks that have no vector because the model cannot read their script.
    pub unreadable_chunks: u64,
    /// Progress of the document.
    pub status: DocumentStatus,
}

/// Progress of a document.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "state")]
pub enum DocumentStatus {
    /// Its text is being read.
    Reading,
    /// Vectors are being computed. Searches find it by its words.
    Embedding {
        /// Chunks with vectors.
        done: u64,
        /// Chunks that get vectors.
        total: u64,
    },
    /// Searches find it. If the collection has no model, they find it by its words only.
    Ready,
    /// Its text could not be read.
    Failed {
        /// Why.
        error: ErrorBody,
    },
}

/// `POST /app/collections/{id}/search`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CollectionSearch {
    /// A question, or words.
    pub query: String,
    /// Most hits; 5 if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<usize>,
}

/// Hits of a search in a collection.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CollectionHits {
    /// Chunks, best first.
    pub hits: Vec<CollectionHit>,
    /// Why the search used words only; absent if it used meaning too.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub words_only: Option<WordsOnly>,
}

/// Why a search used words only.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WordsOnly {
    /// The collection has no embedding model.
    NoModel,
    /// The embedding model is not installed.
    ModelMissing,
    /// The embedding model failed.
    ModelFailed,
    /// No chunk has a vector yet.
    NoVectors,
    /// The embedding model cannot read the script of the query, for example Chinese.
    Script,
    /// The embedding model took too long: it may wait for other models.
    Timeout,
}

/// A chunk that a search found.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CollectionHit {
    /// Id of the document.
    pub document: String,
    /// File name of the document.
    pub name: String,
    /// Page, sheet, slide or section of the chunk.
    pub place: PartPlace,
    /// Number of the chunk in its document, from 0.
    pub chunk: u32,
    /// Text of the chunk.
    pub text: String,
    /// Score from 0 to 1: 1 for a chunk that is first by words and by meaning.
    pub score: f64,
    /// How the search found the chunk.
    pub by: Vec<HitOrigin>,
}

/// How a search found a chunk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HitOrigin {
    /// By words of the query (BM25).
    Words,
    /// By the cosine of its vector and that of the query.
    Meaning,
}
