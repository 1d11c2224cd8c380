//! Granite 3 (<https://github.com/ibm-granite/granite-3.0-language-models/blob/main/paper.pdf>): llama with four
//! factors from maximal update parametrisation (Yang et al., arXiv 2203.03466), on embeddings, attention scores,
//! outputs of parts, and logits. Some models have experts instead of MLPs, and perhaps a shared expert. In Granite 4 H, most layers are
//! state space models instead of attention.
//!
//! `rope.scaling.finetuned` false means that positions are not rotated at all.

use cairn_tensor::{Op, RopeStyle};

use super::Architecture;
use crate::block::rope::rope;
use crate::block::{Attention, Experts, GatedMlp, LayerKinds, Mamba2, SharedExpert, Stream, embed, logits};
use crate::build::Builder;
use crate::error::LoadError;
use crate::hparams::{Hparams, Keys, NormKind};

pub(super) struct Granite;

/// Its layers have attention or a state space model.
const HYBRID: &str = "granitehybrid";

impl Architecture for Granite {
    fn names(&self) -> &'static [&'static str] {
        &["granite", "granitemoe", "granitehybrid"]
    }

    fn build(&self, b: &mut Builder<'_>) -> Result<Hparams, LoadError> {
        let keys = Keys::new(b.metadata())?;
        let is_hybrid = keys.architecture() == HYBRID;
        let kinds = if is_hybrid { Some(LayerKinds::read(&keys)?) } else { None };
        let mut hparams = match &kinds {
            Some(kinds) => Hparams::read_with_heads(b, NormKind::Rms, kinds.kv_heads)?,
            None => Hparams::read(b)?,
        };
        kinds.as_ref().map_or(Ok(()), |kinds| kinds.check(&keys, hparams.layers))?;
        if is_hybrid && hparams.embedding.is_some() {
            // A text of an embedding model is computed in both directions, which states of earlier rows are not.
            return Err(LoadError::Unsupported { what: format!("an embedding model of {HYBRID}") });
        }
        let has_attention = |layer: usize| kinds.as_ref().is_none_or(|kinds| kinds.has_attention(layer));
        let rotated = keys.bool("rope.scaling.finetuned")?.unwrap_or(true);
        let rope = if rotated { Some(rope(b, &mut hparams, RopeStyle::Interleaved)?) } else { None };
        let logit_scale = keys.positive("logit_scale")?;
        if logit_scale.is_none() && !is_hybrid {
            return Err(keys.invalid("logit_scale", "the key is missing or zero"));
        }
        let stream = Stream::new(b, &hparams).scale(keys.positive("residual_scale")?);
        let attention = Attention::new(b, &hparams, rope);
        let attention = match keys.positive("attention.scale")? {
            Some(scale) => attention.scale(scale),
            None => attention,
        };
        let has_experts = keys.u32("expert_count")?.is_some_and(|count| count > 0);
        let mlp = if has_experts { None } else { Some(GatedMlp::new(b, &hparams)) };
        let experts = if has_experts { Some(experts(b, &hparams)?) } else { None };
        let mamba = if (0..hparams.layers).all(has_attention) { None } else { Some(Mamba2::new(b)?) };
        embed(b, &hparams, &stream);
        if let Some(factor) = keys.positive("embedding_scale")? {
            b.push(Op::Scale { x: stream.residual, factor });
        }
        for layer in 0..hparams.layers {
            match &mamba {
                Some(mamba) if !has_attention(layer) => mamba.push(b, &hparams, &stream, layer),
                _ => attention.push(b, &hparams, &stream, layer),
            }
            mlp.iter().for_each(|mlp| mlp.push(b, &hparams, &stream, layer));
            experts.iter().for_each(|experts| experts.push(b, &hparams, &stream, layer));
        }
        if let (Some(x), Some(scale)) = (logits(b, &hparams, &stream), logit_scale) {
            b.push(Op::Scale { x, factor: 1.0 / scale });
        }
        Ok(hparams)
    }
}

fn experts(b: &mut Builder<'_>, hparams: &Hparams) -> Result<Experts, LoadError> {
    let shared = SharedExpert::new(b, hparams, None)?;
    Ok(Experts::new(b, hparams, Some(hparams.feed_forward_length))?.scale_of_file(b)?.shared(shared))
}
