//! Gemma (arXiv 2403.08295): like llama, with an MLP that is gated by GELU, embeddings that are multiplied by the square
//! root of their width, and RoPE over halves.

use cairn_tensor::{Glu, RopeStyle};

use super::Architecture;
use crate::block::gemma::embed_scaled;
use crate::block::rope::rope;
use crate::block::{Attention, GatedMlp, Stream, logits};
use crate::build::Builder;
use crate::error::LoadError;
use crate::hparams::Hparams;

pub(super) struct Gemma;

impl Architecture for Gemma {
    fn names(&self) -> &'static [&'static str] {
        &["gemma"]
    }

    fn build(&self, b: &mut Builder<'_>) -> Result<Hparams, LoadError> {
        let mut hparams = Hparams::read(b)?;
        let rope = rope(b, &mut hparams, RopeStyle::Half)?;
        let stream = Stream::new(b, &hparams);
        let attention = Attention::new(b, &hparams, rope);
        let mlp = GatedMlp::new(b, &hparams).activation(Glu::Gelu);
        embed_scaled(b, &hparams, &stream);
        for layer in 0..hparams.layers {
            attention.push(b, &hparams, &stream, layer);
            mlp.push(b, &hparams, &stream, layer);
        }
        logits(b, &hparams, &stream);
        Ok(hparams)
    }
}
