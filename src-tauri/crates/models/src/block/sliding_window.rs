//! Layers with sliding-window attention (Beltagy et al., arXiv 2004.05150).
//!
//! `attention.sliding_window` is the window size in tokens, including the row's own token.
//! `attention.sliding_window_pattern` selects the layers: a flag per layer, or a period `n` whose last layer has full
//! attention. Instead of a window, layers may attend to chunks (Llama 4): `attention.chunk_size` tokens each, from a
//! multiple of it.

use cairn_gguf::{Array, Value};
use cairn_tensor::StateKind;

use crate::error::LoadError;
use crate::hparams::{Hparams, Keys};

/// Sliding windows or chunks of a model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SlidingWindows {
    /// Size of windows or chunks in tokens, including the row's own token.
    pub(crate) tokens: u32,
    is_chunked: bool,
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
        match keys.u32("attention.sliding_window")?.or(tokens) {
            None | Some(0) => Ok(None),
            Some(tokens) => Self::in_layers(keys, hparams, tokens, period).map(Some),
        }
    }

    /// Reads the size of chunks, `attention.chunk_size`. `tokens` and `period` are the family's defaults.
    pub(crate) fn chunks(keys: &Keys<'_>, hparams: &Hparams, tokens: u32, period: usize) -> Result<Self, LoadError> {
        let tokens = keys.count("attention.chunk_size", Some(tokens), u32::MAX)? as u32;
        Ok(Self { is_chunked: true, ..Self::in_layers(keys, hparams, tokens, period)? })
    }

    fn in_layers(keys: &Keys<'_>, hparams: &Hparams, tokens: u32, period: usize) -> Result<Self, LoadError> {
        const PATTERN: &str = "attention.sliding_window_pattern";
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
        Ok(Self { tokens, is_chunked: false, layers: flags })
    }

    /// Returns the state of the layers with windows or chunks.
    pub(crate) fn state(&self) -> StateKind {
        if self.is_chunked { StateKind::Chunk(self.tokens) } else { StateKind::Window(self.tokens) }
    }

    pub(crate) fn applies(&self, layer: usize) -> bool {
        self.layers[layer]
    }
}
