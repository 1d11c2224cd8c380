//! Hunyuan, dense (<https://github.com/Tencent-Hunyuan/Hunyuan-7B>): like llama, but each head of queries and keys is
//! normalised after it is rotated, and RoPE pairs the two halves of a head.

use cairn_tensor::RopeStyle;

use super::Architecture;
use crate::block::rope::rope;
use crate::block::{Attention, GatedMlp, QueryKeyNorm, Stream, embed, logits};
use crate::build::Builder;
use crate::error::LoadError;
use crate::hparams::Hparams;

pub(super) struct HunyuanDense;

impl Architecture for HunyuanDense {
    fn names(&self) -> &'static [&'static str] {
        &["hunyuan-dense"]
    }

    fn build(&self, b: &mut Builder<'_>) -> Result<Hparams, LoadError> {
        let mut hparams = Hparams::read(b)?;
        let rope = rope(b, &mut hparams, RopeStyle::Half)?;
        let stream = Stream::new(b, &hparams);
        let attention = Attention::new(b, &hparams, rope).norm(QueryKeyNorm::RotatedHead);
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
