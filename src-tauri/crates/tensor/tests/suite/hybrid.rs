//! Tiny models that alternate recurrent layers and attention, and the snapshots of their sequences.

use cairn_gguf::DType;
use cairn_tensor::{
    Backend, Batch, BufferId, DeltaRule, Glu, HeadPart, KeySharing, Limits, Op, PlanId, SnapshotId, SnapshotTable,
    State, StateKind, StateSpace, Weight,
};

use crate::builder::Builder;
use crate::common::WIDTH;

/// Query heads, key/value heads and their width.
const HEADS: [usize; 3] = [4, 2, 64];
/// Rows of the convolutions.
const KERNELS: [usize; 2] = [3, 4];
/// Linear attention: key heads and their width, heads and their width, which is a whole and a partial block.
const LINEAR: [usize; 4] = [2, 24, 4, 48];
/// State space models: heads and their width, which is a whole and a partial block, and the rows of a state.
const SCAN: [usize; 3] = [4, 48, 24];
/// Snapshots of each sequence: two in turn, and one in the middle of a run.
pub(crate) const SNAPSHOTS: usize = 3;

/// Where each sequence continues.
#[derive(Default)]
pub(crate) struct Snapshots(Vec<Option<SnapshotId>>);

impl Snapshots {
    /// Adds the snapshots of a batch. The sequences that `complete` accepts continue from there in the next batch; the others repeat
    /// these rows, or continue a slice with them.
    pub(crate) fn link(&mut self, batch: &mut Batch, complete: impl Fn(u32) -> bool) {
        batch.snapshots = vec![SnapshotTable::default(); batch.tables.len()];
        self.0.resize(batch.tables.len().max(self.0.len()), None);
        for rows in batch.rows.chunk_by(|a, b| a.seq == b.seq) {
            let (seq, first) = (rows[0].seq, rows[0].slot);
            let [one, other, middle] = [0, 1, 2].map(|nth| SnapshotId(seq * SNAPSHOTS as u32 + nth));
            let from = self.0[seq as usize].filter(|_| first > 0);
            let to = if from == Some(one) { other } else { one };
            let half = rows.len() as u32 / 2;
            let mut all = Vec::from_iter((half > 0).then_some((first + half, middle)));
            all.push((first + rows.len() as u32, to));
            batch.snapshots[seq as usize] = SnapshotTable { from, to: all };
            if complete(seq) {
                self.0[seq as usize] = Some(to);
            }
        }
    }
}

fn norm(b: &mut Builder<'_>) {
    b.rms_norm(b.x, WIDTH, b.branch);
}

fn conv(b: &mut Builder<'_>, kernel: usize) {
    norm(b);
    let [before, after, input, mixed] = [WIDTH; 4].map(|width| b.buffer(width));
    b.multiply(b.branch, &[before, after, input]);
    b.plan.push(Op::Mul { x: before, y: input });
    let state = b.plan.recurrent((kernel - 1) * WIDTH);
    let weight = b.weight(DType::F32, WIDTH, kernel, 1.0);
    b.plan.push(Op::Conv { state, x: before, weight, bias: None, out: mixed });
    b.plan.push(Op::Mul { x: mixed, y: after });
    b.multiply(mixed, &[b.branch]);
    b.add_branch();
}

/// Linear attention with a convolution before it and a gated norm after it.
fn delta_rule(b: &mut Builder<'_>, sharing: KeySharing) {
    let [key_heads, key_dim, heads, value_dim] = LINEAR;
    norm(b);
    let width = 2 * key_heads * key_dim + heads * value_dim;
    let [qkv, mixed, pairs, decay, beta, gate, out] =
        [width, width, 2 * heads, heads, heads, heads * value_dim, heads * value_dim].map(|width| b.buffer(width));
    b.multiply(b.branch, &[qkv, pairs, gate]);
    let (state, weight) = (b.plan.recurrent(3 * width), b.weight(DType::F32, width, 4, 1.0));
    b.plan.push(Op::Conv { state, x: qkv, weight, bias: None, out: mixed });
    b.plan.push(Op::Silu { x: mixed });
    let part = |buffer, first| HeadPart { buffer, heads, first };
    for (first, out) in [(0, beta), (1, decay)] {
        b.plan.push(Op::CopyHeads { from: part(pairs, first), to: part(out, 0), width: 1 });
    }
    let rate = b.backend.upload(rates(heads)).expect("the bytes are those of the shape");
    let bias = b.weight(DType::F32, 1, heads, 1.0);
    b.plan.push(Op::Decay { x: decay, rate, bias });
    b.plan.push(Op::Sigmoid { x: beta });
    let state = b.plan.recurrent(heads * key_dim * value_dim);
    let eps = 1e-6;
    let rule = DeltaRule { state, qkv: mixed, decay, beta, key_heads, heads, key_dim, value_dim, sharing, eps, out };
    b.plan.push(Op::DeltaRule(rule));
    let weight = b.weight(DType::F32, 1, value_dim, 1.0);
    b.plan.push(Op::RmsNorm { x: out, weight, eps, group: value_dim, out });
    b.plan.push(Op::Glu { activation: Glu::Silu, gate, up: out, out: gate });
    // The quantised types have rows of whole blocks.
    let heads = b.buffer(WIDTH);
    b.multiply_as(DType::F32, gate, &[heads]);
    b.multiply(heads, &[b.branch]);
    b.add_branch();
}

/// A state space model with a convolution before it and a gated norm of each group after it.
fn scan(b: &mut Builder<'_>, groups: usize) {
    let [heads, head_dim, state_size] = SCAN;
    norm(b);
    let (inner, width) = (heads * head_dim, heads * head_dim + 2 * groups * state_size);
    let [gate, input, xbc, step, decay, out] = [inner, width, width, heads, heads, inner].map(|width| b.buffer(width));
    b.multiply(b.branch, &[gate, input, step]);
    let (state, weight) = (b.plan.recurrent(3 * width), b.weight(DType::F32, width, 4, 1.0));
    let bias = Some(b.weight(DType::F32, 1, width, 0.5));
    b.plan.push(Op::Conv { state, x: input, weight, bias, out: xbc });
    b.plan.push(Op::Silu { x: xbc });
    let rate = b.backend.upload(rates(heads)).expect("the bytes are those of the shape");
    let [bias, skip] = [1.0; 2].map(|scale| b.weight(DType::F32, 1, heads, scale));
    b.plan.push(Op::Discretise { x: step, rate, bias, decay });
    let state = b.plan.recurrent(heads * head_dim * state_size);
    let op = StateSpace { state, xbc, step, decay, skip, groups, heads, head_dim, state_size, out };
    b.plan.push(Op::StateSpace(op));
    b.plan.push(Op::Glu { activation: Glu::Silu, gate, up: out, out: gate });
    let weight = b.weight(DType::F32, 1, inner, 1.0);
    b.plan.push(Op::RmsNorm { x: gate, weight, eps: 1e-5, group: inner / groups, out: gate });
    // The quantised types have rows of whole blocks.
    let whole = b.buffer(WIDTH);
    b.multiply_as(DType::F32, gate, &[whole]);
    b.multiply(whole, &[b.branch]);
    b.add_branch();
}

fn attention(b: &mut Builder<'_>, kind: StateKind) {
    let [heads, kv_heads, head_dim] = HEADS;
    norm(b);
    let [q, out] = [heads * head_dim; 2].map(|width| b.buffer(width));
    let [k, v] = [kv_heads * head_dim; 2].map(|width| b.buffer(width));
    b.multiply(b.branch, &[q, k, v]);
    let state = b.plan.state(State::new(kind, kv_heads, head_dim));
    b.plan.push(Op::StoreKv { state, k, v });
    b.plan.push(Op::Attention { state, q, heads, scale: 0.05, softcap: None, sinks: None, out });
    b.multiply(out, &[b.branch]);
    b.add_branch();
}

fn mlp(b: &mut Builder<'_>) {
    norm(b);
    let [gate, up] = [WIDTH; 2].map(|width| b.buffer(width));
    b.multiply(b.branch, &[gate, up]);
    b.plan.push(Op::Glu { activation: Glu::Silu, gate, up, out: gate });
    b.multiply(gate, &[b.branch]);
    b.add_branch();
}

/// Rates at which states decay.
pub(crate) fn rates(heads: usize) -> Weight {
    let bytes: Vec<u8> = (0..heads).flat_map(|head| (-0.05 * (head + 1) as f32).to_le_bytes()).collect();
    Weight { name: "rates".to_owned(), dtype: DType::F32, rows: 1, cols: heads, bytes: bytes.into() }
}

/// Writes a model with short convolutions into a backend. Equal seeds give equal models.
pub(crate) fn hybrid(backend: &mut dyn Backend, dtype: DType, limits: Limits) -> (PlanId, BufferId) {
    model(backend, dtype, limits, |b| {
        for (kernel, kind) in KERNELS.into_iter().zip([StateKind::Full, StateKind::Window(100)]) {
            conv(b, kernel);
            mlp(b);
            attention(b, kind);
        }
    })
}

/// Writes a model with linear attention into a backend. Equal seeds give equal models.
pub(crate) fn linear(backend: &mut dyn Backend, dtype: DType, limits: Limits) -> (PlanId, BufferId) {
    model(backend, dtype, limits, |b| {
        delta_rule(b, KeySharing::Adjacent);
        attention(b, StateKind::Full);
        delta_rule(b, KeySharing::Tiled);
        mlp(b);
    })
}

/// Writes a model with state space models into a backend. Equal seeds give equal models.
pub(crate) fn state_space(backend: &mut dyn Backend, dtype: DType, limits: Limits) -> (PlanId, BufferId) {
    model(backend, dtype, limits, |b| {
        scan(b, 2);
        attention(b, StateKind::Full);
        scan(b, 1);
        mlp(b);
    })
}

fn model(
    backend: &mut dyn Backend,
    dtype: DType,
    limits: Limits,
    layers: impl FnOnce(&mut Builder<'_>),
) -> (PlanId, BufferId) {
    let mut builder = Builder::new(backend, 17, dtype);
    layers(&mut builder);
    let model = builder.finish(limits);
    backend.grow_snapshots(4 * SNAPSHOTS).expect("a few snapshots can be had");
    model
}
