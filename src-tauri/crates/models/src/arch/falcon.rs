//! Falcon 7B, 40B and 180B (arXiv 2311.16867): attention and MLP in parallel, LayerNorm with biases, no biases in
//! projections, queries, keys and values in one tensor, an MLP without a gate, RoPE over halves. In 40B and 180B attention
//! has its own norm.
//!
//! GELU is computed with tanh, as in llama.cpp. The models were trained with the error function.

use cairn_tensor::RopeStyle;

use super::Architecture;
use crate::block::rope::rope;
use crate::block::{Attention, PlainMlp, Stream, embed, logits};
use crate::build::Builder;
use crate::error::LoadError;
use crate::hparams::{Hparams, NormKind};

/// Biases that llama.cpp requires.
const BIASES: &[&str] = &["attn_norm", "output_norm"];

/// The norm of attention if it has its own.
const OWN_NORM: &str = "attn_norm_2";

pub(super) struct Falcon;

impl Architecture for Falcon {
    fn names(&self) -> &'static [&'static str] {
        &["falcon"]
    }

    fn build(&self, b: &mut Builder<'_>) -> Result<Hparams, LoadError> {
        let mut hparams = Hparams::read_with(b, NormKind::Layer)?;
        b.require_biases(BIASES);
        let rope = rope(b, &mut hparams, RopeStyle::Half)?;
        let stream = Stream::new(b, &hparams).parallel(b, &hparams);
        let own = b.has_tensor(&format!("blk.0.{OWN_NORM}.weight")).then(|| stream.parallel(b, &hparams));
        let attention = Attention::new(b, &hparams, rope).fused();
        let mlp = PlainMlp::new(b, &hparams);
        embed(b, &hparams, &stream);
        for layer in 0..hparams.layers {
            stream.fill(b, "attn_norm", layer);
            own.iter().for_each(|own| own.fill(b, OWN_NORM, layer));
            attention.push(b, &hparams, own.as_ref().unwrap_or(&stream), layer);
            mlp.push(b, &hparams, &stream, layer);
        }
        logits(b, &hparams, &stream);
        Ok(hparams)
    }
}
