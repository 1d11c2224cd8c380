//! Finding models to pull: a catalogue that comes with the program, and Hugging Face's public index.
//!
//! Ollama's library has no public index, so its well-known models are a list here, which also works with no network; the
//! sizes in it are those of the day it was written, and are marked so. Hugging Face is asked when somebody searches, and
//! never before.

mod catalogue;
mod hub;

pub use hub::Hub;

/// A model that can be pulled.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Discovered {
    /// What it is called there: `qwen3`, or `user/repository`.
    pub title: String,
    /// What it is, in a sentence; empty where nobody said.
    pub about: String,
    /// Who has it.
    pub shelf: Shelf,
    /// What it is good for: `chat`, `code`, `tools`, `thinking`, ...
    pub tasks: Vec<String>,
    /// Under which licence, as its publisher calls it.
    pub licence: Option<String>,
    /// How often it was fetched lately, where that is counted.
    pub downloads: Option<u64>,
    /// What can be pulled of it, the smallest first; empty until [`Hub::variants`] was asked.
    pub variants: Vec<Variant>,
}

impl Discovered {
    /// The name to pull it by without saying which variant: its registry chooses one then.
    #[must_use]
    pub fn name(&self) -> String {
        match self.shelf {
            Shelf::Library => self.title.clone(),
            Shelf::HuggingFace => format!("{}/{}", hub::REGISTRY, self.title),
        }
    }
}

/// Who has a model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shelf {
    /// Ollama's library.
    Library,
    /// Hugging Face.
    HuggingFace,
}

/// One thing to pull.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Variant {
    /// The name to pull it by: `qwen3:8b`, `hf.co/user/repository:Q4_K_M`.
    pub name: String,
    /// How many parameters it has, in words, where that is known.
    pub parameters: Option<String>,
    /// Which types its weights have, where that is known.
    pub quantization: Option<String>,
    /// Bytes to fetch.
    pub size_bytes: u64,
    /// The size is from a list and may have changed.
    pub approximate: bool,
}

/// Models of the catalogue that a search means, in the catalogue's order; all of them for an empty one.
#[must_use]
pub fn catalogue(query: &str) -> Vec<Discovered> {
    catalogue::search(query)
}
