//! One run of the oracle, op by op.

use std::ops::Range;

use super::{arithmetic, experts};
use crate::batch::{Batch, Input, Row};
use crate::page::{PAGE_TOKENS, PageLayout};
use crate::plan::{BufferId, Op, Plan, Projection, Rows};
use crate::state::{State, StateId, StateKind};
use crate::weight::{Weight, WeightId};

/// One run in progress.
pub(super) struct Step<'a> {
    pub(super) plan: &'a Plan,
    pub(super) batch: &'a Batch,
    pub(super) weights: &'a [Weight],
    pub(super) layout: &'a PageLayout,
    pub(super) pages: &'a mut [Vec<u8>],
    pub(super) snapshots: &'a mut [Vec<f32>],
    pub(super) buffers: &'a mut [Vec<f32>],
}

impl Step<'_> {
    pub(super) fn op(&mut self, op: &Op) {
        match op {
            Op::Embed { table, out } => self.embed(Some(*table), *out),
            Op::EmbedTokens { table, out } => {
                let tokens = self.batch.rows.iter().map(|row| row.input.token_or_padding() as usize);
                self.buffers[out.0 as usize] = tokens.flat_map(|token| self.weight_row(*table, token)).collect();
            }
            Op::Input { out } => self.embed(None, *out),
            Op::AddEmbedding { x, table, component } => {
                let width = self.width(*x);
                for (index, row) in self.batch.rows.iter().enumerate() {
                    let added = self.weight_row(*table, row.pos[*component] as usize);
                    let x = &mut self.buffers[x.0 as usize][index * width..][..width];
                    x.iter_mut().zip(added).for_each(|(x, y)| *x += y);
                }
            }
            Op::AddGridEmbedding { x, table, side } => self.add_grid_embedding(*x, *table, *side),
            Op::AddInput { x, first } => self.add_input(*x, *first),
            Op::RmsNorm { x, weight, eps, group, out } => {
                let weight = self.weight_row(*weight, 0);
                let mut y = self.copy(*x);
                let groups = y.chunks_mut(*group).zip(weight.chunks(*group).cycle());
                groups.for_each(|(x, weight)| arithmetic::rms_norm(x, weight, *eps));
                self.buffers[out.0 as usize] = y;
            }
            Op::LayerNorm { x, weight, bias, eps, out } => {
                let [weight, bias] = [Some(*weight), *bias].map(|id| id.map(|id| self.weight_row(id, 0)));
                let weight = weight.expect("every norm has a weight");
                let mut y = self.copy(*x);
                y.chunks_mut(weight.len()).for_each(|x| arithmetic::layer_norm(x, &weight, bias.as_deref(), *eps));
                self.buffers[out.0 as usize] = y;
            }
            Op::MatMul { x, projections } | Op::MatMulAdapter { x, projections, .. } => {
                let x = self.copy(*x);
                projections.iter().for_each(|projection| self.multiply(&x, projection));
            }
            Op::Route { logits, router, out } => {
                let (logits, width) = (self.copy(*logits), self.width(*logits));
                let [bias, scales] =
                    [router.choice_bias, router.expert_scales].map(|id| id.map(|id| self.weight_row(id, 0)));
                let route = |row| experts::route(row, router, bias.as_deref(), scales.as_deref());
                let routes = logits.chunks(width).flat_map(route);
                self.buffers[out.0 as usize] = routes.collect();
            }
            Op::MatMulId { x, routes, experts, projections } => {
                projections.iter().for_each(|projection| self.multiply_experts(*x, *routes, *experts, projection));
            }
            Op::WeighInputs { x, routes, out } => {
                let (width, routes_width) = (self.width(*x), self.width(*routes));
                let used = routes_width / 2;
                let (x, mut routes_after) = (self.copy(*x), self.copy(*routes));
                let rows = x.chunks(width).zip(routes_after.chunks_mut(routes_width));
                let weighed = rows.flat_map(|(x, routes)| experts::weigh(x, &mut routes[used..]));
                self.buffers[out.0 as usize] = weighed.collect();
                self.buffers[routes.0 as usize] = routes_after;
            }
            Op::Combine { x, routes, out } => {
                let (parts, widths) = (self.copy(*x), [*x, *routes].map(|id| self.width(id)));
                let rows = parts.chunks(widths[0]).zip(self.buffers[routes.0 as usize].chunks(widths[1]));
                self.buffers[out.0 as usize] = rows.flat_map(|(x, routes)| experts::combine(x, routes)).collect();
            }
            Op::Rope { x, head_dim, rope } => {
                let rope = &self.plan.ropes[*rope];
                let width = self.width(*x);
                let rows = self.buffers[x.0 as usize].chunks_mut(width);
                for (x, row) in rows.zip(&self.batch.rows) {
                    x.chunks_mut(*head_dim).for_each(|head| arithmetic::rotate(head, rope, row.pos));
                }
            }
            Op::MatMulHeads { from, weight, to } => self.multiply_heads(*from, *weight, *to),
            Op::CopyHeads { from, to, width } => self.copy_heads(*from, *to, *width),
            Op::AddHeads { from, to, width } => self.add_heads(*from, *to, *width),
            Op::AddMixed { x, factors, width, out } => self.add_mixed([*x, *factors, *out], *width),
            Op::MatchLength { x, like } => self.match_length(*x, *like),
            Op::KeepOutliers { x, deviations } => self.keep_outliers(*x, *deviations),
            Op::AddWeight { x, weight } => {
                let weight = self.weight_row(*weight, 0);
                let rows = self.buffers[x.0 as usize].chunks_mut(weight.len());
                rows.for_each(|x| x.iter_mut().zip(&weight).for_each(|(x, weight)| *x += weight));
            }
            Op::MulWeight { x, weight } => {
                let weight = self.weight_row(*weight, 0);
                let rows = self.buffers[x.0 as usize].chunks_mut(weight.len());
                rows.for_each(|x| x.iter_mut().zip(&weight).for_each(|(x, weight)| *x *= weight));
            }
            Op::StoreKv { state, k, v } => self.store(*state, *k, *v),
            Op::StoreLatent { state, k, v } => self.store_latent(*state, *k, *v),
            Op::Attention { state, q, heads, scale, softcap, sinks, out } => {
                let mut y = self.copy(*out);
                let (head_dim, value_dim) = (self.state(*state).head_dim, self.state(*state).value_dim());
                let q = self.copy(*q);
                let sinks = sinks.map(|sinks| self.weight_row(sinks, 0));
                for (index, row) in self.batch.rows.iter().enumerate() {
                    let group = heads / self.state(*state).kv_heads;
                    for kv_head in 0..self.state(*state).kv_heads {
                        let seen = self.visible(*state, row, kv_head);
                        for head in kv_head * group..(kv_head + 1) * group {
                            let nth = index * heads + head;
                            let (q, y) = (&q[nth * head_dim..][..head_dim], &mut y[nth * value_dim..][..value_dim]);
                            let sink = sinks.as_ref().map(|sinks| sinks[head]);
                            arithmetic::attend(q, &seen, *scale, *softcap, sink, y);
                        }
                    }
                }
                self.buffers[out.0 as usize] = y;
            }
            Op::PartAttention(op) => self.part_attention(op),
            Op::Conv { state, x, weight, bias, out } => self.conv(*state, [*x, *out], *weight, *bias),
            Op::DeltaRule(rule) => self.delta_rule(rule),
            Op::Decay { x, rate, bias } => self.decay(*x, *rate, *bias),
            Op::StateSpace(op) => self.state_space(op),
            Op::Discretise { x, rate, bias, decay } => self.discretise([*x, *decay], *rate, *bias),
            Op::Glu { activation, gate, up, out } => {
                let pairs = self.copy(*gate).into_iter().zip(self.copy(*up));
                self.buffers[out.0 as usize] = pairs.map(|(g, u)| arithmetic::glu(*activation, g, u)).collect();
            }
            Op::Gelu { x } => self.each(*x, arithmetic::gelu),
            Op::GeluErf { x } => self.each(*x, arithmetic::gelu_erf),
            Op::Sigmoid { x } => self.each(*x, arithmetic::sigmoid),
            Op::Silu { x } => self.each(*x, |x| x / (1.0 + (-x).exp())),
            Op::ReluSquared { x } => self.each(*x, |x| x.max(0.0).powi(2)),
            Op::Relu { x } => self.each(*x, |x| x.max(0.0)),
            Op::Scale { x, factor } => self.each(*x, |x| x * f64::from(*factor)),
            Op::Clamp { x, least, most } => self.each(*x, |x| x.clamp(f64::from(*least), f64::from(*most))),
            Op::Softcap { x, cap } => self.each(*x, |x| f64::from(*cap) * (x / f64::from(*cap)).tanh()),
            Op::Add { x, y } => {
                let y = self.copy(*y);
                self.buffers[x.0 as usize].iter_mut().zip(y).for_each(|(x, y)| *x += y);
            }
            Op::AddAdapter { adapter, x, y, factor } => {
                let (y, width) = (self.copy(*y), self.width(*x));
                let is_logits = self.plan.buffers[x.0 as usize].rows == Rows::Logits;
                let rows = (0..self.batch.rows.len()).filter(|row| !is_logits || self.batch.rows[*row].want_logits);
                let out = self.buffers[x.0 as usize].chunks_mut(width);
                for (row, (x, y)) in rows.zip(out.zip(y.chunks(width))) {
                    let Some(scale) = self.batch.adapter_scale(row, *adapter) else { continue };
                    let scale = f64::from(*factor) * f64::from(scale);
                    x.iter_mut().zip(y).for_each(|(x, y)| *x = (f64::from(*x) + scale * f64::from(*y)) as f32);
                }
            }
            Op::Mul { x, y } => {
                let (y, group) = (self.copy(*y), self.width(*x) / self.width(*y));
                let rows = self.buffers[x.0 as usize].chunks_mut(group).zip(y);
                rows.for_each(|(x, y)| x.iter_mut().for_each(|x| *x *= y));
            }
            Op::Gather { x, out } => {
                let width = self.width(*x);
                let rows = self.batch.rows.iter().zip(self.buffers[x.0 as usize].chunks(width));
                let wanted = rows.filter(|(row, _)| row.want_logits).flat_map(|(_, x)| x.iter().copied()).collect();
                self.buffers[out.0 as usize] = wanted;
            }
            Op::Join { x, count, out } => self.join(*x, *count, *out),
            Op::Mean { x, out } => {
                let (x, width) = (self.copy(*x), self.width(*x));
                let groups = self.batch.rows.split_inclusive(|row| row.want_logits);
                let mut first = 0;
                let mut means = Vec::new();
                for group in groups.filter(|group| group.last().is_some_and(|row| row.want_logits)) {
                    let rows = first..first + group.len();
                    first = rows.end;
                    let element = |at: usize| rows.clone().map(|row| f64::from(x[row * width + at])).sum::<f64>();
                    means.extend((0..width).map(|at| (element(at) / group.len() as f64) as f32));
                }
                self.buffers[out.0 as usize] = means;
            }
        }
    }

    /// Replaces each element of a buffer.
    fn each(&mut self, id: BufferId, formula: impl Fn(f64) -> f64) {
        self.buffers[id.0 as usize].iter_mut().for_each(|x| *x = formula(f64::from(*x)) as f32);
    }

    pub(super) fn copy(&self, id: BufferId) -> Vec<f32> {
        self.buffers[id.0 as usize].clone()
    }

    pub(super) fn width(&self, id: BufferId) -> usize {
        self.plan.buffers[id.0 as usize].width
    }

    pub(super) fn state(&self, id: StateId) -> State {
        self.plan.states[id.0 as usize]
    }

    /// Elements of a key and of a value.
    fn dims(&self, id: StateId) -> [usize; 2] {
        [self.state(id).head_dim, self.state(id).value_dim()]
    }

    /// One row of a weight as f32, exactly.
    pub(super) fn weight_row(&self, id: WeightId, row: usize) -> Vec<f32> {
        let Weight { dtype, cols, bytes, .. } = &self.weights[id.0 as usize];
        let row_bytes = dtype.row_bytes(*cols);
        let mut out = vec![0.0; *cols];
        dtype.decode(&bytes[row * row_bytes..(row + 1) * row_bytes], &mut out);
        out
    }

    fn embed(&mut self, table: Option<WeightId>, out: BufferId) {
        let (width, input_width) = (self.width(out), self.plan.input_width());
        for (index, row) in self.batch.rows.iter().enumerate() {
            let from = match row.input {
                Input::Token(token) => self.weight_row(table.expect("the batch was checked"), token as usize),
                Input::Embedding(at) => self.batch.embeddings[at as usize * input_width..][..width].to_vec(),
            };
            self.buffers[out.0 as usize][index * width..][..width].copy_from_slice(&from);
        }
    }

    fn multiply(&mut self, x: &[f32], projection: &Projection) {
        let Weight { rows, cols, .. } = self.weights[projection.weight.0 as usize];
        let bias = projection.bias.map(|bias| self.weight_row(bias, 0));
        for row in 0..rows {
            let weight = self.weight_row(projection.weight, row);
            for (index, x) in x.chunks(cols).enumerate() {
                let sum = arithmetic::dot(x, &weight) + bias.as_ref().map_or(0.0, |bias| f64::from(bias[row]));
                self.buffers[projection.out.0 as usize][index * rows + row] = sum as f32;
            }
        }
    }

    /// Returns the page of a slot, and the byte ranges of its key and value for one head.
    pub(super) fn place(&self, state: StateId, seq: u32, slot: usize, kv_head: usize) -> (usize, [Range<usize>; 2]) {
        let page = self.batch.tables[seq as usize][slot / PAGE_TOKENS].0 as usize;
        let place = |kv: usize| {
            let row_bytes = self.layout.row_bytes[state.0 as usize][kv];
            let section = self.layout.sections[state.0 as usize][kv];
            let at = section + (kv_head * PAGE_TOKENS + slot % PAGE_TOKENS) * row_bytes;
            at..at + row_bytes
        };
        let (key, value) = (place(0), place(1));
        let inside = key.start + self.layout.value_offsets[state.0 as usize]..key.end;
        (page, [key, if value.is_empty() { inside } else { value }])
    }

    fn store(&mut self, state: StateId, k: BufferId, v: BufferId) {
        let (kv_heads, dims) = (self.state(state).kv_heads, self.dims(state));
        for (index, row) in self.batch.rows.iter().enumerate() {
            for kv_head in 0..kv_heads {
                let (page, places) = self.place(state, row.seq, row.slot as usize, kv_head);
                for ((buffer, place), dim) in [k, v].into_iter().zip(places).zip(dims) {
                    let from = &self.buffers[buffer.0 as usize][(index * kv_heads + kv_head) * dim..][..dim];
                    let mut row = Vec::new();
                    self.layout
                        .dtype
                        .encode(from, &mut row)
                        .expect("types of pages have encoders, and heads whole blocks");
                    self.pages[page][place].copy_from_slice(&row);
                }
            }
        }
    }

    /// Returns the visible keys and values of a row, in ascending slots.
    fn visible(&self, state: StateId, row: &Row, kv_head: usize) -> Vec<[Vec<f32>; 2]> {
        let (slot, end) = (row.slot as usize, row.until as usize);
        let visible = match self.state(state).kind {
            StateKind::Full => 0..end,
            StateKind::Causal => 0..slot + 1,
            StateKind::Window(window) => (slot + 1).saturating_sub(window as usize)..end,
            StateKind::Chunk(tokens) => slot / tokens as usize * tokens as usize..end,
            StateKind::Around(side) => slot.saturating_sub(side as usize)..end.min(slot + 1 + side as usize),
            StateKind::Region => row.pos[2] as usize..end.min(row.pos[3] as usize),
        };
        self.key_values(state, row.seq, kv_head, visible)
    }

    /// Returns the keys and values of some slots.
    pub(super) fn key_values(
        &self,
        state: StateId,
        seq: u32,
        kv_head: usize,
        slots: Range<usize>,
    ) -> Vec<[Vec<f32>; 2]> {
        let at = |slot| {
            let (page, [key, value]) = self.place(state, seq, slot, kv_head);
            let [key_dim, value_dim] = self.dims(state);
            [(key, key_dim), (value, value_dim)].map(|(place, dim)| {
                let mut values = vec![0.0; dim];
                self.layout.dtype.decode(&self.pages[page][place], &mut values);
                values
            })
        };
        slots.map(at).collect()
    }

    /// Multiplies every row by its chosen experts.
    fn multiply_experts(&mut self, x: BufferId, routes: BufferId, experts: usize, projection: &Projection) {
        let Weight { rows, cols, .. } = self.weights[projection.weight.0 as usize];
        let (width, used, parts) = (rows / experts, self.width(routes) / 2, self.width(x) / cols);
        let (x, routes) = (self.copy(x), self.copy(routes));
        for expert in 0..experts {
            let slots: Vec<[usize; 2]> = (0..routes.len() / (2 * used))
                .flat_map(|row| (0..used).map(move |slot| [row, slot]))
                .filter(|[row, slot]| routes[row * 2 * used + slot] == expert as f32)
                .collect();
            if slots.is_empty() {
                continue;
            }
            let bias = projection.bias.map(|bias| self.weight_row(bias, expert));
            for element in 0..width {
                let weight = self.weight_row(projection.weight, expert * width + element);
                let bias = bias.as_ref().map_or(0.0, |bias| f64::from(bias[element]));
                for [row, slot] in &slots {
                    let column = if parts == 1 { *row } else { row * used + slot };
                    let sum = arithmetic::dot(&x[column * cols..][..cols], &weight) + bias;
                    self.buffers[projection.out.0 as usize][(row * used + slot) * width + element] = sum as f32;
                }
            }
        }
    }
}
