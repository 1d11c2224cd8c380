//! Which layers see a window only (sliding-window attention: Beltagy et al., arXiv 2004.05150).
//!
//! `attention.sliding_window` is the window, in tokens, the row's own among them; `attention.sliding_window_pattern` says which
//! layers have it: a flag for each, or a period `n` of which the last layer sees everything.

use cairn_gguf::{Array, Value};

use crate::error::LoadError;
use crate::hparams::{Hparams, Keys};

/// The windows of a model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Windows {
    /// The last so many positions are seen, the row's own among them.
    pub(crate) tokens: u32,
    /// For each layer whether it has the window.
    layers: Vec<bool>,
}

impl Windows {
    /// What the metadata say; a family's own period where they do not, and its own window where it has one.
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
            return Err(keys.wrong(PATTERN, format!("{} flags for {} layers", flags.len(), hparams.layers)));
        }
        Ok(Some(Self { tokens, layers: flags }))
    }

    pub(crate) fn applies(&self, layer: usize) -> bool {
        self.layers[layer]
    }
}
