//! MLPs in the first layers and experts in others (DeepSeekMoE, arXiv 2401.06066, section 4.1): early layers learn to route late.

use super::{Experts, GatedMlp, Stream};
use crate::build::Builder;
use crate::error::LoadError;
use crate::hparams::{Hparams, Keys};

/// The MLPs and the experts of a model.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SparseMlp {
    mlp: GatedMlp,
    experts: Experts,
    /// Number of first layers with an MLP.
    dense_layers: usize,
    /// Every such layer after them has experts.
    step: usize,
}

impl SparseMlp {
    /// Reads which layers have experts: `leading_dense_block_count` and `interleave_moe_layer_step`.
    pub(crate) fn new(b: &Builder<'_>, hparams: &Hparams, mlp: GatedMlp, experts: Experts) -> Result<Self, LoadError> {
        let keys = Keys::new(b.metadata())?;
        let dense_layers = keys.u32("leading_dense_block_count")?.unwrap_or(0) as usize;
        let step = keys.count("interleave_moe_layer_step", Some(1), hparams.layers as u32)?;
        Ok(Self { mlp, experts, dense_layers, step })
    }

    /// Adds the part of a layer.
    pub(crate) fn push(&self, b: &mut Builder<'_>, hparams: &Hparams, stream: &Stream, layer: usize) {
        if layer >= self.dense_layers && (layer + 1).is_multiple_of(self.step) {
            self.experts.push(b, hparams, stream, layer);
        } else {
            self.mlp.push(b, hparams, stream, layer);
        }
    }
}
