//! Errors of measurements.

/// Why the kernels were not measured.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A model computes.
    #[error("cannot measure the kernels while a model computes an answer; measure again when it is done")]
    Busy,
    /// The system refused it.
    #[error("cannot measure the kernels: {0}")]
    Failed(String),
}

impl From<cairn_runtime::RatesError> for Error {
    fn from(error: cairn_runtime::RatesError) -> Self {
        match error {
            cairn_runtime::RatesError::Busy => Self::Busy,
            other => Self::Failed(other.to_string()),
        }
    }
}
