//! Request bodies, JSON and files, and their limits. As in Ollama, the content type is ignored.
//!
//! A route limits the bytes of its body, and [`BodyMemory`] those of all bodies together, so that many clients that send slowly
//! cannot exhaust memory. The number of JSON values is limited before parsing, because `{}` has two bytes and
//! becomes a message of hundreds.

use std::time::Duration;

use axum::body::BodyDataStream;
use axum::extract::{FromRequest, Request};
use axum::http::{HeaderMap, StatusCode, header};
use cairn_wire::ErrorCode;
use serde::de::DeserializeOwned;
use tokio::time::Instant;
use tokio_stream::StreamExt;

use crate::body_memory::BodyMemory;
use crate::error::ApiError;

/// Limits of a route's body, as an extension of the request.
#[derive(Debug, Clone, Copy)]
pub(crate) struct BodyLimit {
    bytes: usize,
    /// JSON values, including objects.
    values: usize,
    objects: usize,
}

impl BodyLimit {
    /// A request without a token.
    pub(crate) const TINY: Self = Self { bytes: 1 << 10, ..Self::DEFAULT };
    /// Names, settings and system prompts.
    pub(crate) const DEFAULT: Self = Self { bytes: 1 << 20, values: 1 << 20, objects: 1 << 17 };
    /// A Modelfile with its messages and licences.
    pub(crate) const MODELFILE: Self = Self { bytes: 16 << 20, ..Self::DEFAULT };
    /// Prompts with images in base64.
    pub(crate) const PROMPT: Self = Self { bytes: 64 << 20, ..Self::DEFAULT };
    /// A document.
    pub(crate) const DOCUMENT: Self = Self { bytes: 128 << 20, ..Self::DEFAULT };
    /// An export of all chats.
    pub(crate) const EXPORT: Self = Self { bytes: 256 << 20, values: 1 << 24, objects: 1 << 21 };

    /// The extension that sets the limits of a route.
    pub(crate) fn layer(self) -> axum::Extension<Self> {
        axum::Extension(self)
    }

    /// Bytes of the largest body.
    pub(crate) const fn bytes(&self) -> usize {
        self.bytes
    }

    /// Counts JSON values outside of strings: each but the first of an array or object follows a comma or colon.
    fn check_values(&self, json: &[u8]) -> Result<(), ApiError> {
        let (mut values, mut objects, mut in_string, mut escaped) = (1, 0, false, false);
        for byte in json {
            match byte {
                _ if escaped => escaped = false,
                b'\\' if in_string => escaped = true,
                b'"' => in_string = !in_string,
                _ if in_string => {}
                b'{' => {
                    objects += 1;
                    values += 1;
                }
                b'[' | b',' | b':' => values += 1,
                _ => {}
            }
        }
        match values > self.values || objects > self.objects {
            true => Err(too_large(format!(
                "the request body has {values} JSON values and {objects} objects; the limits are {} and {}",
                self.values, self.objects
            ))),
            false => Ok(()),
        }
    }
}

/// Bytes of a refused body that are discarded. After that the connection is closed.
pub(crate) const DRAIN_BYTES: u64 = 64 << 20;
/// Time to discard them.
const DRAIN_TIME: Duration = Duration::from_secs(60);

/// Extractor of a JSON body. Unknown fields are ignored.
pub(crate) struct Body<T>(pub(crate) T);

impl<S: Send + Sync, T: DeserializeOwned> FromRequest<S> for Body<T> {
    type Rejection = ApiError;

    async fn from_request(request: Request, state: &S) -> Result<Self, ApiError> {
        JsonBytes::from_request(request, state).await?.parse().map(Self)
    }
}

/// Extractor of the bytes of a JSON body, for requests that may be passed on as they are.
pub(crate) struct JsonBytes {
    pub(crate) json: Vec<u8>,
    _memory: BodyMemory,
}

impl JsonBytes {
    /// Parses the body.
    pub(crate) fn parse<T: DeserializeOwned>(&self) -> Result<T, ApiError> {
        serde_json::from_slice(&self.json).map_err(|error| ApiError::malformed(&error))
    }
}

impl<S: Send + Sync> FromRequest<S> for JsonBytes {
    type Rejection = ApiError;

    async fn from_request(request: Request, _: &S) -> Result<Self, ApiError> {
        let (json, limit, memory) = read_within_limit(request).await?;
        if json.iter().all(u8::is_ascii_whitespace) {
            let text = "missing request body";
            return Err(ApiError::new(StatusCode::BAD_REQUEST, ErrorCode::MissingBody, text));
        }
        // Serde would read a list as the fields of an object in the order of their declaration.
        if json.trim_ascii_start().starts_with(b"[") {
            return Err(ApiError::bad_request("cannot decode the request body: expected a JSON object, found a list"));
        }
        limit.check_values(&json)?;
        Ok(Self { json, _memory: memory })
    }
}

/// Extractor of the bytes of a file. The handler drops the memory with the bytes.
pub(crate) struct FileBytes {
    pub(crate) bytes: Vec<u8>,
    pub(crate) memory: BodyMemory,
}

impl<S: Send + Sync> FromRequest<S> for FileBytes {
    type Rejection = ApiError;

    async fn from_request(request: Request, _: &S) -> Result<Self, ApiError> {
        let (bytes, _, memory) = read_within_limit(request).await?;
        match bytes.is_empty() {
            true => Err(ApiError::new(StatusCode::BAD_REQUEST, ErrorCode::MissingBody, "missing request body")),
            false => Ok(Self { bytes, memory }),
        }
    }
}

/// Reads the body of a request within the limits of its route.
async fn read_within_limit(request: Request) -> Result<(Vec<u8>, BodyLimit, BodyMemory), ApiError> {
    let limit = request.extensions().get::<BodyLimit>().copied().unwrap_or(BodyLimit::DEFAULT);
    let memory = request.extensions().get::<BodyMemory>().cloned().unwrap_or_default();
    let expected = content_length(request.headers());
    let mut chunks = request.into_body().into_data_stream();
    let read = match expected {
        Some(bytes) if bytes > limit.bytes => Err(over_limit(&limit)),
        _ => read(&mut chunks, &limit, &memory).await,
    };
    match read {
        Ok(bytes) => Ok((bytes, limit, memory)),
        Err(error) => {
            tokio::spawn(tokio::time::timeout(DRAIN_TIME, async move { drain(&mut chunks, DRAIN_BYTES).await }));
            Err(error)
        }
    }
}

/// Time of a body beside that for its bytes.
const BODY_TIME: Duration = Duration::from_secs(60);
/// Bytes that a body needs in each second. A slower one would hold its memory for long.
const LEAST_BYTES_PER_SECOND: u64 = 64 << 10;

/// Reads a body, and takes the memory for its bytes.
async fn read(chunks: &mut BodyDataStream, limit: &BodyLimit, memory: &BodyMemory) -> Result<Vec<u8>, ApiError> {
    let (mut json, began) = (Vec::new(), Instant::now());
    while let Some(chunk) = chunks.next().await {
        let chunk = chunk.map_err(|_| {
            ApiError::new(StatusCode::BAD_REQUEST, ErrorCode::InvalidRequest, "cannot read the request body")
        })?;
        if json.len() + chunk.len() > limit.bytes {
            return Err(over_limit(limit));
        }
        json.extend_from_slice(&chunk);
        if began.elapsed() > BODY_TIME + Duration::from_secs(json.len() as u64 / LEAST_BYTES_PER_SECOND) {
            return Err(too_slow());
        }
        memory.grow(json.len(), limit.bytes)?;
    }
    Ok(json)
}

/// Discards the rest of an unneeded body, at most `limit_bytes`. Clients read the response only after they have sent the
/// body: without this, the connection would be closed, and the client would report that instead of the response.
pub(crate) async fn drain(chunks: &mut BodyDataStream, limit_bytes: u64) {
    let mut left = limit_bytes;
    while let Some(Ok(chunk)) = chunks.next().await {
        let Some(rest) = left.checked_sub(chunk.len() as u64) else { return };
        left = rest;
    }
}

fn content_length(headers: &HeaderMap) -> Option<usize> {
    headers.get(header::CONTENT_LENGTH)?.to_str().ok()?.parse().ok()
}

fn over_limit(limit: &BodyLimit) -> ApiError {
    too_large(format!("request body too large: the limit of this path is {} bytes", limit.bytes))
}

fn too_large(text: String) -> ApiError {
    ApiError::new(StatusCode::PAYLOAD_TOO_LARGE, ErrorCode::BodyTooLarge, text)
}

fn too_slow() -> ApiError {
    let text = "the request body arrives too slowly: at least 64 KiB in each second are needed";
    ApiError::new(StatusCode::REQUEST_TIMEOUT, ErrorCode::InvalidRequest, text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_values_are_counted_outside_of_strings() {
        let check = |json: &str, values: usize, objects: usize| {
            let accepts = |values, objects| {
                BodyLimit { bytes: usize::MAX, values, objects }.check_values(json.as_bytes()).is_ok()
            };
            assert!(accepts(values, objects), "{json}: {values} values and {objects} objects");
            assert!(!accepts(values - 1, objects), "{json}: {} values", values - 1);
            assert!(objects == 0 || !accepts(values, objects - 1), "{json}: {} objects", objects - 1);
        };
        check("1", 1, 0);
        check("[{},{},{}]", 7, 3);
        check(r#"{"a":"{{[[,,","b":"\"{","c":"\\"}"#, 7, 1);
    }
}
