//! Gemma 4, text (<https://ai.google.dev/gemma/docs/core/model_card_4>): as Gemma 3, but heads of layers that see the whole context are
//! wider, a quarter of their pairs turns, and their values may be their keys. Small models have inputs of single layers, and their last
//! layers share keys and values and may have wider MLPs. The model of 26 billion weights has experts beside the MLPs.
//!
//! The rows of a picture attend to each other in layers with a window only, in contrast to Gemma 3. `transformers` and llama.cpp have
//! this rule, too. Whether they do so at all depends on the model: see the tower.

use cairn_tensor::{Glu, Op, RopeStyle};

use super::Architecture;
use crate::block::gemma::{embed_scaled, soft_cap};
use crate::block::rope::{local_rope, rope};
use crate::block::{
    Experts, ExpertsBesideMlp, GatedMlp, HeadSizes, LayerInputs, Norms, SharedKvAttention, SlidingWindows, Stream,
    logits,
};
use crate::build::Builder;
use crate::error::LoadError;
use crate::hparams::{Hparams, Keys, MAX_WIDTH, NormKind};

pub(super) struct Gemma4;

impl Architecture for Gemma4 {
    fn names(&self) -> &'static [&'static str] {
        &["gemma4"]
    }

    fn build(&self, b: &mut Builder<'_>) -> Result<Hparams, LoadError> {
        let keys = Keys::new(b.metadata())?;
        let mut hparams = Hparams::read_with_shape(b, NormKind::Rms, 1, HeadSizes::head_dim(&keys, "", None)?)?;
        if hparams.embedding.is_some() {
            return Err(LoadError::Unsupported { what: format!("an embedding model of {}", hparams.architecture) });
        }
        let windows = SlidingWindows::read(&keys, &hparams, None, 6)?;
        let narrow = HeadSizes::head_dim(&keys, "_swa", Some(hparams.head_dim))?;
        let kv_heads = HeadSizes::kv_heads(&keys, &hparams, windows.as_ref())?;
        hparams.kv_heads = kv_heads[0];
        let global = rope(b, &mut hparams, RopeStyle::Half)?;
        let local = local_rope(b, narrow, RopeStyle::Half, Some(10_000.0))?;
        let full = (HeadSizes { kv_heads: kv_heads[0], head_dim: hparams.head_dim }, global);
        let window = (HeadSizes { kv_heads: kv_heads[1], head_dim: narrow }, local);
        let stream = Stream::new(b, &hparams).norms(Norms::Both);
        let attention = SharedKvAttention::new(b, &hparams, windows, [full, window], 0)?;
        let mut attention = attention.values_of_file(b).causal_without_window();
        let mlps = Mlps::read(b, &keys, &hparams)?;
        let inputs = LayerInputs::new(b, &hparams)?;
        embed_scaled(b, &hparams, &stream);
        if let Some(inputs) = &inputs {
            inputs.fill(b, &hparams, &stream);
        }
        for layer in 0..hparams.layers {
            attention.push(b, &hparams, &stream, layer);
            mlps.push(b, &hparams, &stream, layer);
            if let Some(inputs) = &inputs {
                inputs.compute(b, &hparams, [stream.residual, stream.branch], layer);
                b.push(Op::Add { x: stream.residual, y: stream.branch });
            }
            scale_output(b, &stream, layer)?;
        }
        let x = logits(b, &hparams, &stream);
        if let (Some(x), Some(cap)) = (x, soft_cap(&keys, "final_logit_softcapping", 30.0)?) {
            b.push(Op::Softcap { x, cap });
        }
        Ok(hparams)
    }
}

/// The MLPs of the layers, which may have different widths, and the experts beside them.
struct Mlps {
    experts: Option<ExpertsBesideMlp>,
    /// By width.
    shapes: Vec<(usize, GatedMlp)>,
    /// By layer.
    widths: Vec<usize>,
}

impl Mlps {
    fn read(b: &mut Builder<'_>, keys: &Keys<'_>, hparams: &Hparams) -> Result<Self, LoadError> {
        let widths = keys.counts("feed_forward_length", None, MAX_WIDTH, hparams.layers)?;
        let mut distinct = widths.clone();
        distinct.sort_unstable();
        distinct.dedup();
        let shape = |width| (width, GatedMlp::with_width(b, width).activation(Glu::Gelu));
        let shapes = distinct.into_iter().map(shape).collect();
        let experts = match keys.u32("expert_count")?.unwrap_or(0) {
            0 => None,
            _ => {
                let experts = Experts::new(b, hparams, None)?.activation(Glu::Gelu).scaled().fused(b, hparams);
                Some(ExpertsBesideMlp::new(b, hparams, experts))
            }
        };
        Ok(Self { experts, shapes, widths })
    }

    fn push(&self, b: &mut Builder<'_>, hparams: &Hparams, stream: &Stream, layer: usize) {
        let shape = self.shapes.iter().find(|(width, _)| *width == self.widths[layer]);
        let (_, mlp) = shape.expect("every width of a layer has a shape");
        match &self.experts {
            Some(experts) => experts.push(b, hparams, stream, mlp, layer),
            None => mlp.push(b, hparams, stream, layer),
        }
    }
}

/// Multiplies the stream by the factor of a layer, if the model has one.
fn scale_output(b: &mut Builder<'_>, stream: &Stream, layer: usize) -> Result<(), LoadError> {
    let name = format!("blk.{layer}.layer_output_scale.weight");
    let Some(values) = b.optional_values(&name, 1) else { return Ok(()) };
    let factor = values[0];
    if !factor.is_finite() {
        return Err(LoadError::Value { tensor: name, why: format!("{factor} is not a number") });
    }
    b.push(Op::Scale { x: stream.residual, factor });
    Ok(())
}
