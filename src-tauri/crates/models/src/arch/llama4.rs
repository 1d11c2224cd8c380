//! Llama 4, text (<https://ai.meta.com/blog/llama-4-multimodal-intelligence/>): three of four layers attend to chunks
//! of the context and have rotary positions; the others attend to the whole context without a rotation, and their
//! queries grow with the position (Yang et al., arXiv 2501.18795). Layers with MLPs and with experts alternate: a
//! shared expert, and others chosen by sigmoids that multiply their inputs.
//!
//! Only models with 128 experts have no norm over the heads of queries and keys, as in llama.cpp, unless `use_qk_norm`
//! names it.

use cairn_tensor::{Gating, Growth, RopeStyle};

use super::Architecture;
use crate::block::rope::{query_growth, rope};
use crate::block::{
    Attention, Experts, GatedMlp, QueryKeyNorm, SharedExpert, SlidingWindows, SparseMlp, Stream, embed, logits,
};
use crate::build::Builder;
use crate::error::LoadError;
use crate::hparams::{Hparams, Keys};

pub(super) struct Llama4;

/// The last of these many layers attends to the whole context.
const PERIOD: usize = 4;
/// Default size of chunks, and of steps of the growth of queries.
const CHUNK_TOKENS: u32 = 8192;
/// Default growth of queries. Positions count from one.
const GROWTH: Growth = Growth { factor: 0.1, step: CHUNK_TOKENS, offset: 1 };
/// Number of experts of the models without norms over queries and keys.
const EXPERTS_WITHOUT_NORM: u32 = 128;

impl Architecture for Llama4 {
    fn names(&self) -> &'static [&'static str] {
        &["llama4"]
    }

    fn build(&self, b: &mut Builder<'_>) -> Result<Hparams, LoadError> {
        let mut hparams = Hparams::read(b)?;
        let keys = Keys::new(b.metadata())?;
        if keys.u32("attention.sliding_window")? == Some(0) {
            return Err(LoadError::Unsupported { what: "a model of llama4 without chunks".to_owned() });
        }
        let rope = rope(b, &mut hparams, RopeStyle::Interleaved)?;
        let chunks = SlidingWindows::chunks(&keys, &hparams, CHUNK_TOKENS, PERIOD)?;
        let has_norm = keys.bool("use_qk_norm")?.unwrap_or(keys.u32("expert_count")? != Some(EXPERTS_WITHOUT_NORM));
        let norm = if has_norm { QueryKeyNorm::PlainRotatedHead } else { QueryKeyNorm::None };
        let stream = Stream::new(b, &hparams);
        let attention = Attention::new(b, &hparams, None).windows(Some(chunks), rope).norm(norm);
        let growth = query_growth(&keys, GROWTH)?;
        let attention = attention.unrotated_growth(b, &hparams, growth)?;
        let mlp = GatedMlp::new(b, &hparams);
        let experts = Experts::new(b, &hparams, None)?.gating(Gating::Sigmoid { renormalise: false });
        let shared = SharedExpert::new(b, &hparams, Some(experts.inner()))?;
        let experts = experts.weighs_inputs(b, &hparams).shared(shared);
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
