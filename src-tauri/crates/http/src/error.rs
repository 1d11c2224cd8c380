//! Errors as clients see them: a status and `{"error": "...", "code": "...", "params": {...}}`.

mod classify;
mod registry;
mod shape;

use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use cairn_app::Error;
use cairn_app::chats;
use cairn_app::collections;
use cairn_app::inference::Failure;
use cairn_app::settings::SettingProblem;
use cairn_app::transfers::PullError;
use cairn_wire::{ErrorBody, ErrorCode, beginning};
use serde::Serialize;

use classify::{Class, classify};
pub(crate) use registry::RegistryError;
pub(crate) use shape::{anthropic_error, error_type, openai_error, shape_errors};

/// Longest text of an error in the log.
const MAX_LOGGED_CHARS: usize = 500;
/// Longest text and parameter of an error. Errors quote excerpts of a request; this limits the texts of parsers. A path of the
/// system's maximum length fits.
const MAX_TEXT_CHARS: usize = 4500;
/// Longest error of the JSON parser, which quotes whole values.
const MAX_PARSER_CHARS: usize = 300;

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
        Self { quotes_request: true, ..Self::bad_request(without_middle(error.to_string(), MAX_PARSER_CHARS)) }
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
        let error = match self.quotes_request {
            true => "cannot decode the request body".into(),
            false => beginning(&self.text, MAX_LOGGED_CHARS),
        };
        let error = &*error;
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
    let bounded = |text| without_middle(text, MAX_TEXT_CHARS);
    let params = class.params.into_iter().map(|(name, value)| (name, bounded(value))).collect();
    ErrorBody { error: bounded(text), code: Some(class.code), params }
}

/// Cuts the middle of a long text: its beginning has the failure, and its end has the position or the advice.
fn without_middle(text: String, max_chars: usize) -> String {
    if text.len() <= max_chars {
        return text;
    }
    let (chars, half) = (text.chars().count(), max_chars / 2);
    if chars <= max_chars {
        return text;
    }
    text.chars().take(half).chain(['…']).chain(text.chars().skip(chars - half)).collect()
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

/// Returns the failure of a remote for clients of `/app`. It may contain an address.
pub(crate) fn remote_failure(failure: &Failure) -> ErrorBody {
    body(classify::of_failure(failure, failure.cause()), failure.detail())
}

/// Returns the error of a failed answer in a chat, as it is stored and sent.
#[must_use]
pub fn chat_error(error: &chats::Error) -> ErrorBody {
    body(classify::of_chats(error), error.to_string())
}

/// Returns the error of a document or an embedding model in a collection, as it is stored and sent.
#[must_use]
pub fn collection_error(error: &collections::Error) -> ErrorBody {
    body(classify::of_collections(error), error.to_string())
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_text_keeps_its_beginning_and_its_end() {
        assert_eq!(without_middle("öäü".to_owned(), 3), "öäü", "3 characters in 6 bytes");
        assert_eq!(without_middle("öäü at 1".to_owned(), 4), "öä… 1");
        let long = "x".repeat(1 << 20);
        let body = ApiError::bad_request(long.clone()).with("model", &long).into_body();
        let longest = body.params.values().map(|value| value.chars().count()).max();
        assert_eq!((body.error.chars().count(), longest), (MAX_TEXT_CHARS + 1, Some(MAX_TEXT_CHARS + 1)));
    }

    #[test]
    fn error_of_the_json_parser_has_the_type_and_the_position_of_a_long_value() {
        let json = format!("\"{}\"", "x".repeat(1 << 20));
        let error = serde_json::from_str::<u8>(&json).expect_err("a text is no number");
        let text = ApiError::malformed(&error).text;
        assert!(text.starts_with("invalid type: string \"xxx") && text.contains("expected u8 at line 1"), "{text}");
        assert!(text.chars().count() <= MAX_PARSER_CHARS + 1, "{text}");
    }
}
