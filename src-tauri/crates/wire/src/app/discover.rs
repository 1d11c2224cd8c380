//! `GET /app/discover?q=...&limit=...&own=true`: models to pull, by words; with `own`, out of our own catalogue alone.

use serde::{Deserialize, Serialize};

/// What was found. `cairn search --json` prints it, too.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DiscoverResponse {
    /// Models, those of the catalogue that comes with Cairn first.
    pub models: Vec<DiscoveredModel>,
    /// What is missing from them and why, in one line.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trouble: Option<String>,
}

/// A model that can be pulled.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DiscoveredModel {
    /// The name to pull it by: of a variant that suits most machines, where one is known.
    pub name: String,
    /// What it is called there: `qwen3`, or `user/repository`.
    pub title: String,
    /// Who has it.
    pub from: DiscoveredFrom,
    /// What it is, in a sentence; empty where nobody said.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub about: String,
    /// What it is good for: `chat`, `code`, `text-generation`, ...
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tasks: Vec<String>,
    /// Under which licence, as its publisher calls it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub licence: Option<String>,
    /// How often it was fetched lately, where that is counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub downloads: Option<u64>,
    /// It, or a variant of it, is a model here already.
    pub here: bool,
    /// What can be pulled of it, the smallest first; empty where that is unknown.
    pub variants: Vec<DiscoveredVariant>,
}

/// One thing to pull.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DiscoveredVariant {
    /// The name to pull it by: `qwen3:8b`, `hf.co/user/repository:Q4_K_M`.
    pub name: String,
    /// How many parameters it has, `8.2B` for instance.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parameters: Option<String>,
    /// Which type its weights have.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quantization: Option<String>,
    /// Bytes to fetch.
    pub size: u64,
    /// The size is from a list and may have changed.
    pub estimated: bool,
    /// It is a model here already.
    pub here: bool,
}

/// Who has a model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DiscoveredFrom {
    /// Ollama's library.
    Library,
    /// Hugging Face.
    HuggingFace,
}
