//! A tiny model with latent attention: in the first layer the cache has one row for all heads, in the second the keys and values of
//! each head, which have different sizes.

use cairn_gguf::DType;
use cairn_tensor::{
    Backend, BufferId, HeadPart, Limits, Op, Plan, PlanId, Projection, Rope, RopeStyle, Rows, State, StateKind, Values,
    WeightId,
};

use crate::common::{Random, VOCABULARY, WIDTH, matrix};

/// Query heads of the layers: several tasks of attention share the key of the first layer.
const LATENT_HEADS: usize = 24;
const HEADS: usize = 4;
/// Elements of a head's query with and without a position, of its value, and of the latent.
const ROTATED: usize = 32;
const PLAIN: usize = 32;
const VALUE: usize = 32;
const LATENT: usize = 64;

struct Model<'a> {
    backend: &'a mut dyn Backend,
    random: Random,
    plan: Plan,
    dtype: DType,
    x: BufferId,
    branch: BufferId,
    rope: usize,
}

impl Model<'_> {
    fn weight(&mut self, dtype: DType, rows: usize, cols: usize, scale: f32) -> WeightId {
        let matrix = matrix(&mut self.random, dtype, rows, cols, scale);
        self.backend.upload(matrix).expect("the bytes are those of the shape")
    }

    fn buffer(&mut self, width: usize) -> BufferId {
        self.plan.buffer(Rows::Batch, width)
    }

    fn multiply(&mut self, x: BufferId, outs: &[BufferId]) {
        let width = |plan: &Plan, id: BufferId| plan.buffers[id.0 as usize].width;
        let project = |out: &BufferId| {
            let (rows, cols) = (width(&self.plan, *out), width(&self.plan, x));
            // Rows of latents are shorter than the blocks of some types.
            let dtype = if cols.is_multiple_of(self.dtype.block()) { self.dtype } else { DType::Q8_0 };
            Projection { weight: self.weight(dtype, rows, cols, 0.2), bias: None, out: *out }
        };
        let projections = outs.iter().map(project).collect();
        self.plan.push(Op::MatMul { x, projections });
    }

    fn multiply_heads(&mut self, [from, to]: [HeadPart; 2], [rows, cols]: [usize; 2]) {
        let dtype = if cols.is_multiple_of(self.dtype.block()) { self.dtype } else { DType::Q8_0 };
        let weight = self.weight(dtype, from.heads * rows, cols, 0.3);
        self.plan.push(Op::MatMulHeads { from, weight, to });
    }

    fn norm(&mut self, x: BufferId, group: usize, out: BufferId) {
        let weight = self.weight(DType::F32, 1, group, 1.0);
        self.plan.push(Op::RmsNorm { x, weight, eps: 1e-5, group, out });
    }

    fn rotate(&mut self, x: BufferId, head_dim: usize) {
        self.plan.push(Op::Rope { x, head_dim, rope: self.rope });
    }

    fn copy(&mut self, from: HeadPart, to: HeadPart, width: usize) {
        self.plan.push(Op::CopyHeads { from, to, width });
    }

    /// Attention over latents, or over the keys and values that are made of them.
    fn attention(&mut self, is_latent: bool) {
        let (kind, key_dim) = (StateKind::Full, ROTATED + PLAIN);
        let head_dim = ROTATED + if is_latent { LATENT } else { PLAIN };
        let heads = if is_latent { LATENT_HEADS } else { HEADS };
        let all = |buffer, first| HeadPart { buffer, heads, first };
        let [x, branch] = [self.x, self.branch];
        self.norm(x, WIDTH, branch);
        let [projected, q] = [heads * key_dim, heads * head_dim].map(|width| self.buffer(width));
        let [position, latent] = [ROTATED, LATENT].map(|width| self.buffer(width));
        self.multiply(branch, &[projected, position, latent]);
        self.norm(latent, LATENT, latent);
        // The last elements of a projected query have the position.
        self.copy(all(projected, PLAIN), all(q, 0), ROTATED);
        let out = self.buffer(heads * VALUE);
        let scale = 0.1;
        let attention = |state, out| Op::Attention { state, q, heads, scale, softcap: None, sinks: None, out };
        if is_latent {
            self.rotate(q, head_dim);
            self.rotate(position, ROTATED);
            self.multiply_heads([all(projected, 0), all(q, ROTATED)], [LATENT, PLAIN]);
            let state = self.plan.state(State { kind, kv_heads: 1, head_dim, values: Values::InKeys(LATENT) });
            self.plan.push(Op::StoreLatent { state, k: position, v: latent });
            let mixed = self.buffer(heads * LATENT);
            self.plan.push(attention(state, mixed));
            self.multiply_heads([all(mixed, 0), all(out, 0)], [VALUE, LATENT]);
        } else {
            self.copy(all(projected, 0), all(q, ROTATED), PLAIN);
            self.rotate(q, head_dim);
            let [both, k, v] = [heads * (PLAIN + VALUE), heads * head_dim, heads * VALUE].map(|w| self.buffer(w));
            self.multiply(latent, &[both]);
            self.copy(HeadPart { buffer: position, heads: 1, first: 0 }, all(k, 0), ROTATED);
            self.copy(all(both, 0), all(k, ROTATED), PLAIN);
            self.copy(all(both, PLAIN), all(v, 0), VALUE);
            self.rotate(k, head_dim);
            let state = self.plan.state(State { kind, kv_heads: heads, head_dim, values: Values::Rows(VALUE) });
            self.plan.push(Op::StoreKv { state, k, v });
            self.plan.push(attention(state, out));
        }
        self.multiply(out, &[branch]);
        self.plan.push(Op::Add { x, y: branch });
    }
}

/// Writes the model into a backend. Equal seeds give equal models.
pub(crate) fn latent(backend: &mut dyn Backend, dtype: DType, limits: Limits) -> (PlanId, BufferId) {
    let mut plan = Plan::default();
    let [x, branch] = [WIDTH; 2].map(|width| plan.buffer(Rows::Batch, width));
    let inverse_frequencies = (0..ROTATED / 2).map(|pair| 100f32.powf(-(pair as f32) / 16.0)).collect();
    let style = RopeStyle::Interleaved;
    let rope = plan.rope(Rope { style, inverse_frequencies, magnitude: 1.0, growth: None });
    let mut model = Model { backend, random: Random(23), plan, dtype, x, branch, rope };
    let table = model.weight(dtype, VOCABULARY, WIDTH, 1.0);
    model.plan.push(Op::Embed { table, out: x });
    model.attention(true);
    model.attention(false);
    let [last, logits] = [WIDTH, VOCABULARY].map(|width| model.plan.buffer(Rows::Logits, width));
    model.plan.push(Op::Gather { x, out: last });
    model.multiply(last, &[logits]);
    model.plan.logits = Some(logits);
    (model.backend.prepare(model.plan, limits).expect("the plan is sound"), logits)
}
