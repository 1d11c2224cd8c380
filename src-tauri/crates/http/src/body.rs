//! Request bodies: JSON whatever the content type says, as Ollama reads them.

use axum::body::Bytes;
use axum::extract::{FromRequest, Request};
use axum::http::StatusCode;
use serde::de::DeserializeOwned;

use crate::error::ApiError;

/// A request's body, read as JSON. Unknown fields are passed over.
pub(crate) struct Body<T>(pub(crate) T);

impl<S: Send + Sync, T: DeserializeOwned> FromRequest<S> for Body<T> {
    type Rejection = ApiError;

    async fn from_request(request: Request, state: &S) -> Result<Self, ApiError> {
        let bytes = Bytes::from_request(request, state).await.map_err(|rejection| {
            let status = rejection.status();
            let text = if status == StatusCode::PAYLOAD_TOO_LARGE {
                "request body too large"
            } else {
                "unreadable request body"
            };
            ApiError::new(status, text)
        })?;
        if bytes.iter().all(u8::is_ascii_whitespace) {
            return Err(ApiError::bad_request("missing request body"));
        }
        serde_json::from_slice(&bytes).map(Self).map_err(|error| ApiError::malformed(&error))
    }
}
