//! Parts that only the Gemma generations share.

use cairn_tensor::{Glu, Op, RopeStyle};

use super::rope::{local_rope, rope};
use super::sliding_window::SlidingWindows;
use super::{Attention, GatedMlp, Norms, QueryKeyNorm, Stream, embed};
use crate::build::Builder;
use crate::error::LoadError;
use crate::hparams::{Hparams, Keys};

/// Returns the factor of attention scores, which depends on the head size. The 27B model, recognised by its number of
/// layers, uses embedding length / heads instead, which differs from its head size.
pub(crate) fn score_scale(hparams: &Hparams, layers_of_27b: Option<usize>) -> f32 {
    let is_27b = layers_of_27b == Some(hparams.layers);
    let width = if is_27b { hparams.embedding_length / hparams.heads } else { hparams.head_dim };
    1.0 / (width as f32).sqrt()
}

/// Reads the soft cap of scores or of logits. A file without the key has the default, and zero means none.
pub(crate) fn soft_cap(keys: &Keys<'_>, key: &str, default: f32) -> Result<Option<f32>, LoadError> {
    match keys.f32(key)? {
        None => Ok(Some(default)),
        Some(_) => keys.positive(key),
    }
}

/// Fills the residual stream with the batch's embeddings, multiplied by the square root of their width.
pub(crate) fn embed_scaled(b: &mut Builder<'_>, hparams: &Hparams, stream: &Stream) {
    embed(b, hparams, stream);
    b.push(Op::Scale { x: stream.residual, factor: (hparams.embedding_length as f32).sqrt() });
}

/// Adds the embeddings and layers of Gemma 3: heads of queries and keys are normalised, and five of six layers have a
/// sliding window with a separate rotation. Returns the residual stream behind them.
pub(crate) fn gemma3_layers(
    b: &mut Builder<'_>,
    hparams: &mut Hparams,
    layers_of_27b: Option<usize>,
) -> Result<Stream, LoadError> {
    let global = rope(b, hparams, RopeStyle::Half)?;
    let local = local_rope(b, hparams.head_dim, RopeStyle::Half, Some(10_000.0))?;
    let windows = SlidingWindows::read(&Keys::new(b.metadata())?, hparams, None, 6)?;
    let stream = Stream::new(b, hparams).norms(Norms::Both);
    let attention = Attention::new(b, hparams, global)
        .windows(windows, local)
        .norm(QueryKeyNorm::Head)
        .scale(score_scale(hparams, layers_of_27b));
    let mlp = GatedMlp::new(b, hparams).activation(Glu::Gelu);
    embed_scaled(b, hparams, &stream);
    for layer in 0..hparams.layers {
        attention.push(b, hparams, &stream, layer);
        mlp.push(b, hparams, &stream, layer);
    }
    Ok(stream)
}
