//! Images in requests. Their text is decoded before anything else is checked, so that a broken image is not taken for a model
//! without vision.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use cairn_app::inference::Image;
use serde_json::Value;

use crate::error::ApiError;

/// Decodes an image in base64.
pub(crate) fn decode(text: &str) -> Result<Image, ApiError> {
    match STANDARD.decode(text) {
        Ok(bytes) if !bytes.is_empty() => Ok(Image { bytes }),
        Ok(_) => Err(ApiError::bad_request("an image is empty")),
        Err(error) => Err(ApiError::bad_request(format!("an image is not valid base64: {error}"))),
    }
}

/// Decodes the image in a `data:` URL.
pub(crate) fn of_url(url: &str) -> Result<Image, ApiError> {
    // The scheme and the encoding are not case-sensitive (RFC 2397, RFC 3986).
    let data = url.split_once(',').and_then(|(head, data)| {
        let head = head.to_ascii_lowercase();
        (head.starts_with("data:") && head.ends_with(";base64")).then_some(data)
    });
    match data {
        Some(text) => decode(text),
        None => {
            Err(ApiError::bad_request("an image must be in a data: URL with base64; this server fetches no images"))
        }
    }
}

/// Decodes a list of images in base64.
pub(crate) fn of_list(list: Option<Vec<Value>>) -> Result<Vec<Image>, ApiError> {
    let decode = |image: &Value| {
        let text = image.as_str().ok_or_else(|| ApiError::bad_request("an image must be a text in base64"))?;
        decode(text)
    };
    list.unwrap_or_default().iter().map(decode).collect()
}
