//! T5 (Raffel et al., arXiv 1910.10683), T5 1.1 with gated MLPs (Shazeer, arXiv 2002.05202) and Flan-T5 (arXiv 2210.11416).
//!
//! Scores of attention are not scaled, and have a bias by distance instead of positions. All layers of a side share the table of the
//! first one, unless they have their own. Attention to the input has no bias.

use cairn_tensor::{
    BufferId, DistanceBias, Glu, Op, Part, PartAttention, Projection, Rows, State, StateId, StateKind, WeightId,
};

use super::with_both_lengths;
use crate::arch::{Architecture, EncoderDecoder};
use crate::build::Builder;
use crate::error::LoadError;
use crate::hparams::{Hparams, Keys, MAX_LAYERS, NormKind};

pub(super) struct T5;

const BUCKETS: &str = "attention.relative_buckets_count";
const START: &str = "decoder_start_token_id";
const DECODER_LAYERS: &str = "decoder_block_count";

/// What the keys of a file state about both sides.
struct Shape {
    hparams: Hparams,
    buckets: usize,
    decoder_layers: usize,
}

impl Shape {
    fn read(b: &Builder<'_>) -> Result<Self, LoadError> {
        let keys = Keys::new(b.metadata())?;
        let hparams = Hparams::read_with(b, NormKind::Rms)?;
        if hparams.embedding.is_some() {
            return Err(LoadError::Unsupported { what: format!("an embedding model of {}", hparams.architecture) });
        }
        let buckets = keys.count(BUCKETS, None, u32::MAX)?;
        for both_ways in [true, false] {
            let bias = DistanceBias { table: WeightId(0), both_ways };
            if !bias.is_valid(buckets) {
                let side = if both_ways { "an encoder" } else { "a decoder" };
                return Err(keys.invalid(BUCKETS, format!("{side} cannot have {buckets} buckets of distances")));
            }
        }
        let decoder_layers = keys.count(DECODER_LAYERS, Some(hparams.layers as u32), MAX_LAYERS)?;
        Ok(Self { hparams, buckets, decoder_layers })
    }

    /// Declares the state of each layer of the decoder.
    fn states(&self, b: &mut Builder<'_>) -> Vec<StateId> {
        (0..self.decoder_layers).map(|_| b.plan.state(self.state())).collect()
    }

    fn state(&self) -> State {
        State::new(StateKind::Full, self.hparams.kv_heads, self.hparams.head_dim)
    }
}

impl Architecture for T5 {
    fn names(&self) -> &'static [&'static str] {
        &["t5"]
    }

    fn encoder_decoder(&self) -> Option<&dyn EncoderDecoder> {
        Some(self)
    }

    fn build(&self, b: &mut Builder<'_>) -> Result<Hparams, LoadError> {
        let shape = Shape::read(b)?;
        let keys = Keys::new(b.metadata())?;
        let vocab = shape.hparams.vocab;
        let start = keys.u32(START)?.or(b.metadata().u32("tokenizer.ggml.bos_token_id")?);
        let start =
            start.ok_or_else(|| keys.invalid(START, "it is missing, and so is the token that begins a text"))?;
        // Without a file, the vocabulary may be unknown.
        if vocab > 0 && start as usize >= vocab {
            return Err(keys.invalid(START, format!("there is no token {start} among {vocab}")));
        }
        let states = shape.states(b);
        let side = Side::new(b, &shape, "dec");
        side.embed(b);
        for (layer, &state) in states.iter().enumerate() {
            side.self_attention(b, layer, state, false);
            side.cross_attention(b, layer, state);
            side.mlp(b, layer);
        }
        let last = side.output(b);
        let out = b.plan.buffer(Rows::Logits, vocab);
        let table = if b.has_tensor("output.weight") { "output.weight" } else { "token_embd.weight" };
        let weight = b.matrix(table, vocab, shape.hparams.embedding_length);
        b.push(Op::MatMul { x: last, projections: vec![Projection { weight, bias: None, out }] });
        b.plan.logits = Some(out);
        Ok(with_both_lengths(Hparams { layers: shape.decoder_layers, ..shape.hparams }, start))
    }
}

impl EncoderDecoder for T5 {
    fn build_encoder(&self, b: &mut Builder<'_>) -> Result<(), LoadError> {
        let shape = Shape::read(b)?;
        // Adjacent layers have two states, so that the rows can be computed in tiles.
        let states = [(); 2].map(|()| b.plan.state(shape.state()));
        let side = Side::new(b, &shape, "enc");
        side.embed(b);
        for layer in 0..shape.hparams.layers {
            side.self_attention(b, layer, states[layer % states.len()], true);
            side.mlp(b, layer);
        }
        b.plan.logits = Some(side.output(b));
        Ok(())
    }

    fn build_store(&self, b: &mut Builder<'_>) -> Result<(), LoadError> {
        let shape = Shape::read(b)?;
        let Hparams { embedding_length: width, kv_heads, head_dim, .. } = shape.hparams;
        let states = shape.states(b);
        let [x, k, v] = [width, kv_heads * head_dim, kv_heads * head_dim].map(|width| b.buffer(width));
        b.push(Op::Input { out: x });
        for (layer, &state) in states.iter().enumerate() {
            let projections = [("cross_attn_k", k), ("cross_attn_v", v)];
            let project = |(part, out)| b.projection(&format!("dec.blk.{layer}.{part}"), width, out);
            let projections = projections.map(project).to_vec();
            b.push(Op::MatMul { x, projections });
            b.push(Op::StoreKv { state, k, v });
        }
        Ok(())
    }
}

/// The layers of the encoder or of the decoder.
struct Side<'a> {
    shape: &'a Shape,
    /// "enc" or "dec".
    name: &'static str,
    x: BufferId,        // [rows, embedding]
    branch: BufferId,   // [rows, embedding]
    qkv: [BufferId; 3], // [rows, heads * head_dim]
    attended: BufferId, // [rows, heads * head_dim]
    inner: BufferId,    // [rows, feed_forward]
    /// Gates of MLPs, if the model has them.
    gate: Option<BufferId>,
}

impl<'a> Side<'a> {
    fn new(b: &mut Builder<'_>, shape: &'a Shape, name: &'static str) -> Self {
        let &Hparams { embedding_length, feed_forward_length, heads, kv_heads, head_dim, .. } = &shape.hparams;
        let [x, branch] = [embedding_length; 2].map(|width| b.buffer(width));
        let qkv = [heads, kv_heads, kv_heads].map(|heads| b.buffer(heads * head_dim));
        let attended = b.buffer(heads * head_dim);
        let inner = b.buffer(feed_forward_length);
        let has_gate = b.has_tensor(&format!("{name}.blk.0.ffn_gate.weight"));
        let gate = has_gate.then(|| b.buffer(feed_forward_length));
        Self { shape, name, x, branch, qkv, attended, inner, gate }
    }

    fn width(&self) -> usize {
        self.shape.hparams.embedding_length
    }

    fn tensor(&self, layer: usize, part: &str) -> String {
        format!("{}.blk.{layer}.{part}", self.name)
    }

    fn embed(&self, b: &mut Builder<'_>) {
        let table = b.matrix("token_embd.weight", self.shape.hparams.vocab, self.width());
        b.push(Op::Embed { table, out: self.x });
    }

    fn norm(&self, b: &mut Builder<'_>, name: &str, [x, out]: [BufferId; 2]) {
        let weight = b.vector(&format!("{name}.weight"), self.width());
        let eps = self.shape.hparams.epsilon;
        b.push(Op::RmsNorm { x, weight, eps, group: self.width(), out });
    }

    /// Adds `x += projection(from)`.
    fn add_projection(&self, b: &mut Builder<'_>, name: &str, from: BufferId) {
        let cols = b.plan.buffers[from.0 as usize].width;
        let projections = vec![b.projection(name, cols, self.branch)];
        b.push(Op::MatMul { x: from, projections });
        b.push(Op::Add { x: self.x, y: self.branch });
    }

    fn self_attention(&self, b: &mut Builder<'_>, layer: usize, state: StateId, both_ways: bool) {
        let [q, k, v] = self.qkv;
        let heads = self.shape.hparams.heads;
        self.norm(b, &self.tensor(layer, "attn_norm"), [self.x, self.branch]);
        let projections = [("attn_q", q), ("attn_k", k), ("attn_v", v)];
        let projections = projections.map(|(part, out)| b.projection(&self.tensor(layer, part), self.width(), out));
        b.push(Op::MatMul { x: self.branch, projections: projections.to_vec() });
        b.push(Op::StoreKv { state, k, v });
        let own = self.tensor(layer, "attn_rel_b.weight");
        let table = if b.has_tensor(&own) { own } else { self.tensor(0, "attn_rel_b.weight") };
        let table = b.matrix(&table, self.shape.buckets, heads);
        self.attend(b, state, Part::Own, Some(DistanceBias { table, both_ways }));
        self.add_projection(b, &self.tensor(layer, "attn_o"), self.attended);
    }

    fn cross_attention(&self, b: &mut Builder<'_>, layer: usize, state: StateId) {
        self.norm(b, &self.tensor(layer, "cross_attn_norm"), [self.x, self.branch]);
        let projections = vec![b.projection(&self.tensor(layer, "cross_attn_q"), self.width(), self.qkv[0])];
        b.push(Op::MatMul { x: self.branch, projections });
        self.attend(b, state, Part::Input, None);
        self.add_projection(b, &self.tensor(layer, "cross_attn_o"), self.attended);
    }

    fn attend(&self, b: &mut Builder<'_>, state: StateId, part: Part, bias: Option<DistanceBias>) {
        let (q, heads, out) = (self.qkv[0], self.shape.hparams.heads, self.attended);
        b.push(Op::PartAttention(PartAttention { state, q, heads, scale: 1.0, part, bias, out }));
    }

    fn mlp(&self, b: &mut Builder<'_>, layer: usize) {
        self.norm(b, &self.tensor(layer, "ffn_norm"), [self.x, self.branch]);
        let mut projections = vec![b.projection(&self.tensor(layer, "ffn_up"), self.width(), self.inner)];
        if let Some(gate) = self.gate {
            projections.push(b.projection(&self.tensor(layer, "ffn_gate"), self.width(), gate));
        }
        b.push(Op::MatMul { x: self.branch, projections });
        match self.gate {
            Some(gate) => b.push(Op::Glu { activation: Glu::Gelu, gate, up: self.inner, out: gate }),
            None => b.push(Op::Relu { x: self.inner }),
        }
        self.add_projection(b, &self.tensor(layer, "ffn_down"), self.gate.unwrap_or(self.inner));
    }

    /// Adds the normalised rows that have logits.
    fn output(&self, b: &mut Builder<'_>) -> BufferId {
        let last = b.plan.buffer(Rows::Logits, self.width());
        b.push(Op::Gather { x: self.x, out: last });
        self.norm(b, &format!("{}.output_norm", self.name), [last, last]);
        last
    }
}
