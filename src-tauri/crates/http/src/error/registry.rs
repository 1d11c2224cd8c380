//! Errors of `/v2`, in the format of the OCI distribution specification 1.1.

use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use cairn_app::transfers;
use serde::Serialize;
use serde_json::{Value, json};

use super::json;

/// An error response of the registry.
#[derive(Debug)]
pub(crate) struct RegistryError {
    status: StatusCode,
    code: &'static str,
    message: String,
}

impl RegistryError {
    /// Whether requests of this path are answered with such errors.
    pub(crate) fn is_for(path: &str) -> bool {
        path == "/v2" || path.starts_with("/v2/")
    }

    /// The JSON Schema of the body.
    pub(crate) fn schema() -> Value {
        let properties = json!({"code": {"type": "string"}, "message": {"type": "string"}});
        let error = json!({"type": "object", "properties": properties, "required": ["code", "message"]});
        let errors = json!({"type": "array", "items": error, "minItems": 1});
        json!({"type": "object", "properties": {"errors": errors}, "required": ["errors"]})
    }

    /// An error of a request that no handler of the registry accepted.
    pub(crate) fn of(status: StatusCode, message: String) -> Self {
        let code = match status {
            StatusCode::UNAUTHORIZED => "UNAUTHORIZED",
            StatusCode::FORBIDDEN => "DENIED",
            StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE => "TOOMANYREQUESTS",
            status if status.is_client_error() => "UNSUPPORTED",
            _ => "UNKNOWN",
        };
        Self::new(status, code, message)
    }

    pub(crate) fn denied(message: &str) -> Self {
        Self { status: StatusCode::FORBIDDEN, code: "DENIED", message: message.to_owned() }
    }

    pub(crate) fn new(status: StatusCode, code: &'static str, message: impl Into<String>) -> Self {
        Self { status, code, message: message.into() }
    }
}

impl From<transfers::Error> for RegistryError {
    fn from(error: transfers::Error) -> Self {
        let (status, code) = match error {
            transfers::Error::Name(_) => (StatusCode::BAD_REQUEST, "NAME_INVALID"),
            transfers::Error::Join(_) => (StatusCode::UNAUTHORIZED, "UNAUTHORIZED"),
            transfers::Error::Pull(_) => (StatusCode::BAD_GATEWAY, "UNAVAILABLE"),
            _ => (StatusCode::INTERNAL_SERVER_ERROR, "UNKNOWN"),
        };
        Self::new(status, code, error.to_string())
    }
}

impl IntoResponse for RegistryError {
    fn into_response(self) -> Response {
        #[derive(Serialize)]
        struct Errors {
            errors: [ErrorEntry; 1],
        }
        #[derive(Serialize)]
        struct ErrorEntry {
            code: &'static str,
            message: String,
        }
        tracing::info!(status = self.status.as_u16(), error = self.message, "registry request rejected");
        let body = Errors { errors: [ErrorEntry { code: self.code, message: self.message }] };
        let mut response = json(self.status, &body);
        if self.status == StatusCode::TOO_MANY_REQUESTS {
            response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
        }
        response
    }
}
