//! Error responses.

use serde::{Deserialize, Serialize};

use crate::openai::ErrorType;

/// The body of an error response, and the last event of a stream that failed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ErrorResponse {
    /// `error`
    #[serde(rename = "type")]
    pub kind: String,
    /// The error.
    pub error: ErrorDetail,
}

/// An error.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ErrorDetail {
    /// The kind of the error, by the status of the response.
    #[serde(rename = "type")]
    pub kind: ErrorType,
    /// What went wrong, in English.
    pub message: String,
}

impl ErrorResponse {
    /// Creates the body of an error.
    #[must_use]
    pub fn new(kind: ErrorType, message: String) -> Self {
        Self { kind: "error".to_owned(), error: ErrorDetail { kind, message } }
    }
}
