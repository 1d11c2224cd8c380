//! Errors of constraints.

/// Longest part of a constraint in an error, in characters: a name, a reference or a position.
pub(crate) const MAX_QUOTED_CHARS: usize = 100;

/// Returns the beginning of a text, and `…` for the rest.
pub(crate) fn excerpt(text: &str, chars: usize) -> String {
    match text.char_indices().nth(chars) {
        Some((end, _)) => format!("{}…", text.get(..end).unwrap_or_default()),
        None => text.to_owned(),
    }
}

/// Why a constraint cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The schema has a keyword, or a form of it, that cannot be enforced exactly.
    #[error("JSON schema: `{keyword}` at {at} is not supported{reason}")]
    UnsupportedKeyword {
        /// The keyword.
        keyword: String,
        /// JSON pointer of the schema that has it, as a URI fragment: `#/properties/name`. A long one is cut.
        at: String,
        /// Empty, or why this form is not supported, with a colon before it.
        reason: String,
    },
    /// A keyword of the schema has an invalid value.
    #[error("JSON schema: invalid `{keyword}` at {at}: {reason}")]
    InvalidKeyword {
        /// The keyword.
        keyword: String,
        /// As for [`Error::UnsupportedKeyword`].
        at: String,
        /// What is wrong.
        reason: String,
    },
    /// A schema is neither an object nor a boolean.
    #[error("JSON schema: the schema at {at} must be an object or a boolean")]
    NotASchema {
        /// As for [`Error::UnsupportedKeyword`].
        at: String,
    },
    /// No value matches the schema.
    #[error("JSON schema: no value can match the schema: {0}")]
    Unsatisfiable(String),
    /// The constraint is too large, or nested too deeply.
    #[error("{what} is too large: {size} {unit}, at most {limit} are allowed; send a smaller one")]
    TooLarge {
        /// The constraint that is too large.
        what: &'static str,
        /// Unit of the counts, in the plural.
        unit: &'static str,
        /// The count.
        size: usize,
        /// The largest count.
        limit: usize,
    },
    /// The constraint needs too much work or memory, is not a valid regular expression or grammar, or has a part that is not
    /// supported.
    #[error("{kind}: {reason}")]
    Compile {
        /// What was compiled: `JSON schema`, `regular expression` or `grammar`.
        kind: &'static str,
        /// The compiler's reason.
        reason: String,
    },
    /// The model's vocabulary cannot be indexed.
    #[error("the model's vocabulary cannot be used for structured output: {0}")]
    Vocabulary(String),
    /// The system refused a thread.
    #[error("the system refused a thread to compile the constraint")]
    Thread,
}

/// Why an answer cannot continue under its constraint.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct MatchError(pub(crate) String);
