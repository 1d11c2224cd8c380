//! Rejection of unsupported request fields. Ignoring them would return a wrong answer without an error.

use cairn_app::library::Error;

use crate::error::ApiError;

/// Rejects the first requested feature of a list of `(is requested, feature)`.
pub(super) fn reject(features: &[(bool, &'static str)]) -> Result<(), ApiError> {
    match features.iter().find(|(is_requested, _)| *is_requested) {
        Some((_, feature)) => Err(Error::Unsupported(feature).into()),
        None => Ok(()),
    }
}

/// Rejects the first requested feature of a list of `(is requested, feature, alternative)`.
pub(super) fn reject_with_advice(features: &[(bool, &'static str, &'static str)]) -> Result<(), ApiError> {
    match features.iter().find(|(is_requested, ..)| *is_requested) {
        Some((_, what, instead)) => Err(Error::Instead { what, instead }.into()),
        None => Ok(()),
    }
}

/// Checks the range of `top_logprobs`. As in Ollama, this check comes before all others.
pub(crate) fn check_top_logprobs(top_logprobs: Option<i64>) -> Result<(), ApiError> {
    match top_logprobs {
        Some(count) if !(0..=20).contains(&count) => {
            Err(ApiError::bad_request("top_logprobs must be between 0 and 20"))
        }
        _ => Ok(()),
    }
}

/// Returns whether a list is present and not empty.
pub(super) fn any<T>(list: Option<&Vec<T>>) -> bool {
    list.is_some_and(|list| !list.is_empty())
}
