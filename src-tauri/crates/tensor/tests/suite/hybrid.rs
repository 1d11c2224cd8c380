//! Tiny models that alternate recurrent layers and attention, and the snapshots of their sequences.

use cairn_gguf::DType;
use cairn_tensor::{
    Backend, Batch, BufferId, DeltaRule, Glu, KeySharing, Limits, Op, Plan, PlanId, Projection, Rows, SnapshotId,
    SnapshotTable, State, StateKind, Weight, WeightId,
};

use crate::common::{Random, VOCABULARY, WIDTH, matrix};

/// Query heads, key/value heads and their width.
const HEADS: [usize; 3] = [4, 2, 64];
/// Rows of the convolutions.
const KERNELS: [usize; 2] = [3, 4];
/// Linear attention: key heads and their width, heads and their width, which is a whole and a partial block.
const LINEAR: [usize; 4] = [2, 24, 4, 48];
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

struct Model<'a> {
    backend: &'a mut dyn Backend,
    random: Random,
    plan: Plan,
    dtype: DType,
    x: BufferId,
    branch: BufferId,
}

impl Model<'_> {
    fn weight(&mut self, dtype: DType, rows: usize, cols: usize, scale: f32) -> WeightId {
        let matrix = matrix(&mut self.random, dtype, rows, cols, scale);
        self.backend.upload(matrix).expect("the bytes are those of the shape")
    }

    fn multiply(&mut self, x: BufferId, outs: &[BufferId]) {
        let widths = |plan: &Plan, id: BufferId| plan.buffers[id.0 as usize].width;
        let project = |out: &BufferId| {
            let (rows, cols) = (widths(&self.plan, *out), widths(&self.plan, x));
            Projection { weight: self.weight(self.dtype, rows, cols, 0.2), bias: None, out: *out }
        };
        let projections = outs.iter().map(project).collect();
        self.plan.push(Op::MatMul { x, projections });
    }

    fn multiply_as(&mut self, dtype: DType, x: BufferId, out: BufferId) {
        let before = std::mem::replace(&mut self.dtype, dtype);
        self.multiply(x, &[out]);
        self.dtype = before;
    }

    fn norm(&mut self) {
        let weight = self.weight(DType::F32, 1, WIDTH, 1.0);
        self.plan.push(Op::RmsNorm { x: self.x, weight, eps: 1e-5, group: WIDTH, out: self.branch });
    }

    fn conv(&mut self, kernel: usize) {
        self.norm();
        let [before, after, input, mixed] = [WIDTH; 4].map(|width| self.plan.buffer(Rows::Batch, width));
        self.multiply(self.branch, &[before, after, input]);
        self.plan.push(Op::Mul { x: before, y: input });
        let state = self.plan.recurrent((kernel - 1) * WIDTH);
        let weight = self.weight(DType::F32, WIDTH, kernel, 1.0);
        self.plan.push(Op::Conv { state, x: before, weight, out: mixed });
        self.plan.push(Op::Mul { x: mixed, y: after });
        self.multiply(mixed, &[self.branch]);
        self.plan.push(Op::Add { x: self.x, y: self.branch });
    }

    /// Linear attention with a convolution before it and a gated norm after it.
    fn linear(&mut self, sharing: KeySharing) {
        let [key_heads, key_dim, heads, value_dim] = LINEAR;
        self.norm();
        let width = 2 * key_heads * key_dim + heads * value_dim;
        let [qkv, mixed, pairs, decay, beta, gate, out] =
            [width, width, 2 * heads, heads, heads, heads * value_dim, heads * value_dim]
                .map(|width| self.plan.buffer(Rows::Batch, width));
        self.multiply(self.branch, &[qkv, pairs, gate]);
        let (state, weight) = (self.plan.recurrent(3 * width), self.weight(DType::F32, width, 4, 1.0));
        self.plan.push(Op::Conv { state, x: qkv, weight, out: mixed });
        self.plan.push(Op::Silu { x: mixed });
        [(0, beta), (1, decay)]
            .into_iter()
            .for_each(|(start, out)| self.plan.push(Op::Part { x: pairs, group: 2, start, out }));
        let rate = self.backend.upload(rates(heads)).expect("the bytes are those of the shape");
        let bias = self.weight(DType::F32, 1, heads, 1.0);
        self.plan.push(Op::Decay { x: decay, rate, bias });
        self.plan.push(Op::Sigmoid { x: beta });
        let state = self.plan.recurrent(heads * key_dim * value_dim);
        let eps = 1e-6;
        let rule =
            DeltaRule { state, qkv: mixed, decay, beta, key_heads, heads, key_dim, value_dim, sharing, eps, out };
        self.plan.push(Op::DeltaRule(rule));
        let weight = self.weight(DType::F32, 1, value_dim, 1.0);
        self.plan.push(Op::RmsNorm { x: out, weight, eps, group: value_dim, out });
        self.plan.push(Op::Glu { activation: Glu::Silu, gate, up: out, out: gate });
        // The quantised types have rows of whole blocks.
        let heads = self.plan.buffer(Rows::Batch, WIDTH);
        self.multiply_as(DType::F32, gate, heads);
        self.multiply(heads, &[self.branch]);
        self.plan.push(Op::Add { x: self.x, y: self.branch });
    }

    fn attention(&mut self, kind: StateKind) {
        let [heads, kv_heads, head_dim] = HEADS;
        self.norm();
        let [q, out] = [heads * head_dim; 2].map(|width| self.plan.buffer(Rows::Batch, width));
        let [k, v] = [kv_heads * head_dim; 2].map(|width| self.plan.buffer(Rows::Batch, width));
        self.multiply(self.branch, &[q, k, v]);
        let state = self.plan.state(State::new(kind, kv_heads, head_dim));
        self.plan.push(Op::StoreKv { state, k, v });
        self.plan.push(Op::Attention { state, q, heads, scale: 0.05, softcap: None, sinks: None, out });
        self.multiply(out, &[self.branch]);
        self.plan.push(Op::Add { x: self.x, y: self.branch });
    }

    fn mlp(&mut self) {
        self.norm();
        let [gate, up] = [WIDTH; 2].map(|width| self.plan.buffer(Rows::Batch, width));
        self.multiply(self.branch, &[gate, up]);
        self.plan.push(Op::Glu { activation: Glu::Silu, gate, up, out: gate });
        self.multiply(gate, &[self.branch]);
        self.plan.push(Op::Add { x: self.x, y: self.branch });
    }
}

/// Rates at which states decay.
pub(crate) fn rates(heads: usize) -> Weight {
    let bytes: Vec<u8> = (0..heads).flat_map(|head| (-0.05 * (head + 1) as f32).to_le_bytes()).collect();
    Weight { name: "rates".to_owned(), dtype: DType::F32, rows: 1, cols: heads, bytes: bytes.into() }
}

/// Writes a model with short convolutions into a backend. Equal seeds give equal models.
pub(crate) fn hybrid(backend: &mut dyn Backend, dtype: DType, limits: Limits) -> (PlanId, BufferId) {
    model(backend, dtype, limits, |model| {
        for (kernel, kind) in KERNELS.into_iter().zip([StateKind::Full, StateKind::Window(100)]) {
            model.conv(kernel);
            model.mlp();
            model.attention(kind);
        }
    })
}

/// Writes a model with linear attention into a backend. Equal seeds give equal models.
pub(crate) fn linear(backend: &mut dyn Backend, dtype: DType, limits: Limits) -> (PlanId, BufferId) {
    model(backend, dtype, limits, |model| {
        model.linear(KeySharing::Adjacent);
        model.attention(StateKind::Full);
        model.linear(KeySharing::Tiled);
        model.mlp();
    })
}

fn model(
    backend: &mut dyn Backend,
    dtype: DType,
    limits: Limits,
    layers: impl FnOnce(&mut Model<'_>),
) -> (PlanId, BufferId) {
    let mut plan = Plan::default();
    let [x, branch] = [WIDTH; 2].map(|width| plan.buffer(Rows::Batch, width));
    let mut model = Model { backend, random: Random(17), plan, dtype, x, branch };
    let table = model.weight(dtype, VOCABULARY, WIDTH, 1.0);
    model.plan.push(Op::Embed { table, out: x });
    layers(&mut model);
    let [last, logits] = [WIDTH, VOCABULARY].map(|width| model.plan.buffer(Rows::Logits, width));
    model.plan.push(Op::Gather { x, out: last });
    model.multiply(last, &[logits]);
    model.plan.logits = Some(logits);
    let plan = model.backend.prepare(model.plan, limits).expect("the plan is sound");
    backend.grow_snapshots(4 * SNAPSHOTS).expect("a few snapshots can be had");
    (plan, logits)
}
