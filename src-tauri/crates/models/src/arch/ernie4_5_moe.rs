//! ERNIE 4.5 with experts (<https://yiyan.baidu.com/blog/publication/ERNIE_Technical_Report.pdf>): llama with MLPs in the first
//! layers, then experts chosen by a softmax with a bias, and a shared expert.

use cairn_tensor::RopeStyle;

use super::Architecture;
use crate::block::rope::rope;
use crate::block::{Attention, Experts, GatedMlp, SharedExpert, SparseMlp, Stream, embed, logits};
use crate::build::Builder;
use crate::error::LoadError;
use crate::hparams::Hparams;

pub(super) struct Ernie45Moe;

impl Architecture for Ernie45Moe {
    fn names(&self) -> &'static [&'static str] {
        &["ernie4_5-moe"]
    }

    fn build(&self, b: &mut Builder<'_>) -> Result<Hparams, LoadError> {
        let mut hparams = Hparams::read(b)?;
        let rope = rope(b, &mut hparams, RopeStyle::Interleaved)?;
        let stream = Stream::new(b, &hparams);
        let attention = Attention::new(b, &hparams, rope);
        let mlp = GatedMlp::new(b, &hparams);
        let shared = SharedExpert::new(b, &hparams, None)?;
        let experts = Experts::new(b, &hparams, None)?.choice_bias().scale_of_file(b)?.shared(shared);
        let mlp = SparseMlp::new(b, &hparams, mlp, experts)?;
        embed(b, &hparams, &stream);
        for layer in 0..hparams.layers {
            attention.push(b, &hparams, &stream, layer);
            mlp.push(b, &hparams, &stream, layer);
        }
        logits(b, &hparams, &stream);
        Ok(hparams)
    }
}
