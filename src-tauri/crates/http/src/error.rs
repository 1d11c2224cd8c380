//! Errors as clients see them: a status and `{"error": "...", "code": "...", "params": {...}}`.

mod classify;
mod registry;
mod shape;

use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use cairn_app::Error;
use cairn_app::chats;
use cairn_app::settings::SettingProblem;
use cairn_app::transfers::PullError;
use cairn_wire::{ErrorBody, ErrorCode};
use serde::Serialize;

use classify::{Class, classify};
pub(crate) use registry::RegistryError;
pub(crate) use shape::{anthropic_error, error_type, openai_error, shape_errors};

/// Longest text of an error in the log.
const MAX_LOGGED_CHARS: usize = 500;

/// An error response.
#[derive(Debug)]
pub(crate) struct ApiError {
    class: Class,
    text: String,
    /// Whether the text quotes the request body, which may be a prompt. The text is sent to the client but never
    /// logged.
    quotes_request: bool,
}

impl ApiError {
    /// An error with the parameter `reason` for the codes that document it. Its value is the text.
    pub(crate) fn new(status: StatusCode, code: ErrorCode, text: impl Into<String>) -> Self {
        use ErrorCode as C;
        let (class, text) = (Class::new(status, code), text.into());
        let class = match code {
            C::BodyTooLarge | C::MissingBody | C::SessionExpired | C::Unauthorized | C::ApiKeyInvalid => class,
            // They have the parameter `scope`.
            C::ApiKeyMissing | C::ApiKeyScope => class,
            _ => class.with("reason", &text),
        };
        Self { class, text, quotes_request: false }
    }

    /// Adds a parameter.
    pub(crate) fn with(self, name: &str, value: impl std::fmt::Display) -> Self {
        Self { class: self.class.with(name, value), ..self }
    }

    /// Creates the error for a request body that is not valid JSON of the expected type.
    pub(crate) fn malformed(error: &serde_json::Error) -> Self {
        Self { quotes_request: true, ..Self::bad_request(error.to_string()) }
    }

    /// Whether the request body exceeds a limit.
    pub(crate) fn is_too_large(&self) -> bool {
        self.class.status == StatusCode::PAYLOAD_TOO_LARGE
    }

    /// Creates the error for work that panicked. The panic itself is in the log.
    pub(crate) fn panicked() -> Self {
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, ErrorCode::Internal, "internal error: the task was aborted")
    }

    /// The body of the response.
    pub(crate) fn into_body(self) -> ErrorBody {
        body(self.class, self.text)
    }

    pub(crate) fn bad_request(text: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, ErrorCode::InvalidRequest, text)
    }
}

impl<E: Into<Error>> From<E> for ApiError {
    fn from(error: E) -> Self {
        let error = error.into();
        Self { class: classify(&error), text: error.to_string(), quotes_request: false }
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let status = self.class.status;
        let error = if self.quotes_request { "cannot decode the request body" } else { beginning(&self.text) };
        if status.is_server_error() {
            tracing::error!(status = status.as_u16(), error, "request failed");
        } else {
            tracing::info!(status = status.as_u16(), error, "request rejected");
        }
        let body = self.into_body();
        let mut response = json(status, &body);
        // For the formats of other APIs.
        response.extensions_mut().insert(body);
        response
    }
}

fn body(class: Class, text: String) -> ErrorBody {
    ErrorBody { error: text, code: Some(class.code), params: class.params }
}

/// Returns the beginning of an error's text, for the log. The text may quote names from a request of many megabytes.
fn beginning(text: &str) -> &str {
    text.char_indices().nth(MAX_LOGGED_CHARS).map_or(text, |(end, _)| &text[..end])
}

/// Returns the last line of a failed stream.
pub(crate) fn last_line(error: &Error) -> ErrorBody {
    body(classify(error), error.to_string())
}

/// Returns the error of a refused value of a setting.
pub(crate) fn setting_error(problem: &SettingProblem) -> ErrorBody {
    body(classify::of_setting(problem), problem.to_string())
}

/// Returns the error of a failed download.
pub(crate) fn pull_error(error: &PullError) -> ErrorBody {
    body(classify::of_pull(error), error.to_string())
}

/// Returns the error of a failed answer in a chat, as it is stored and sent.
#[must_use]
pub fn chat_error(error: &chats::Error) -> ErrorBody {
    body(classify::of_chats(error), error.to_string())
}

/// Returns a JSON response with the content type that Ollama's clients expect.
pub(crate) fn json<T: Serialize>(status: StatusCode, body: &T) -> Response {
    let bytes = serde_json::to_vec(body).expect("wire types have string keys and finite numbers");
    (status, [(header::CONTENT_TYPE, "application/json; charset=utf-8")], bytes).into_response()
}

/// Runs blocking work, such as disk access, on a thread for it. Returns an internal error if the work panics.
pub(crate) async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, ApiError> {
    tokio::task::spawn_blocking(work).await.map_err(|_| ApiError::panicked())
}
