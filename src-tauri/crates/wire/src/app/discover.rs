//! `GET /app/discover?q=...&limit=...&own=true`: searches models to pull; with `own`, only in Cairn's own catalogue.

use serde::{Deserialize, Serialize};

use super::Speed;

/// Result of a search. `cairn search --json` prints it too.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct DiscoverResponse {
    /// Models; those of Cairn's catalogue come first.
    pub models: Vec<DiscoveredModel>,
    /// Whether the kernels are being measured, so that a later request has speeds.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub measuring: bool,
    /// Why the result is incomplete, in one line.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
}

/// A model that can be pulled.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct DiscoveredModel {
    /// Name to pull; of a variant that suits most machines, if one is known.
    pub name: String,
    /// Title at the source: `qwen3`, or `user/repository`.
    pub title: String,
    /// The source.
    pub from: DiscoveredFrom,
    /// Description in one sentence; empty if there is none.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub about: String,
    /// Tasks: `chat`, `code`, `text-generation`, ...
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tasks: Vec<String>,
    /// Licence, as its publisher names it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub licence: Option<String>,
    /// Recent downloads, if the source counts them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub downloads: Option<u64>,
    /// Whether a variant is already in a library.
    pub here: bool,
    /// Variants, smallest first; empty if unknown.
    pub variants: Vec<DiscoveredVariant>,
}

/// A variant of a model.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct DiscoveredVariant {
    /// Name to pull: `qwen3:8b`, `hf.co/user/repository:Q4_K_M`.
    pub name: String,
    /// Number of parameters, for example `8.2B`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parameters: Option<String>,
    /// Quantization.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quantization: Option<String>,
    /// Bytes to download.
    pub size: u64,
    /// Whether the size is an estimate.
    pub estimated: bool,
    /// Whether the variant is already in a library.
    pub here: bool,
    /// Estimated speed on this machine; absent if it cannot be estimated, or nothing is measured yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub speed: Option<Speed>,
}

/// Source of a model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DiscoveredFrom {
    /// Ollama's library.
    Library,
    /// Hugging Face.
    HuggingFace,
}
