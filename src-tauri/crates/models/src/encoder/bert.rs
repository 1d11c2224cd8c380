//! BERT (arXiv 1810.04805) and models of its structure, such as MiniLM, BGE, E5 and their cross-encoders: learned
//! positions, LayerNorm of the sum of the stream and each part, an MLP without a gate.

use super::{embed_sum, hparams, output};
use crate::arch::Architecture;
use crate::block::{Attention, Norms, PlainMlp, Stream};
use crate::build::Builder;
use crate::error::LoadError;
use crate::hparams::{Hparams, Keys, NormKind};

/// Biases that every file has.
const BIASES: &[&str] = &[
    "token_embd_norm",
    "attn_q",
    "attn_k",
    "attn_v",
    "attn_output",
    "attn_output_norm",
    "ffn_up",
    "ffn_down",
    "layer_output_norm",
];

pub(super) struct Bert;

impl Architecture for Bert {
    fn names(&self) -> &'static [&'static str] {
        &["bert"]
    }

    fn build(&self, b: &mut Builder<'_>) -> Result<Hparams, LoadError> {
        let hparams = hparams(b, NormKind::Layer)?;
        b.require_biases(BIASES);
        let stream = Stream::new(b, &hparams).norms(Norms::Sum);
        let attention = Attention::new(b, &hparams, None);
        let mlp = PlainMlp::new(b, &hparams);
        let mlp = if has_tanh(&Keys::new(b.metadata())?)? { mlp } else { mlp.erf() };
        embed_sum(b, &hparams, &stream, true);
        for layer in 0..hparams.layers {
            attention.push(b, &hparams, &stream, layer);
            mlp.push(b, &hparams, &stream, layer);
        }
        output(b, &hparams, &stream)?;
        Ok(hparams)
    }
}

/// Returns whether GELU is computed with tanh. Files without the key compute it with the error function.
fn has_tanh(keys: &Keys<'_>) -> Result<bool, LoadError> {
    const KEY: &str = "hidden_activation";
    match keys.str(KEY)? {
        None | Some("gelu") => Ok(false),
        Some("gelu_pytorch_tanh") => Ok(true),
        Some(other) => Err(keys.invalid(KEY, format!("{other:?} is not \"gelu\" or \"gelu_pytorch_tanh\""))),
    }
}
