//! EXAONE 4 (arXiv 2507.11407): parts normalise their output, not their input, and each head of queries and keys is
//! normalised before it is rotated. In the model of 32 billion weights three of four layers have a sliding window, and the
//! others have no rotation.

use cairn_tensor::RopeStyle;

use super::Architecture;
use crate::block::rope::rope;
use crate::block::sliding_window::SlidingWindows;
use crate::block::{Attention, GatedMlp, Norms, QueryKeyNorm, Stream, embed, logits};
use crate::build::Builder;
use crate::error::LoadError;
use crate::hparams::{Hparams, Keys};

/// Layers of the model of 32 billion weights.
const LAYERS_OF_32B: usize = 64;

pub(super) struct Exaone4;

impl Architecture for Exaone4 {
    fn names(&self) -> &'static [&'static str] {
        &["exaone4"]
    }

    fn build(&self, b: &mut Builder<'_>) -> Result<Hparams, LoadError> {
        let mut hparams = Hparams::read(b)?;
        let rope = rope(b, &mut hparams, RopeStyle::Half)?;
        let tokens = (hparams.layers == LAYERS_OF_32B).then_some(4096);
        let windows = SlidingWindows::read(&Keys::new(b.metadata())?, &hparams, tokens, 4)?;
        let global = windows.is_none().then_some(rope);
        let stream = Stream::new(b, &hparams).norms(Norms::After);
        let attention = Attention::new(b, &hparams, global).norm(QueryKeyNorm::Head).windows(windows, rope);
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
