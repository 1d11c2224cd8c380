//! Parts that only the Gemma generations share.

use cairn_tensor::Op;

use super::{Stream, embed};
use crate::build::Builder;
use crate::hparams::Hparams;

/// Returns the factor of attention scores, which depends on the head size. The 27B model, recognised by its number of
/// layers, uses embedding length / heads instead, which differs from its head size.
pub(crate) fn score_scale(hparams: &Hparams, layers_of_27b: usize) -> f32 {
    let width =
        if hparams.layers == layers_of_27b { hparams.embedding_length / hparams.heads } else { hparams.head_dim };
    1.0 / (width as f32).sqrt()
}

/// Fills the residual stream with the batch's embeddings, multiplied by the square root of their width.
pub(crate) fn embed_scaled(b: &mut Builder<'_>, hparams: &Hparams, stream: &Stream) {
    embed(b, hparams, stream);
    b.push(Op::Scale { x: stream.residual, factor: (hparams.embedding_length as f32).sqrt() });
}
