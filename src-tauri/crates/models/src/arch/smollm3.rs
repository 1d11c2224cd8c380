//! SmolLM 3 (<https://huggingface.co/blog/smollm3>): like llama, but every fourth layer has no rotation (Yang et al.,
//! arXiv 2501.18795).

use cairn_tensor::RopeStyle;

use super::Architecture;
use crate::block::rope::rope;
use crate::block::{Attention, GatedMlp, Stream, embed, logits};
use crate::build::Builder;
use crate::error::LoadError;
use crate::hparams::Hparams;

/// Layers from one without rotation to the next, which metadata does not contain.
const UNROTATED_PERIOD: usize = 4;

pub(super) struct SmolLm3;

impl Architecture for SmolLm3 {
    fn names(&self) -> &'static [&'static str] {
        &["smollm3"]
    }

    fn build(&self, b: &mut Builder<'_>) -> Result<Hparams, LoadError> {
        let mut hparams = Hparams::read(b)?;
        let rope = rope(b, &mut hparams, RopeStyle::Interleaved)?;
        let stream = Stream::new(b, &hparams);
        let attention = Attention::new(b, &hparams, rope).unrotated_period(UNROTATED_PERIOD);
        let mlp = GatedMlp::new(b, &hparams);
        embed(b, &hparams, &stream);
        for layer in 0..hparams.layers {
            attention.push(b, &hparams, &stream, layer);
            mlp.push(b, &hparams, &stream, layer);
        }
        logits(b, &hparams, &stream);
        Ok(hparams)
    }
}
