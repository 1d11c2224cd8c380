//! Layers with sliding-window attention (Beltagy et al., arXiv 2004.05150).
//!
//! `attention.sliding_window` is the window size in tokens, including the row's own token.
//! `attention.sliding_window_pattern` selects the layers: a flag per layer, or a period `n` whose last layer has full
//! attention.

use cairn_gguf::{Array, Value};

use crate::error::LoadError;
use crate::hparams::{Hparams, Keys};

/// Sliding windows of a model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SlidingWindows {
    /// Window size in tokens, including the row's own token.
    pub(crate) tokens: u32,
    /// Whether each layer has the window.
    layers: Vec<bool>,
}

impl SlidingWindows {
    /// Reads the metadata. `tokens` and `period` are the family's defaults.
    pub(crate) fn read(
        keys: &Keys<'_>,
        hparams: &Hparams,
        tokens: Option<u32>,
        period: usize,
    ) -> Result<Option<Self>, LoadError> {
        const PATTERN: &str = "attention.sliding_window_pattern";
        let tokens = match keys.u32("attention.sliding_window")?.or(tokens) {
            None | Some(0) => return Ok(None),
            Some(tokens) => tokens,
        };
        let flags = match keys.get(PATTERN) {
            Some(Value::Array(Array::Bool(flags))) => flags.clone(),
            Some(Value::Array(Array::U32(flags))) => flags.iter().map(|&flag| flag != 0).collect(),
            Some(Value::Array(Array::I32(flags))) => flags.iter().map(|&flag| flag != 0).collect(),
            _ => {
                let period = keys.u32(PATTERN)?.map_or(period, |period| period as usize);
                (0..hparams.layers).map(|layer| period == 0 || layer % period != period - 1).collect()
            }
        };
        if flags.len() != hparams.layers {
            return Err(keys.invalid(PATTERN, format!("{} flags for {} layers", flags.len(), hparams.layers)));
        }
        Ok(Some(Self { tokens, layers: flags }))
    }

    pub(crate) fn applies(&self, layer: usize) -> bool {
        self.layers[layer]
    }
}
