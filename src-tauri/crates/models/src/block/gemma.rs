//! What the generations of Gemma have in common beside the parts that others have too.

use cairn_tensor::Op;

use super::{Stream, embed};
use crate::build::Builder;
use crate::hparams::Hparams;

/// Factor on attention's scores, by the width of a head. The model of 27 billion weights, which is told by its layers, takes
/// the stream's width per head instead; its heads have another.
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
