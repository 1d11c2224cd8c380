//! Error responses.

use serde::{Deserialize, Serialize};

use crate::ErrorCode;

/// The body of an error response, and the last event of a stream that failed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ErrorResponse {
    /// The error.
    pub error: ErrorDetail,
}

/// An error.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ErrorDetail {
    /// What went wrong, in English.
    pub message: String,
    /// The kind of the error, by the status of the response.
    #[serde(rename = "type")]
    pub kind: ErrorType,
    /// The field of the request that is wrong; always absent.
    pub param: Option<String>,
    /// The stable name of the error.
    pub code: Option<ErrorCode>,
}

/// Kinds of errors. Both APIs use these names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ErrorType {
    /// The request is wrong; repeating it cannot succeed.
    InvalidRequestError,
    /// The key is missing or wrong.
    AuthenticationError,
    /// This client may not do that.
    PermissionError,
    /// The model or path does not exist.
    NotFoundError,
    /// The server is busy; the request may be repeated later.
    OverloadedError,
    /// The server failed.
    ApiError,
}

impl ErrorType {
    /// Returns the kind of errors with a status.
    #[must_use]
    pub fn of_status(status: u16) -> Self {
        match status {
            401 => Self::AuthenticationError,
            403 => Self::PermissionError,
            404 => Self::NotFoundError,
            400..=499 => Self::InvalidRequestError,
            503 => Self::OverloadedError,
            _ => Self::ApiError,
        }
    }
}
