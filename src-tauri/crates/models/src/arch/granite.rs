//! Granite 3 (<https://github.com/ibm-granite/granite-3.0-language-models/blob/main/paper.pdf>): llama with four
//! factors from maximal update parametrisation (Yang et al., arXiv 2203.03466), on embeddings, attention scores,
//! outputs of parts, and logits. Some models have experts instead of MLPs, and perhaps a shared expert.
//!
//! `rope.scaling.finetuned` false means that positions are not rotated at all.

use cairn_tensor::{Op, RopeStyle};

use super::Architecture;
use crate::block::rope::rope;
use crate::block::{Attention, Experts, GatedMlp, SharedExpert, Stream, embed, logits};
use crate::build::Builder;
use crate::error::LoadError;
use crate::hparams::{Hparams, Keys};

pub(super) struct Granite;

impl Architecture for Granite {
    fn names(&self) -> &'static [&'static str] {
        &["granite", "granitemoe"]
    }

    fn build(&self, b: &mut Builder<'_>) -> Result<Hparams, LoadError> {
        let mut hparams = Hparams::read(b)?;
        let keys = Keys::new(b.metadata())?;
        let rotated = keys.bool("rope.scaling.finetuned")?.unwrap_or(true);
        let rope = if rotated { Some(rope(b, &mut hparams, RopeStyle::Interleaved)?) } else { None };
        let logit_scale = keys.positive("logit_scale")?;
        let logit_scale = logit_scale.ok_or_else(|| keys.invalid("logit_scale", "the key is missing or zero"))?;
        let stream = Stream::new(b, &hparams).scale(keys.positive("residual_scale")?);
        let attention = Attention::new(b, &hparams, rope);
        let attention = match keys.positive("attention.scale")? {
            Some(scale) => attention.scale(scale),
            None => attention,
        };
        let has_experts = keys.u32("expert_count")?.is_some_and(|count| count > 0);
        let mlp = if has_experts { None } else { Some(GatedMlp::new(b, &hparams)) };
        let experts = if has_experts { Some(experts(b, &hparams)?) } else { None };
        embed(b, &hparams, &stream);
        if let Some(factor) = keys.positive("embedding_scale")? {
            b.push(Op::Scale { x: stream.residual, factor });
        }
        for layer in 0..hparams.layers {
            attention.push(b, &hparams, &stream, layer);
            mlp.iter().for_each(|mlp| mlp.push(b, &hparams, &stream, layer));
            experts.iter().for_each(|experts| experts.push(b, &hparams, &stream, layer));
        }
        if let Some(x) = logits(b, &hparams, &stream) {
            b.push(Op::Scale { x, factor: 1.0 / logit_scale });
        }
        Ok(hparams)
    }
}

fn experts(b: &mut Builder<'_>, hparams: &Hparams) -> Result<Experts, LoadError> {
    let shared = SharedExpert::new(b, hparams, None)?;
    Ok(Experts::new(b, hparams, Some(hparams.feed_forward_length))?.scale_of_file(b)?.shared(shared))
}
