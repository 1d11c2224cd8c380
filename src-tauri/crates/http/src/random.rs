//! Random tokens and identifiers.

use axum::http::StatusCode;
use cairn_wire::ErrorCode;

use crate::error::ApiError;

/// Length of an identifier.
const ID_DIGITS: usize = 24;

/// Returns 128 random bits as 32 hexadecimal digits.
pub(crate) fn hex() -> Result<String, getrandom::Error> {
    let mut bytes = [0_u8; 16];
    getrandom::fill(&mut bytes)?;
    Ok(hex::encode(bytes))
}

/// Returns the random part of a response's identifier.
pub(crate) fn id() -> Result<String, ApiError> {
    let mut digits = hex().map_err(|error| {
        ApiError::new(StatusCode::INTERNAL_SERVER_ERROR, ErrorCode::Internal, format!("no random numbers: {error}"))
    })?;
    digits.truncate(ID_DIGITS);
    Ok(digits)
}
