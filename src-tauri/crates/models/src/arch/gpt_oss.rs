//! gpt-oss (arXiv 2508.10925): every other layer sees a window, each query head has a sink, every product a bias; clamped
//! experts, weighed by a softmax over those that are used. Long contexts come by YaRN, in the layers with a window too.

use cairn_tensor::{Gating, Glu, RopeStyle};

use super::Architecture;
use crate::block::rope::rope;
use crate::block::stream::Part;
use crate::block::window::Windows;
use crate::block::{Attention, Experts, Stream, embed, logits};
use crate::build::Builder;
use crate::error::LoadError;
use crate::hparams::{Hparams, Keys};

/// The experts' activation; metadata do not say it.
const ACTIVATION: Glu = Glu::Clamped { alpha: 1.702, limit: 7.0 };

/// The biases that llama.cpp refuses to load a file without; those of queries, keys and values may be absent.
const BIASES: &[&str] = &["attn_output", "ffn_gate_inp", "ffn_gate_exps", "ffn_up_exps", "ffn_down_exps"];

pub(super) struct GptOss;

impl Architecture for GptOss {
    fn names(&self) -> &'static [&'static str] {
        &["gpt-oss"]
    }

    fn build(&self, b: &mut Builder<'_>) -> Result<Hparams, LoadError> {
        let mut hparams = Hparams::read(b)?;
        b.need_biases(BIASES);
        let rope = rope(b, &mut hparams, RopeStyle::Half)?;
        let windows = Windows::read(&Keys::new(b.metadata())?, &hparams, Some(128), 2)?;
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
