//! Nomic Embed (Nussbaum et al., arXiv 2402.01613): BERT with rotary positions, a gated MLP and no biases in matrices.

use cairn_tensor::RopeStyle;

use super::{embed_sum, hparams, output, refuse};
use crate::arch::Architecture;
use crate::block::rope::rope;
use crate::block::{Attention, GatedMlp, Norms, Stream};
use crate::build::Builder;
use crate::error::LoadError;
use crate::hparams::{Hparams, Keys, NormKind};

/// Biases that every file has.
const BIASES: &[&str] = &["token_embd_norm", "attn_output_norm", "layer_output_norm"];

pub(super) struct NomicBert;

impl Architecture for NomicBert {
    fn names(&self) -> &'static [&'static str] {
        &["nomic-bert"]
    }

    fn build(&self, b: &mut Builder<'_>) -> Result<Hparams, LoadError> {
        let mut hparams = hparams(b, NormKind::Layer)?;
        refuse(&Keys::new(b.metadata())?, "moe_every_n_layers", "nomic-bert with experts")?;
        b.require_biases(BIASES);
        let rope = rope(b, &mut hparams, RopeStyle::Half)?;
        let stream = Stream::new(b, &hparams).norms(Norms::Sum);
        let attention = Attention::new(b, &hparams, rope).fused();
        let mlp = GatedMlp::new(b, &hparams);
        embed_sum(b, &hparams, &stream, false);
        for layer in 0..hparams.layers {
            attention.push(b, &hparams, &stream, layer);
            mlp.push(b, &hparams, &stream, layer);
        }
        output(b, &hparams, &stream)?;
        Ok(hparams)
    }
}
