//! Command R (<https://huggingface.co/CohereLabs/c4ai-command-r-v01>), Aya, and Command R7B and Command A
//! (`cohere2`, arXiv 2504.00698): attention and MLP in parallel, LayerNorm without biases, a factor on logits. In
//! `cohere2` three of four layers have a sliding window, and the others have no rotation.
//!
//! Command R+ has a separate norm for each head of queries and keys, which no plan can compute.

use cairn_tensor::{Op, RopeStyle};

use super::{Architecture, refuse_head_norms};
use crate::block::rope::rope;
use crate::block::sliding_window::SlidingWindows;
use crate::block::{Attention, GatedMlp, Stream, embed, logits};
use crate::build::Builder;
use crate::error::LoadError;
use crate::hparams::{Hparams, Keys, NormKind};

/// The architecture with windows.
const COHERE2: &str = "cohere2";

pub(super) struct CommandR;

impl Architecture for CommandR {
    fn names(&self) -> &'static [&'static str] {
        &["command-r", COHERE2]
    }

    fn build(&self, b: &mut Builder<'_>) -> Result<Hparams, LoadError> {
        let mut hparams = Hparams::read_with(b, NormKind::Layer)?;
        refuse_head_norms(b)?;
        let keys = Keys::new(b.metadata())?;
        let rope = rope(b, &mut hparams, RopeStyle::Interleaved)?;
        let has_windows = keys.architecture() == COHERE2;
        let windows = if has_windows { SlidingWindows::read(&keys, &hparams, Some(4096), 4)? } else { None };
        let global = windows.is_none().then_some(rope);
        let stream = Stream::new(b, &hparams).parallel(b, &hparams);
        let attention = Attention::new(b, &hparams, global).windows(windows, rope);
        let mlp = GatedMlp::new(b, &hparams);
        embed(b, &hparams, &stream);
        for layer in 0..hparams.layers {
            stream.fill(b, "attn_norm", layer);
            attention.push(b, &hparams, &stream, layer);
            mlp.push(b, &hparams, &stream, layer);
        }
        if let (Some(x), Some(factor)) = (logits(b, &hparams, &stream), keys.positive("logit_scale")?) {
            b.push(Op::Scale { x, factor });
        }
        Ok(hparams)
    }
}
