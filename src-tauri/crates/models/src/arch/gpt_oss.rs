//! gpt-oss (arXiv 2508.10925): every second layer has a sliding window, each query head has a sink, every projection a
//! bias; clamped experts, weighted by a softmax over the used ones. YaRN extends the context, also in layers with a
//! window.

use cairn_tensor::{Gating, Glu, RopeStyle};

use super::Architecture;
use crate::block::rope::rope;
use crate::block::sliding_window::SlidingWindows;
use crate::block::stream::Part;
use crate::block::{Attention, Experts, Stream, embed, logits};
use crate::build::Builder;
use crate::error::LoadError;
use crate::hparams::{Hparams, Keys};

/// The experts' activation, which metadata does not contain.
const ACTIVATION: Glu = Glu::Clamped { alpha: 1.702, limit: 7.0 };

/// Biases that llama.cpp requires. Those of queries, keys and values are optional.
const BIASES: &[&str] = &["attn_output", "ffn_gate_inp", "ffn_gate_exps", "ffn_up_exps", "ffn_down_exps"];

pub(super) struct GptOss;

impl Architecture for GptOss {
    fn names(&self) -> &'static [&'static str] {
        &["gpt-oss"]
    }

    fn build(&self, b: &mut Builder<'_>) -> Result<Hparams, LoadError> {
        let mut hparams = Hparams::read(b)?;
        b.require_biases(BIASES);
        let rope = rope(b, &mut hparams, RopeStyle::Half)?;
        let windows = SlidingWindows::read(&Keys::new(b.metadata())?, &hparams, Some(128), 2)?;
        let stream = Stream::new(b, &hparams);
        let attention = Attention::new(b, &hparams, rope).windows(windows, rope).sinks();
        let experts = Experts::new(b, &hparams, None)?
            .part(Part::MLP_AFTER_ATTENTION)
            .activation(ACTIVATION)
            .gating(Gating::SoftmaxOfChosen);
        embed(b, &hparams, &stream);
        for layer in 0..hparams.layers {
            attention.push(b, &hparams, &stream, layer);
            experts.push(b, &hparams, &stream, layer);
        }
        logits(b, &hparams, &stream);
        Ok(hparams)
    }
}
