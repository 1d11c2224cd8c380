//! `GET /app/speeds`: speeds of the installed models on this machine. `POST /app/hardware/measure` measures the kernels.

use serde::{Deserialize, Serialize};

/// Speeds of the installed models.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct SpeedsResponse {
    /// Models with a speed. Others do not answer, or nothing is measured yet.
    pub models: Vec<InstalledSpeed>,
    /// Whether the kernels are being measured, so that a later request has more speeds.
    pub measuring: bool,
}

/// Speed of an installed model.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct InstalledSpeed {
    /// Name of the model.
    pub model: String,
    /// Its speed.
    pub speed: Speed,
}

/// Speed of a model on this machine.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Speed {
    /// Speed of an answer, in a short context.
    pub answer: SpeedFigure,
    /// Speed at which a prompt is read.
    pub prompt: SpeedFigure,
}

/// A speed, measured or estimated.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct SpeedFigure {
    /// Tokens in a second.
    pub tokens_per_second: f64,
    /// Whether the model was measured on this machine. Else it is an estimate.
    pub measured: bool,
}

/// Measured rates of a kernel variant with weights of one type.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct KernelRate {
    /// The type, for example `Q4_K`.
    #[serde(rename = "type")]
    pub dtype: String,
    /// Bytes of weights that an answer reads in a second.
    pub decode_bytes_per_second: f64,
    /// Multiplications and additions, each counted, that a prompt computes in a second.
    pub prefill_operations_per_second: f64,
}
