//! Why a vocabulary cannot become a tokenizer. Encoding and decoding themselves cannot fail.

/// A vocabulary that this crate refuses, with the fact that made it refuse.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// A key of the metadata is missing or has another type.
    #[error("the file's tokenizer: {0}")]
    Metadata(#[from] cairn_gguf::Error),
    /// `tokenizer.ggml.model` names a kind of tokenizer that is not implemented.
    #[error("tokenizer model {model:?} is not supported (supported: \"gpt2\")")]
    UnknownModel {
        /// The name in the file.
        model: String,
    },
    /// `tokenizer.ggml.pre` names no row of the pre-tokenizer table. Guessing would give subtly wrong ids.
    #[error("pre-tokenizer {pre:?} is not known")]
    UnknownPreTokenizer {
        /// The name in the file.
        pre: String,
    },
    /// A pattern of the pre-tokenizer table does not compile.
    #[error("pre-tokenizer {pre:?} has a bad pattern: {reason}")]
    Pattern {
        /// The row's name.
        pre: String,
        /// What the expression compiler said.
        reason: String,
    },
    /// The list of special tokens cannot be searched for.
    #[error("special tokens cannot be indexed: {reason}")]
    SpecialTokens {
        /// What the automaton's builder said.
        reason: String,
    },
    /// The vocabulary has no tokens.
    #[error("the vocabulary is empty")]
    NoTokens,
    /// Byte-pair encoding without merges would give one token per byte.
    #[error("the vocabulary has no merges")]
    NoMerges,
    /// Counts beyond what a token id can hold.
    #[error("the vocabulary has {tokens} tokens and {merges} merges, more than {limit}")]
    TooLarge {
        /// Tokens in the file.
        tokens: usize,
        /// Merges in the file.
        merges: usize,
        /// The most that is accepted of each.
        limit: usize,
    },
    /// Token types are given, but not one for each token.
    #[error("{types} token types for {tokens} tokens")]
    TypeCount {
        /// Token types in the file.
        types: usize,
        /// Tokens in the file.
        tokens: usize,
    },
    /// A merge is not two parts with a blank between.
    #[error("merge {index} is not two parts: {merge:?}")]
    Merge {
        /// Position in the list of merges.
        index: usize,
        /// The text in the file.
        merge: String,
    },
    /// A special token's id lies outside the vocabulary.
    #[error("{role} token {id} is outside the vocabulary of {tokens}")]
    IdOutOfRange {
        /// `bos`, `eos` and the like.
        role: &'static str,
        /// The id in the file.
        id: u32,
        /// Tokens in the file.
        tokens: usize,
    },
}
