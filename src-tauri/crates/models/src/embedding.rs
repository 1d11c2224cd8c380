//! How an embedding model turns the rows of a text into one vector.

use cairn_gguf::Pooling;

/// Output of an embedding model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EmbeddingOutput {
    /// The rows that make the vector.
    pub pooling: Pooling,
    /// Whether a token attends only to itself and the tokens before it.
    pub is_causal: bool,
}

impl EmbeddingOutput {
    /// Output of an encoder without `pooling_type` in its file: the mean, as the first sentence encoders (Reimers &
    /// Gurevych, arXiv 1908.10084).
    pub(crate) const ENCODER: Self = Self { pooling: Pooling::Mean, is_causal: false };
}
