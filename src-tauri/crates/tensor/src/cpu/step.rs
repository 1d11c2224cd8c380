//! One run of a plan on one thread, and the ops that work row by row.

use std::ops::Range;

use cairn_kernels::{AttendScratch, SPAN_POSITIONS, Scratch as ProductScratch, Variant};
use parking_lot::Mutex;

use super::blocks::{self, HeadShape};
use super::delta_scratch::DeltaScratch;
use super::expert_groups::ExpertScratch;
use super::pool::{Pool, Slot};
use super::prepared::{BatchRows, PreparedPlan};
use super::scan_scratch::ScanScratch;
use super::schedule::{self, Work, part_of};
use super::snapshots::Snapshots;
use super::squares::OpSquares;
use crate::batch::{Batch, Input};
use crate::page::Kv;
use crate::plan::{BufferId, Op, Plan, Rope, RopeStyle, Rows};
use crate::state::{State, StateId};
use crate::team::Worker;
use crate::team::share::Shared;
use crate::weight::{Weight, WeightId};

/// A run of a plan. All threads share it.
#[derive(Debug)]
pub(super) struct Run<'a> {
    /// The ops over all rows.
    pub(super) all: Step<'a>,
    /// The ops over the rows that are not in the slice.
    pub(super) others: Step<'a>,
    /// Ops in which the slice takes part.
    pub(super) slice_ops: Range<usize>,
}

/// Ops over some rows of a batch.
#[derive(Debug)]
pub(super) struct Step<'a> {
    pub(super) variant: &'static Variant,
    pub(super) weights: &'a [Weight],
    pub(super) vectors: &'a [Vec<f32>],
    pub(super) prepared: &'a PreparedPlan,
    pub(super) pool: &'a Pool,
    pub(super) snapshots: &'a Snapshots,
    pub(super) batch: &'a Batch,
    pub(super) rows: &'a BatchRows,
}

/// Scratch memory of one thread.
#[derive(Debug, Default)]
pub(super) struct Scratch {
    /// Unpacked weights.
    pub(super) product: ProductScratch,
    /// Unpacked pages and scores.
    pub(super) attend: AttendScratch,
    /// Memory for routing and for the columns of one expert.
    pub(super) experts: ExpertScratch,
    /// Results of a strip of weight rows, `[batch rows, strip]`.
    pub(super) tile: Vec<f32>,
    /// A row of a table.
    pub(super) row: Vec<f32>,
    /// Squared inputs of products, while they are collected.
    pub(super) squares: Option<OpSquares>,
    /// A block's queries, `[queries, head_dim]`.
    pub(super) q: Vec<f32>,
    /// First position that each query attends to.
    pub(super) first: Vec<u32>,
    /// End (exclusive) of the positions that each query attends to.
    pub(super) until: Vec<u32>,
    /// Biases of each query in the span in progress.
    pub(super) bias: Vec<[f32; SPAN_POSITIONS]>,
    /// Softmax over all spans so far: maxima, sums, values.
    pub(super) total: Vec<f32>,
    /// The same over one span.
    pub(super) span: Vec<f32>,
    /// Rows before those of a batch, for a convolution.
    pub(super) history: Vec<f32>,
    /// A block of a state, for linear attention.
    pub(super) delta: DeltaScratch,
    /// A block of a state and outputs, for state space models.
    pub(super) scan: ScanScratch,
}

impl Scratch {
    /// Allocates memory for a plan.
    pub(super) fn fit(&mut self, plan: &Plan, weights: &[Weight], rows: usize, block_rows: usize) {
        self.experts.fit(plan, weights, rows);
        self.delta.fit(plan);
        self.scan.fit(plan);
        let grow = |memory: &mut Vec<f32>, len: usize| memory.resize(len.max(memory.len()), 0.0);
        grow(&mut self.tile, rows * schedule::STRIP);
        let tables = plan.ops.iter().filter_map(|op| match op {
            Op::AddEmbedding { table, .. } | Op::AddGridEmbedding { table, .. } => Some(weights[table.0 as usize].cols),
            _ => None,
        });
        grow(&mut self.row, tables.max().unwrap_or(0));
        let states = plan.ops.iter().filter_map(|op| match op {
            Op::Conv { state, .. } => Some(plan.recurrent[state.0 as usize].elements),
            _ => None,
        });
        grow(&mut self.history, states.max().unwrap_or(0));
        // Threads take attention tasks dynamically, so each may get the largest one at any time.
        for HeadShape { head_dim, value_dim, group } in blocks::heads(plan) {
            self.attend.reserve(block_rows * group, head_dim, value_dim);
        }
        let elements = blocks::block_elements(plan, block_rows);
        grow(&mut self.q, elements);
        grow(&mut self.total, elements);
        grow(&mut self.span, elements);
        for positions in [&mut self.first, &mut self.until] {
            positions.resize(elements.max(positions.len()), 0);
        }
        let biased = blocks::biased_queries(plan, block_rows);
        self.bias.resize(biased.max(self.bias.len()), [0.0; SPAN_POSITIONS]);
    }
}

impl Run<'_> {
    /// Runs all phases.
    pub(super) fn thread(&self, worker: &Worker<'_>, scratch: &Mutex<Scratch>) {
        let scratch = &mut *scratch.lock();
        let prepared = self.all.prepared;
        let (mut had_slice, mut last_converted) = (true, None);
        // All threads skip the same phases, and wait at their barriers.
        let is_unused_adapter = |work: Work| match work {
            Work::Angles { .. } => false,
            Work::Convert { op, .. } | Work::Op { op } => {
                prepared.plan.ops[op].adapter().is_some_and(|adapter| !self.all.batch.uses_adapter(adapter))
            }
        };
        for (index, phase) in prepared.phases.iter().enumerate() {
            let has_slice = match phase.work {
                Work::Angles { .. } => true,
                Work::Convert { op, .. } | Work::Op { op } => self.slice_ops.contains(&op),
            };
            if !has_slice && self.others.rows.range.is_empty() {
                // A tile has no rows in other stages. The next phase begins with a barrier.
                had_slice = false;
                continue;
            }
            // Other rows are split over the threads in another way.
            if phase.barrier || has_slice != had_slice {
                worker.barrier();
            }
            had_slice = has_slice;
            let step = if has_slice { &self.all } else { &self.others };
            if is_unused_adapter(phase.work) {
                continue;
            }
            match phase.work {
                Work::Angles { rope } => step.angles(worker, rope),
                Work::Convert { op, format } => {
                    // A product with several formats converts its input several times.
                    if last_converted.replace(op) != Some(op)
                        && let Some(squares) = &mut scratch.squares
                    {
                        step.add_squares(worker, squares, op);
                    }
                    step.convert(worker, op, format);
                }
                Work::Op { op } => step.op(worker, scratch, index, &prepared.plan.ops[op]),
            }
        }
    }
}

impl Step<'_> {
    fn op(&self, worker: &Worker<'_>, scratch: &mut Scratch, phase: usize, op: &Op) {
        match op {
            Op::Embed { table, out } => self.embed(worker, Some(*table), *out),
            Op::EmbedTokens { table, out } => self.embed_tokens(worker, *table, *out),
            Op::Input { out } => self.embed(worker, None, *out),
            Op::AddEmbedding { x, table, component } => {
                self.add_embedding(worker, &mut scratch.row, *x, *table, *component);
            }
            Op::AddGridEmbedding { x, table, side } => {
                self.add_grid_embedding(worker, &mut scratch.row, *x, *table, *side);
            }
            Op::AddInput { x, first } => self.add_input(worker, *x, *first),
            Op::RmsNorm { x, weight, eps, group, out } => {
                self.norm(worker, [*x, *out], &self.vectors[weight.0 as usize], *group, *eps);
            }
            Op::LayerNorm { x, weight, bias, eps, out } => {
                let [weight, bias] = [Some(*weight), *bias].map(|id| id.map(|id| &self.vectors[id.0 as usize][..]));
                self.layer_norm(worker, [*x, *out], weight.expect("every norm has a weight"), bias, *eps);
            }
            Op::MatMul { projections, .. } | Op::MatMulAdapter { projections, .. } => {
                projections.iter().for_each(|projection| self.multiply(worker, scratch, projection));
            }
            Op::Route { .. } => self.route(worker, &mut scratch.experts, op),
            Op::MatMulId { .. } => self.multiply_experts(worker, scratch, op),
            Op::WeighInputs { x, routes, out } => self.weigh_inputs(worker, [*x, *routes, *out]),
            Op::Combine { x, routes, out } => self.combine(worker, [*x, *routes, *out]),
            Op::Rope { x, head_dim, rope } => self.rotate(worker, *x, *head_dim, *rope),
            Op::MatMulHeads { from, weight, to } => self.multiply_heads(worker, scratch, [*from, *to], *weight),
            Op::CopyHeads { from, to, width } => self.copy_heads(worker, [*from, *to], *width),
            Op::AddHeads { from, to, width } => self.add_heads(worker, [*from, *to], *width),
            Op::AddMixed { x, factors, width, out } => self.add_mixed(worker, [*x, *factors, *out], *width),
            Op::MatchLength { x, like } => self.match_length(worker, [*x, *like]),
            Op::KeepOutliers { x, deviations } => self.keep_outliers(worker, *x, *deviations),
            Op::AddWeight { x, weight } => {
                for row in self.own_rows(worker, *x) {
                    let weight = &self.vectors[weight.0 as usize];
                    (self.variant.add)(&mut self.buffer(*x).write(worker, self.row(*x, row)), weight);
                }
            }
            Op::MulWeight { x, weight } => {
                for row in self.own_rows(worker, *x) {
                    let weight = &self.vectors[weight.0 as usize];
                    (self.variant.mul)(&mut self.buffer(*x).write(worker, self.row(*x, row)), weight);
                }
            }
            Op::StoreKv { state, k, v } => self.store(worker, *state, [*k, *v]),
            Op::StoreLatent { state, k, v } => self.store_latent(worker, *state, [*k, *v]),
            Op::Attention { .. } | Op::PartAttention(_) => self.attention(worker, scratch, phase, op),
            Op::Conv { state, x, bias, out, .. } => {
                self.conv(worker, &mut scratch.history, *state, [*x, *out], *bias);
            }
            Op::DeltaRule(rule) => self.delta_rule(worker, &mut scratch.delta, rule),
            Op::Decay { x, rate, bias } => self.decay(worker, *x, [*rate, *bias]),
            Op::StateSpace(op) => self.state_space(worker, &mut scratch.scan, op),
            Op::Discretise { x, rate, bias, decay } => self.discretise(worker, [*x, *decay], [*rate, *bias]),
            Op::Glu { activation, gate, up, out } => self.glu(worker, *activation, [*gate, *up, *out]),
            Op::Gelu { x } => self.by_chunks(worker, *x, |x| (self.variant.gelu)(x)),
            Op::GeluErf { x } => self.by_chunks(worker, *x, |x| (self.variant.gelu_erf)(x)),
            Op::Sigmoid { x } => self.by_chunks(worker, *x, |x| (self.variant.sigmoid)(x)),
            Op::Silu { x } => self.by_chunks(worker, *x, |x| (self.variant.silu)(x)),
            Op::ReluSquared { x } => self.by_chunks(worker, *x, |x| (self.variant.relu_squared)(x)),
            Op::Relu { x } => self.by_chunks(worker, *x, |x| x.iter_mut().for_each(|x| *x = x.max(0.0))),
            // No rounding: all variants have the same bits.
            Op::Clamp { x, least, most } => {
                self.by_chunks(worker, *x, |x| x.iter_mut().for_each(|x| *x = x.clamp(*least, *most)));
            }
            Op::Softcap { x, cap } => self.by_chunks(worker, *x, |x| (self.variant.softcap)(x, *cap)),
            Op::Scale { x, factor } => {
                for row in self.own_rows(worker, *x) {
                    (self.variant.scale)(&mut self.buffer(*x).write(worker, self.row(*x, row)), *factor);
                }
            }
            Op::Add { x, y } => {
                for row in self.own_rows(worker, *x) {
                    let y = self.buffer(*y).read(worker, self.row(*y, row));
                    (self.variant.add)(&mut self.buffer(*x).write(worker, self.row(*x, row)), &y);
                }
            }
            Op::Mul { x, y } => self.multiply_elements(worker, [*x, *y]),
            Op::AddAdapter { adapter, x, y, factor } => self.add_adapter(worker, *adapter, [*x, *y], *factor),
            Op::Gather { x, out } => {
                for row in self.own_rows(worker, *out) {
                    let from = self.buffer(*x).read(worker, self.row(*x, self.batch_row(row)));
                    self.buffer(*out).write(worker, self.row(*out, row)).copy_from_slice(&from);
                }
            }
            Op::Mean { x, out } => self.mean(worker, [*x, *out]),
            Op::Join { x, count, out } => self.join(worker, [*x, *out], *count),
        }
    }

    pub(super) fn buffer(&self, id: BufferId) -> &Shared<f32> {
        &self.prepared.buffers[id.0 as usize]
    }

    pub(super) fn width(&self, id: BufferId) -> usize {
        self.prepared.plan.buffers[id.0 as usize].width
    }

    /// Rows of a buffer that the ops are over.
    pub(super) fn rows(&self, id: BufferId) -> Range<usize> {
        match self.prepared.plan.buffers[id.0 as usize].rows {
            Rows::Batch => self.rows.range.clone(),
            Rows::Logits => self.rows.first_logit_row..self.rows.first_logit_row + self.rows.logit_rows.len(),
        }
    }

    /// The batch's row of a row of logits.
    pub(super) fn batch_row(&self, logit_row: usize) -> usize {
        self.rows.logit_rows[logit_row - self.rows.first_logit_row]
    }

    /// Rows of a buffer that are this thread's.
    pub(super) fn own_rows(&self, worker: &Worker<'_>, id: BufferId) -> Range<usize> {
        part_of(self.rows(id), worker.threads(), worker.index())
    }

    /// Elements of one row.
    pub(super) fn row(&self, id: BufferId, row: usize) -> Range<usize> {
        let width = self.width(id);
        row * width..(row + 1) * width
    }

    pub(super) fn state(&self, id: StateId) -> State {
        self.prepared.plan.states[id.0 as usize]
    }

    /// Angles grow with the context beyond the precision of f32, so products and cosines use f64.
    fn angles(&self, worker: &Worker<'_>, rope: usize) {
        let (rope, table) = (&self.prepared.plan.ropes[rope], &self.prepared.angles[rope]);
        let pairs = rope.inverse_frequencies.len();
        for row in part_of(self.rows.range.clone(), worker.threads(), worker.index()) {
            let pos = self.batch.rows[row].pos;
            let magnitude = rope.magnitude_at(pos[0]);
            let mut angles = table.write(worker, row * 2 * pairs..(row + 1) * 2 * pairs);
            let (cosines, sines) = angles.split_at_mut(pairs);
            let pairs = cosines.iter_mut().zip(sines).zip(&rope.inverse_frequencies).enumerate();
            for (pair, ((cosine, sine), frequency)) in pairs {
                let (sin, cos) = (f64::from(rope.position(pair, pos)) * f64::from(*frequency)).sin_cos();
                *cosine = (cos * magnitude) as f32;
                *sine = (sin * magnitude) as f32;
            }
        }
    }

    fn embed(&self, worker: &Worker<'_>, table: Option<WeightId>, out: BufferId) {
        let (table, width) = (table.map(|table| &self.weights[table.0 as usize]), self.prepared.plan.input_width());
        for row in self.own_rows(worker, out) {
            let mut out = self.buffer(out).write(worker, self.row(out, row));
            match self.batch.rows[row].input {
                Input::Token(token) => {
                    let (token, table) = (token as usize, table.expect("the batch was checked"));
                    (self.variant.decode_row)(table.dtype, table.row_bytes(token..token + 1), &mut out);
                }
                Input::Embedding(at) => {
                    let used = out.len();
                    out.copy_from_slice(&self.batch.embeddings[at as usize * width..][..used]);
                }
            }
        }
    }

    fn embed_tokens(&self, worker: &Worker<'_>, table: WeightId, out: BufferId) {
        let table = &self.weights[table.0 as usize];
        for row in self.own_rows(worker, out) {
            let token = self.batch.rows[row].input.token_or_padding() as usize;
            let mut out = self.buffer(out).write(worker, self.row(out, row));
            (self.variant.decode_row)(table.dtype, table.row_bytes(token..token + 1), &mut out);
        }
    }

    fn add_embedding(&self, worker: &Worker<'_>, memory: &mut [f32], x: BufferId, table: WeightId, component: usize) {
        let table = &self.weights[table.0 as usize];
        let memory = &mut memory[..table.cols];
        for row in self.own_rows(worker, x) {
            let index = self.batch.rows[row].pos[component] as usize;
            (self.variant.decode_row)(table.dtype, table.row_bytes(index..index + 1), memory);
            (self.variant.add)(&mut self.buffer(x).write(worker, self.row(x, row)), memory);
        }
    }

    fn add_adapter(&self, worker: &Worker<'_>, adapter: u32, [x, y]: [BufferId; 2], factor: f32) {
        for row in self.own_rows(worker, x) {
            let batch_row = match self.prepared.plan.buffers[x.0 as usize].rows {
                Rows::Batch => row,
                Rows::Logits => self.batch_row(row),
            };
            let Some(scale) = self.batch.adapter_scale(batch_row, adapter) else { continue };
            let mut y = self.buffer(y).write(worker, self.row(y, row));
            (self.variant.scale)(&mut y, factor * scale);
            (self.variant.add)(&mut self.buffer(x).write(worker, self.row(x, row)), &y);
        }
    }

    fn norm(&self, worker: &Worker<'_>, [x, out]: [BufferId; 2], weight: &[f32], group: usize, eps: f32) {
        for row in self.own_rows(worker, x) {
            let weights = weight.chunks(group).cycle();
            let mut to = self.buffer(out).write(worker, self.row(out, row));
            if x == out {
                let groups = to.chunks_mut(group).zip(weights);
                groups.for_each(|(x, weight)| (self.variant.rms_norm_in_place)(x, weight, eps));
            } else {
                let from = self.buffer(x).read(worker, self.row(x, row));
                let groups = from.chunks(group).zip(to.chunks_mut(group)).zip(weights);
                groups.for_each(|((x, out), weight)| (self.variant.rms_norm)(x, weight, eps, out));
            }
        }
    }

    fn layer_norm(&self, worker: &Worker<'_>, [x, out]: [BufferId; 2], weight: &[f32], bias: Option<&[f32]>, eps: f32) {
        for row in self.own_rows(worker, x) {
            let mut to = self.buffer(out).write(worker, self.row(out, row));
            if x != out {
                to.copy_from_slice(&self.buffer(x).read(worker, self.row(x, row)));
            }
            (self.variant.layer_norm)(&mut to, weight, eps);
            if let Some(bias) = bias {
                (self.variant.add)(&mut to, bias);
            }
        }
    }

    /// The rows of a group are added in ascending order.
    fn mean(&self, worker: &Worker<'_>, [x, out]: [BufferId; 2]) {
        for row in self.own_rows(worker, out) {
            let last = self.batch_row(row);
            let first = match row.checked_sub(self.rows.first_logit_row + 1) {
                Some(before) => self.rows.logit_rows[before] + 1,
                None => self.rows.range.start,
            };
            let mut to = self.buffer(out).write(worker, self.row(out, row));
            to.copy_from_slice(&self.buffer(x).read(worker, self.row(x, first)));
            for other in first + 1..=last {
                (self.variant.add)(&mut to, &self.buffer(x).read(worker, self.row(x, other)));
            }
            (self.variant.scale)(&mut to, 1.0 / (last + 1 - first) as f32);
        }
    }

    fn multiply_elements(&self, worker: &Worker<'_>, [x, y]: [BufferId; 2]) {
        let group = self.width(x) / self.width(y);
        for row in self.own_rows(worker, x) {
            let y = self.buffer(y).read(worker, self.row(y, row));
            let mut x = self.buffer(x).write(worker, self.row(x, row));
            if group == 1 {
                (self.variant.mul)(&mut x, &y);
            } else {
                x.chunks_mut(group).zip(&*y).for_each(|(x, y)| (self.variant.scale)(x, *y));
            }
        }
    }

    fn rotate(&self, worker: &Worker<'_>, x: BufferId, head_dim: usize, rope: usize) {
        let Rope { style, inverse_frequencies, .. } = &self.prepared.plan.ropes[rope];
        let pairs = inverse_frequencies.len();
        for row in self.own_rows(worker, x) {
            let angles = self.prepared.angles[rope].read(worker, row * 2 * pairs..(row + 1) * 2 * pairs);
            let (cosines, sines) = angles.split_at(pairs);
            let mut x = self.buffer(x).write(worker, self.row(x, row));
            for head in x.chunks_mut(head_dim) {
                (self.variant.rope)(head, cosines, sines, *style == RopeStyle::Interleaved);
            }
        }
    }

    fn store(&self, worker: &Worker<'_>, state: StateId, kv: [BufferId; 2]) {
        let dims = [self.state(state).head_dim, self.state(state).value_dim()];
        let dtype = self.pool.layout().dtype;
        for index in self.own_rows(worker, kv[0]) {
            let row = &self.batch.rows[index];
            let slot = row.slot as usize;
            let page = self.batch.tables[row.seq as usize][slot / crate::PAGE_TOKENS];
            for ((kv, buffer), dim) in Kv::ALL.into_iter().zip(kv).zip(dims) {
                let from = self.buffer(buffer).read(worker, self.row(buffer, index));
                for (head, from) in from.chunks(dim).enumerate() {
                    let mut to = self.pool.write(worker, page, Slot { state, kv, head, slot });
                    (self.variant.encode_row)(dtype, from, &mut to);
                }
            }
        }
    }
}
