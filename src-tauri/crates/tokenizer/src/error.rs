//! Errors of loading a vocabulary. Encoding and decoding cannot fail.

/// Reasons why a vocabulary is rejected.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// A key of the metadata is missing or has another type.
    #[error("the file's tokenizer: {0}")]
    Metadata(#[from] cairn_gguf::Error),
    /// `tokenizer.ggml.model` names a kind of tokenizer that is not implemented.
    #[error(
        "`tokenizer.ggml.model`: {model:?} is not supported (supported: \"gpt2\", \"gemma4\", \"llama\", \"bert\", \"t5\")"
    )]
    UnknownModel {
        /// The name in the file.
        model: String,
    },
    /// `tokenizer.ggml.pre` is not in the pre-tokenizer table. Guessing would give subtly wrong ids.
    #[error("`tokenizer.ggml.pre`: {pre:?} is not a supported pre-tokenizer")]
    UnknownPreTokenizer {
        /// The name in the file.
        pre: String,
    },
    /// A pattern of the pre-tokenizer table does not compile.
    #[error("pre-tokenizer {pre:?} has a bad pattern: {reason}")]
    Pattern {
        /// The row's name.
        pre: String,
        /// Message of the regex compiler.
        reason: String,
    },
    /// The automaton of the special tokens cannot be built.
    #[error("special tokens cannot be indexed: {reason}")]
    SpecialTokens {
        /// Message of the automaton's builder.
        reason: String,
    },
    /// The vocabulary has no tokens.
    #[error("`tokenizer.ggml.tokens` is empty")]
    NoTokens,
    /// The vocabulary has no merges, which would give one token per byte.
    #[error("`tokenizer.ggml.merges` is missing or empty")]
    NoMerges,
    /// The vocabulary is too large.
    #[error("`tokenizer.ggml.tokens` has {tokens} entries and `tokenizer.ggml.merges` {merges}, more than {limit}")]
    TooLarge {
        /// Tokens in the file.
        tokens: usize,
        /// Merges in the file.
        merges: usize,
        /// Maximum of each.
        limit: usize,
    },
    /// There are fewer token types than tokens.
    #[error("`tokenizer.ggml.token_type` has {types} entries for {tokens} tokens")]
    TypeCount {
        /// Token types in the file.
        types: usize,
        /// Tokens in the file.
        tokens: usize,
    },
    /// There are fewer scores than tokens.
    #[error("`tokenizer.ggml.scores` has {scores} entries for {tokens} tokens")]
    ScoreCount {
        /// Scores in the file.
        scores: usize,
        /// Tokens in the file.
        tokens: usize,
    },
    /// The normalisation table is invalid.
    #[error("`tokenizer.ggml.precompiled_charsmap`: {reason}")]
    Charsmap {
        /// What is invalid.
        reason: &'static str,
    },
    /// A merge does not consist of two parts with a space between.
    #[error("`tokenizer.ggml.merges`: entry {index} is not two parts: {merge:?}")]
    Merge {
        /// Position in the list of merges.
        index: usize,
        /// The text in the file.
        merge: String,
    },
    /// A special token's id is outside the vocabulary.
    #[error("`tokenizer.ggml.{role}_token_id`: {id} is outside the vocabulary of {tokens}")]
    IdOutOfRange {
        /// `bos`, `eos` and the like, as the key spells it.
        role: &'static str,
        /// The id in the file.
        id: u32,
        /// Tokens in the file.
        tokens: usize,
    },
}
