//! OLMo 2 (arXiv 2501.00656) and OLMo 3: parts normalise their output, not their input; queries and keys are
//! normalised over all heads together. In OLMo 3 three of four layers have a sliding window with an unscaled rotation.

use cairn_tensor::RopeStyle;

use super::Architecture;
use crate::block::rope::{local_rope, rope};
use crate::block::sliding_window::SlidingWindows;
use crate::block::{Attention, GatedMlp, Norms, QueryKeyNorm, Stream, embed, logits};
use crate::build::Builder;
use crate::error::LoadError;
use crate::hparams::{Hparams, Keys};

pub(super) struct Olmo2;

impl Architecture for Olmo2 {
    fn names(&self) -> &'static [&'static str] {
        &["olmo2"]
    }

    fn build(&self, b: &mut Builder<'_>) -> Result<Hparams, LoadError> {
        let mut hparams = Hparams::read(b)?;
        let rope = rope(b, &mut hparams, RopeStyle::Half)?;
        let local = local_rope(b, hparams.head_dim, RopeStyle::Half, None)?;
        let windows = SlidingWindows::read(&Keys::new(b.metadata())?, &hparams, None, 4)?;
        let stream = Stream::new(b, &hparams).norms(Norms::After);
        let attention = Attention::new(b, &hparams, rope).norm(QueryKeyNorm::Row).windows(windows, local);
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
