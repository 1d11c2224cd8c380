//! The kinds of servers.

use serde::{Deserialize, Serialize};

/// What a server is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ServerKind {
    /// Another Cairn, with Ollama's API and OpenAI's.
    Cairn,
    /// Ollama, with its own API and OpenAI's.
    Ollama,
    /// Any server with the API of OpenAI: vLLM, SGLang, llama-server and others.
    OpenAi,
}

impl ServerKind {
    /// Whether the server has Ollama's API. All kinds have OpenAI's.
    #[must_use]
    pub fn has_ollama_api(self) -> bool {
        self != Self::OpenAi
    }

    /// The kind as a word.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Cairn => "cairn",
            Self::Ollama => "ollama",
            Self::OpenAi => "openai",
        }
    }
}
