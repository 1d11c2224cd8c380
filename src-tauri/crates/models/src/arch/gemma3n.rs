//! Gemma 3n, text (<https://ai.google.dev/gemma/docs/gemma-3n>): several residual streams with alternating updates (arXiv 2301.13310),
//! a product of low rank beside attention (arXiv 2411.07501), inputs of single layers, sparse gates in the MLPs of the first layers, and
//! last layers that share keys and values. Layers with a window are as in Gemma 3.

use cairn_tensor::{Glu, Op, RopeStyle};

use super::Architecture;
use crate::block::gemma::{embed_scaled, soft_cap};
use crate::block::rope::{local_rope, rope};
use crate::block::stream::Part;
use crate::block::{
    AltUp, GatedMlp, HeadSizes, Laurel, LayerInputs, Norms, SharedKvAttention, SlidingWindows, Stream, logits_of,
};
use crate::build::Builder;
use crate::error::LoadError;
use crate::hparams::{Hparams, Keys};

/// First layers of published models, which store keys and values, for files without the key.
const STORING_LAYERS: usize = 20;
/// First layers of published models with sparse gates, for files without the key.
const SPARSE_LAYERS: usize = 10;
/// The deviations that 95 % of a normal distribution are below.
const DEVIATIONS: f32 = 1.644_853_6;

pub(super) struct Gemma3n;

impl Architecture for Gemma3n {
    fn names(&self) -> &'static [&'static str] {
        &["gemma3n"]
    }

    fn build(&self, b: &mut Builder<'_>) -> Result<Hparams, LoadError> {
        let keys = Keys::new(b.metadata())?;
        let mut hparams = Hparams::read(b)?;
        if hparams.embedding.is_some() {
            return Err(LoadError::Unsupported { what: format!("an embedding model of {}", hparams.architecture) });
        }
        let windows = SlidingWindows::read(&keys, &hparams, None, 5)?;
        let global = rope(b, &mut hparams, RopeStyle::Half)?;
        let local = local_rope(b, hparams.head_dim, RopeStyle::Half, Some(10_000.0))?;
        let sizes = HeadSizes { kv_heads: hparams.kv_heads, head_dim: hparams.head_dim };
        let shared = hparams.layers.saturating_sub(STORING_LAYERS);
        let mut attention = SharedKvAttention::new(b, &hparams, windows, [(sizes, global), (sizes, local)], shared)?;
        let deviations = deviations(&keys, hparams.layers)?;
        let stream = Stream::new(b, &hparams).norms(Norms::Both);
        let altup = AltUp::new(b, &hparams)?;
        let laurel = Laurel::new(b, &hparams);
        let mlp = GatedMlp::new(b, &hparams).activation(Glu::Gelu);
        let inputs = LayerInputs::new(b, &hparams)?;
        embed_scaled(b, &hparams, &stream);
        if let Some(inputs) = &inputs {
            inputs.fill(b, &hparams, &stream);
        }
        altup.fill(b, stream.residual);
        for (layer, deviations) in deviations.into_iter().enumerate() {
            altup.predict(b, &hparams, stream.residual, layer);
            let x = stream.enter(b, Part::ATTENTION, layer);
            laurel.compute(b, &hparams, x, layer);
            attention.compute(b, &hparams, [x, stream.branch], layer);
            stream.leave(b, Part::ATTENTION, layer);
            b.push(Op::Add { x: stream.residual, y: laurel.out });
            b.push(Op::Scale { x: stream.residual, factor: std::f32::consts::FRAC_1_SQRT_2 });
            mlp.outliers(deviations).push(b, &hparams, &stream, layer);
            altup.correct(b, &hparams, [stream.residual, laurel.out], layer);
            if let Some(inputs) = &inputs {
                inputs.compute(b, &hparams, [laurel.out, stream.branch], layer);
                altup.add_to_others(b, stream.branch);
            }
        }
        let last = altup.merge(b);
        let x = logits_of(b, &hparams, last, "output_norm");
        if let (Some(x), Some(cap)) = (x, soft_cap(&keys, "final_logit_softcapping", 30.0)?) {
            b.push(Op::Softcap { x, cap });
        }
        Ok(hparams)
    }
}

/// Reads the limits of sparse gates by layer, in deviations of a row: `activation_sparsity_scale`. Minus infinity means a dense gate.
fn deviations(keys: &Keys<'_>, layers: usize) -> Result<Vec<Option<f32>>, LoadError> {
    const KEY: &str = "activation_sparsity_scale";
    let Some(limits) = keys.f32s(KEY)? else {
        return Ok((0..layers).map(|layer| (layer < SPARSE_LAYERS).then_some(DEVIATIONS)).collect());
    };
    if limits.len() < layers {
        return Err(keys.invalid(KEY, format!("{} numbers for {layers} layers", limits.len())));
    }
    let limit = |&limit: &f32| match limit {
        f32::NEG_INFINITY => Ok(None),
        limit if limit.is_finite() => Ok(Some(limit)),
        limit => Err(keys.invalid(KEY, format!("{limit} is not a limit"))),
    };
    limits[..layers].iter().map(limit).collect()
}
