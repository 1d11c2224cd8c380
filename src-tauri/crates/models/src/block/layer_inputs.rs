//! Inputs of single layers (Gemma 3n and 4: <https://ai.google.dev/gemma/docs/gemma-3n>). Each token has a row of a second embedding
//! table, with a part for each layer. A projection of its first embedding is added to the row. At its end, each layer multiplies its part
//! by a gate and projects the product back.

use cairn_tensor::{BufferId, Glu, HeadPart, Op};

use super::Stream;
use crate::build::Builder;
use crate::error::LoadError;
use crate::hparams::{Hparams, Keys, MAX_WIDTH};

/// Key of the width of a layer's input.
const WIDTH: &str = "embedding_length_per_layer_input";

/// Parameters and buffers of the inputs of layers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LayerInputs {
    /// Width of a layer's input.
    width: usize,
    all: BufferId,   // [rows, layers * width]
    table: BufferId, // [rows, layers * width]
    gate: BufferId,  // [rows, width]
    part: BufferId,  // [rows, width]
}

impl LayerInputs {
    /// Reads the width of a layer's input. `None` if it is zero or missing.
    pub(crate) fn new(b: &mut Builder<'_>, hparams: &Hparams) -> Result<Option<Self>, LoadError> {
        let keys = Keys::new(b.metadata())?;
        if keys.u32(WIDTH)?.unwrap_or(0) == 0 {
            return Ok(None);
        }
        let width = keys.count(WIDTH, None, MAX_WIDTH)?;
        let total = hparams.layers * width;
        let [all, table, gate, part] = [total, total, width, width].map(|width| b.buffer(width));
        Ok(Some(Self { width, all, table, gate, part }))
    }

    /// Computes the inputs of all layers from tokens and their embeddings, which the stream has.
    pub(crate) fn fill(&self, b: &mut Builder<'_>, hparams: &Hparams, stream: &Stream) {
        let &Self { width, all, table, .. } = self;
        let total = hparams.layers * width;
        let rows = b.matrix("per_layer_token_embd.weight", hparams.vocab, total);
        b.push(Op::EmbedTokens { table: rows, out: table });
        b.push(Op::Scale { x: table, factor: (width as f32).sqrt() });
        let projections = vec![b.projection("per_layer_model_proj", hparams.embedding_length, all)];
        b.push(Op::MatMul { x: stream.residual, projections });
        b.push(Op::Scale { x: all, factor: 1.0 / (hparams.embedding_length as f32).sqrt() });
        let weight = b.vector("per_layer_proj_norm.weight", width);
        b.push(Op::RmsNorm { x: all, weight, eps: hparams.epsilon, group: width, out: all });
        b.push(Op::Add { x: all, y: table });
        b.push(Op::Scale { x: all, factor: std::f32::consts::FRAC_1_SQRT_2 });
    }

    /// Adds `out = norm(proj(gelu(gate(x)) * input))` with the input of a layer.
    pub(crate) fn compute(&self, b: &mut Builder<'_>, hparams: &Hparams, [x, out]: [BufferId; 2], layer: usize) {
        let &Self { width, all, gate, part, .. } = self;
        let name = |part: &str| format!("blk.{layer}.{part}");
        let projections = vec![b.projection(&name("inp_gate"), hparams.embedding_length, gate)];
        b.push(Op::MatMul { x, projections });
        let from = HeadPart { buffer: all, heads: 1, first: layer * width };
        b.push(Op::CopyHeads { from, to: HeadPart { buffer: part, heads: 1, first: 0 }, width });
        b.push(Op::Glu { activation: Glu::Gelu, gate, up: part, out: gate });
        let projections = vec![b.projection(&name("proj"), width, out)];
        b.push(Op::MatMul { x: gate, projections });
        let weight = b.vector(&name("post_norm.weight"), hparams.embedding_length);
        b.push(Op::RmsNorm { x: out, weight, eps: hparams.epsilon, group: hparams.embedding_length, out });
    }
}
