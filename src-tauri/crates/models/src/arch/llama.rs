//! Llama (Touvron et al., arXiv 2302.13971) and models with the same architecture: Llama 2 and 3, Mistral, TinyLlama,
//! SmolLM, Pebble; Mixtral (arXiv 2401.04088) has experts, each as wide as an MLP. ERNIE 4.5, dense
//! (<https://yiyan.baidu.com/blog/publication/ERNIE_Technical_Report.pdf>), and Mistral Small 3.1 and later (`mistral3`)
//! have other names. In Ministral 3 (arXiv 2601.08584) queries grow with the position.
//!
//! Sliding windows are ignored, as in llama.cpp: its converter writes none for this family, not even for Mistral 7B
//! 0.1. GGUF writers permute the query and key rows of this family, so that adjacent elements form RoPE's pairs.

use cairn_tensor::RopeStyle;

use super::Architecture;
use crate::block::rope::{original_steps, query_growth, rope};
use crate::block::{Attention, Experts, GatedMlp, Stream, embed, logits};
use crate::build::Builder;
use crate::error::LoadError;
use crate::hparams::{Hparams, Keys};

pub(super) struct Llama;

impl Architecture for Llama {
    fn names(&self) -> &'static [&'static str] {
        &["llama", "ernie4_5", "mistral3"]
    }

    fn build(&self, b: &mut Builder<'_>) -> Result<Hparams, LoadError> {
        let mut hparams = Hparams::read(b)?;
        let keys = Keys::new(b.metadata())?;
        let has_experts = keys.u32("expert_count")?.is_some_and(|count| count > 0);
        let rope = rope(b, &mut hparams, RopeStyle::Interleaved)?;
        let stream = Stream::new(b, &hparams);
        let growth = query_growth(&keys, original_steps(&keys, &hparams)?)?;
        let attention = Attention::new(b, &hparams, rope).growth(b, growth);
        let inner = Some(hparams.feed_forward_length);
        let experts = if has_experts { Some(Experts::new(b, &hparams, inner)?) } else { None };
        let mlp = if has_experts { None } else { Some(GatedMlp::new(b, &hparams)) };
        embed(b, &hparams, &stream);
        for layer in 0..hparams.layers {
            attention.push(b, &hparams, &stream, layer);
            mlp.iter().for_each(|mlp| mlp.push(b, &hparams, &stream, layer));
            experts.iter().for_each(|experts| experts.push(b, &hparams, &stream, layer));
        }
        logits(b, &hparams, &stream);
        Ok(hparams)
    }
}
