//! JSON request bodies. As in Ollama, the content type is ignored.

use axum::body::Bytes;
use axum::extract::{FromRequest, Request};
use axum::http::StatusCode;
use cairn_wire::ErrorCode;
use serde::de::DeserializeOwned;

use crate::error::ApiError;

/// Extractor of a JSON body. Unknown fields are ignored.
pub(crate) struct Body<T>(pub(crate) T);

impl<S: Send + Sync, T: DeserializeOwned> FromRequest<S> for Body<T> {
    type Rejection = ApiError;

    async fn from_request(request: Request, state: &S) -> Result<Self, ApiError> {
        let bytes = Bytes::from_request(request, state).await.map_err(|rejection| {
            let status = rejection.status();
            let (code, text) = match status {
                StatusCode::PAYLOAD_TOO_LARGE => (ErrorCode::BodyTooLarge, "request body too large"),
                _ => (ErrorCode::InvalidRequest, "cannot read the request body"),
            };
            ApiError::new(status, code, text)
        })?;
        if bytes.iter().all(u8::is_ascii_whitespace) {
            let text = "missing request body";
            return Err(ApiError::new(StatusCode::BAD_REQUEST, ErrorCode::MissingBody, text));
        }
        serde_json::from_slice(&bytes).map(Self).map_err(|error| ApiError::malformed(&error))
    }
}
