//! Reasons why a request cannot be translated.

use cairn_wire::OptionError;

/// Why a request cannot be sent to a server of its kind.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TranslationError {
    /// The server's API has no such feature.
    #[error("the OpenAI API of the remote does not support {0}")]
    Feature(&'static str),
    /// The server has no such endpoint, and no other one for the request.
    #[error("the server has no {path}; {hint}")]
    Endpoint {
        /// Path of the endpoint.
        path: &'static str,
        /// What to do.
        hint: &'static str,
    },
    /// An option has a value of the wrong type.
    #[error(transparent)]
    Option(#[from] OptionError),
}
