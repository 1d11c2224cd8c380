//! Gemma 2 (arXiv 2408.00118): parts normalise input and output, every second layer has a sliding window, scores and
//! logits have soft caps, the MLP is gated by GELU, and embeddings are multiplied by the square root of their width.

use cairn_tensor::{Glu, Op, RopeStyle};

use super::Architecture;
use crate::block::gemma::{embed_scaled, score_scale, soft_cap};
use crate::block::rope::rope;
use crate::block::sliding_window::SlidingWindows;
use crate::block::{Attention, GatedMlp, Norms, Stream, logits};
use crate::build::Builder;
use crate::error::LoadError;
use crate::hparams::{Hparams, Keys};

/// Layers of the model of 27 billion weights.
const LAYERS_OF_27B: usize = 46;

pub(super) struct Gemma2;

impl Architecture for Gemma2 {
    fn names(&self) -> &'static [&'static str] {
        &["gemma2"]
    }

    fn build(&self, b: &mut Builder<'_>) -> Result<Hparams, LoadError> {
        let mut hparams = Hparams::read(b)?;
        let keys = Keys::new(b.metadata())?;
        let rope = rope(b, &mut hparams, RopeStyle::Half)?;
        let windows = SlidingWindows::read(&keys, &hparams, Some(4096), 2)?;
        let stream = Stream::new(b, &hparams).norms(Norms::Both);
        let attention = Attention::new(b, &hparams, rope)
            .windows(windows, rope)
            .scale(score_scale(&hparams, Some(LAYERS_OF_27B)))
            .softcap(soft_cap(&keys, "attn_logit_softcapping", 50.0)?);
        let mlp = GatedMlp::new(b, &hparams).activation(Glu::Gelu);
        embed_scaled(b, &hparams, &stream);
        for layer in 0..hparams.layers {
            attention.push(b, &hparams, &stream, layer);
            mlp.push(b, &hparams, &stream, layer);
        }
        let x = logits(b, &hparams, &stream);
        if let (Some(x), Some(cap)) = (x, soft_cap(&keys, "final_logit_softcapping", 30.0)?) {
            b.push(Op::Softcap { x, cap });
        }
        Ok(hparams)
    }
}
