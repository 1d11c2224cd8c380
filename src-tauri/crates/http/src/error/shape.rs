//! The format of error responses: each API has its own. All handlers return [`ErrorBody`], and this middleware writes it
//! in the format of the path's API.

use axum::extract::Request;
use axum::http::StatusCode;
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use cairn_wire::{ErrorBody, anthropic, openai};

use super::{RegistryError, json};

/// An API with its own format of errors.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Api {
    /// `{"error": "...", "code": "..."}`, which Cairn's own API uses too.
    Ollama,
    OpenAi,
    Anthropic,
    /// `{"errors": [...]}`
    Registry,
}

impl Api {
    /// Returns the API of a path.
    fn of(path: &str) -> Self {
        match path {
            _ if RegistryError::is_for(path) => Self::Registry,
            _ if path == "/v1/messages" || path.starts_with("/v1/messages/") => Self::Anthropic,
            _ if path == "/v1" || path.starts_with("/v1/") => Self::OpenAi,
            _ => Self::Ollama,
        }
    }
}

/// Returns the `wire` type of a path's errors; `None` for those of a registry.
pub(crate) fn error_type(path: &str) -> Option<&'static str> {
    match Api::of(path) {
        Api::Ollama => Some("ErrorBody"),
        Api::OpenAi => Some("openai.ErrorResponse"),
        Api::Anthropic => Some("anthropic.ErrorResponse"),
        Api::Registry => None,
    }
}

/// Middleware that writes errors in the format of the path's API.
pub(crate) async fn shape_errors(request: Request, next: Next) -> Response {
    let api = Api::of(request.uri().path());
    let mut response = next.run(request).await;
    let status = response.status();
    let Some(error) = response.extensions_mut().remove::<ErrorBody>() else { return response };
    let shaped = match api {
        Api::Ollama => return response,
        Api::OpenAi => json(status, &openai_error(status, &error)),
        Api::Anthropic => json(status, &anthropic_error(status, &error)),
        Api::Registry => RegistryError::of(status, error.error).into_response(),
    };
    // Headers such as those for web pages stay.
    let (mut parts, body) = shaped.into_parts();
    for (name, value) in response.headers() {
        if !parts.headers.contains_key(name) && name != axum::http::header::CONTENT_LENGTH {
            parts.headers.append(name, value.clone());
        }
    }
    Response::from_parts(parts, body)
}

/// Returns an error in OpenAI's format.
pub(crate) fn openai_error(status: StatusCode, error: &ErrorBody) -> openai::ErrorResponse {
    openai::ErrorResponse {
        error: openai::ErrorDetail {
            message: error.error.clone(),
            kind: openai::ErrorType::of_status(status.as_u16()),
            param: None,
            code: error.code,
        },
    }
}

/// Returns an error in Anthropic's format.
pub(crate) fn anthropic_error(status: StatusCode, error: &ErrorBody) -> anthropic::ErrorResponse {
    anthropic::ErrorResponse::new(openai::ErrorType::of_status(status.as_u16()), error.error.clone())
}
