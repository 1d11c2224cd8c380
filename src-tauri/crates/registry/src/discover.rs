//! Search for models to pull: a built-in catalogue, and Hugging Face's public index.
//!
//! Ollama's library has no public index, so a built-in list contains its well-known models. It works offline; its sizes
//! may be outdated and are marked as approximate. Hugging Face is contacted only when the user searches.

mod catalogue;
mod hub;

pub use hub::Hub;

/// A model that can be pulled.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DiscoveredModel {
    /// The name in the index: `qwen3`, or `user/repository`.
    pub title: String,
    /// A description in one sentence; may be empty.
    pub about: String,
    /// The index that contains the model.
    pub index: ModelIndex,
    /// Tasks of the model: `chat`, `code`, `tools`, `thinking`, ...
    pub tasks: Vec<String>,
    /// The licence, as named by the publisher.
    pub licence: Option<String>,
    /// Number of recent downloads, if available.
    pub downloads: Option<u64>,
    /// Variants to pull, the smallest first. For Hugging Face, empty until [`Hub::variants`] is called.
    pub variants: Vec<Variant>,
}

impl DiscoveredModel {
    /// The name for a pull without a variant; the registry chooses one.
    #[must_use]
    pub fn name(&self) -> String {
        match self.index {
            ModelIndex::Library => self.title.clone(),
            ModelIndex::HuggingFace => format!("{}/{}", hub::REGISTRY, self.title),
        }
    }
}

/// An index of models.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ModelIndex {
    /// Ollama's library.
    Library,
    /// Hugging Face.
    HuggingFace,
}

/// A variant of a model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Variant {
    /// The name for a pull: `qwen3:8b`, `hf.co/user/repository:Q4_K_M`.
    pub name: String,
    /// Number of parameters as text, for example `8B`, if known.
    pub parameters: Option<String>,
    /// Parameters that compute each token, if the catalogue states that not all do.
    pub active_parameters: Option<String>,
    /// Quantization of the weights, if known.
    pub quantization: Option<String>,
    /// `general.architecture` of the model file, if available.
    pub architecture: Option<String>,
    /// Bytes to fetch.
    pub size_bytes: u64,
    /// The size is from the built-in list and may be outdated.
    pub is_approximate: bool,
}

/// Searches the catalogue. Returns all models for an empty query, in the catalogue's order.
#[must_use]
pub fn catalogue(query: &str) -> Vec<DiscoveredModel> {
    catalogue::search(query)
}
