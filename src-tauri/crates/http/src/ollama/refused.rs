//! What requests may ask for and this version cannot do. It is refused, because half an answer looks like a whole one.

use cairn_app::library::Error;
use serde_json::Value;

use crate::error::ApiError;

/// Refuses the first of these that was asked for.
pub(super) fn refuse(asked: &[(bool, &'static str)]) -> Result<(), ApiError> {
    match asked.iter().find(|(asked, _)| *asked) {
        Some((_, what)) => Err(Error::Unsupported(what).into()),
        None => Ok(()),
    }
}

/// Refuses the first of these that was asked for, with what to do in its place.
pub(super) fn refuse_for(asked: &[(bool, &'static str, &'static str)]) -> Result<(), ApiError> {
    match asked.iter().find(|(asked, ..)| *asked) {
        Some((_, what, instead)) => Err(Error::Instead { what, instead }.into()),
        None => Ok(()),
    }
}

/// Does `format` ask for anything? An empty text is how some clients say no.
pub(super) fn asks_for_format(format: Option<&Value>) -> bool {
    !matches!(format, None | Some(Value::Null)) && format.and_then(Value::as_str) != Some("")
}

/// The range of `top_logprobs`, which is checked before anything else.
pub(super) fn check_top_logprobs(top_logprobs: Option<i64>) -> Result<(), ApiError> {
    match top_logprobs {
        Some(count) if !(0..=20).contains(&count) => {
            Err(ApiError::bad_request("top_logprobs must be between 0 and 20"))
        }
        _ => Ok(()),
    }
}

/// Is there anything in the list?
pub(super) fn any<T>(list: Option<&Vec<T>>) -> bool {
    list.is_some_and(|list| !list.is_empty())
}
