//! The oracle: every op as its formula says, one number at a time.
//!
//! Sums, powers and trigonometry are taken in f64; what an op leaves in a buffer or a page is rounded to f32 once. Weights
//! are decoded row by row as they are used. It shares no arithmetic with the CPU backend, and where the two disagree
//! beyond rounding, this one is right. It allocates freely and uses one thread: clarity before everything. Keys and values
//! are kept in f32, unless another type is asked for; then each row is encoded as it is written and decoded as it is read.
//!
//! **Invariant:** a row's result depends on nothing but its own sequence, because no sum here ever spans two rows.

mod arithmetic;
mod experts;

use std::ops::Range;

use cairn_gguf::DType;

use crate::backend::{Backend, BackendError, Caps, Limits};
use crate::batch::{Batch, Input, Row};
use crate::check;
use crate::page::{Kv, PAGE_TOKENS, PageId, PageLayout};
use crate::plan::{BufferId, Op, Plan, PlanId, Projection, Rows, State, StateId, StateKind};
use crate::weight::{Weight, WeightId};

/// The scalar backend that all others are held against.
#[derive(Debug)]
pub struct Reference {
    /// Type of keys and values in pages.
    kv_type: DType,
    weights: Vec<Weight>,
    plans: Vec<Prepared>,
    layout: Option<PageLayout>,
    /// `[pages]`, each in the order of the layout.
    pages: Vec<Vec<u8>>,
}

/// A plan and what its last run left.
#[derive(Debug)]
struct Prepared {
    plan: Plan,
    limits: Limits,
    /// By buffer: `[rows, width]`.
    buffers: Vec<Vec<f32>>,
}

impl Reference {
    /// An empty backend.
    pub fn new() -> Self {
        Self::with_kv_type(DType::F32)
    }

    /// An empty backend with pages of this type, which must have an encoder.
    pub fn with_kv_type(kv_type: DType) -> Self {
        Self { kv_type, weights: Vec::new(), plans: Vec::new(), layout: None, pages: Vec::new() }
    }

    fn layout(&self) -> &PageLayout {
        self.layout.as_ref().expect("there are no pages before a plan")
    }
}

impl Default for Reference {
    fn default() -> Self {
        Self::new()
    }
}

impl Backend for Reference {
    fn caps(&self) -> Caps {
        Caps { backend: "reference", variant: "f64", numerics_rev: 1, kv_type: self.kv_type }
    }

    fn upload(&mut self, weight: Weight) -> Result<WeightId, BackendError> {
        check::weight(&weight)?;
        self.weights.push(weight);
        Ok(WeightId(self.weights.len() as u32 - 1))
    }

    fn prepare(&mut self, plan: Plan, limits: Limits) -> Result<PlanId, BackendError> {
        check::plan(&plan, &self.weights, self.kv_type)?;
        let layout = plan.page_layout(self.kv_type);
        check::layout(&plan, self.layout.as_ref(), &layout)?;
        self.layout = Some(layout);
        let buffers = vec![Vec::new(); plan.buffers.len()];
        self.plans.push(Prepared { plan, limits, buffers });
        Ok(PlanId(self.plans.len() as u32 - 1))
    }

    fn grow_pages(&mut self, pages: usize) -> Result<(), BackendError> {
        let page_bytes = self.layout.as_ref().map_or(0, |layout| layout.page_bytes);
        while self.pages.len() < pages {
            let mut page = Vec::new();
            let need_bytes = ((pages - self.pages.len()) * page_bytes) as u64;
            let refused = |_| BackendError::Memory { what: "pages", need_bytes };
            page.try_reserve_exact(page_bytes).map_err(refused)?;
            page.resize(page_bytes, 0);
            self.pages.push(page);
        }
        Ok(())
    }

    fn run(&mut self, plan: PlanId, batch: &Batch) -> Result<(), BackendError> {
        let Self { weights, plans, layout, pages, .. } = self;
        let Prepared { plan, limits, buffers } = &mut plans[plan.0 as usize];
        check::batch(batch, plan, weights, *limits, pages.len())?;
        for (buffer, shape) in buffers.iter_mut().zip(&plan.buffers) {
            let rows = match shape.rows {
                Rows::Batch => batch.rows.len(),
                Rows::Logits => batch.logit_rows(),
            };
            buffer.clear();
            buffer.resize(rows * shape.width, 0.0);
        }
        let layout = layout.as_ref().expect("prepare has set the layout");
        let mut step = Step { plan, batch, weights, layout, pages, buffers };
        for op in &plan.ops {
            step.op(op);
        }
        Ok(())
    }

    fn read(&self, plan: PlanId, buffer: BufferId, rows: Range<usize>, out: &mut [f32]) {
        let Prepared { plan, buffers, .. } = &self.plans[plan.0 as usize];
        let width = plan.buffers[buffer.0 as usize].width;
        out.copy_from_slice(&buffers[buffer.0 as usize][rows.start * width..rows.end * width]);
    }

    fn copy_page(&mut self, from: PageId, to: PageId, tokens: usize) {
        let source = self.pages[from.0 as usize].clone();
        let target = &mut self.pages[to.0 as usize];
        let layout = self.layout.as_ref().expect("there are no pages before a plan");
        for range in layout.slots(0..tokens) {
            target[range.clone()].copy_from_slice(&source[range]);
        }
    }

    fn read_section(&self, page: PageId, state: StateId, kv: Kv, out: &mut [u8]) {
        out.copy_from_slice(&self.pages[page.0 as usize][self.layout().section(state, kv)]);
    }

    fn write_section(&mut self, page: PageId, state: StateId, kv: Kv, bytes: &[u8]) {
        let section = self.layout().section(state, kv);
        self.pages[page.0 as usize][section].copy_from_slice(bytes);
    }

    fn read_page(&self, page: PageId, out: &mut [u8]) {
        out.copy_from_slice(&self.pages[page.0 as usize]);
    }

    fn write_page(&mut self, page: PageId, bytes: &[u8]) {
        self.pages[page.0 as usize].copy_from_slice(bytes);
    }

    fn free_memory(&self) -> u64 {
        cairn_hardware::Machine::probe().memory.available_bytes
    }
}

/// One run in progress.
struct Step<'a> {
    plan: &'a Plan,
    batch: &'a Batch,
    weights: &'a [Weight],
    layout: &'a PageLayout,
    pages: &'a mut [Vec<u8>],
    buffers: &'a mut [Vec<f32>],
}

impl Step<'_> {
    fn op(&mut self, op: &Op) {
        match op {
            Op::Embed { table, out } => self.embed(*table, *out),
            Op::RmsNorm { x, weight, eps, group, out } => {
                let weight = self.weight_row(*weight, 0);
                let mut y = self.copy(*x);
                y.chunks_mut(*group).for_each(|x| arithmetic::rms_norm(x, &weight, *eps));
                self.buffers[out.0 as usize] = y;
            }
            Op::LayerNorm { x, weight, bias, eps, out } => {
                let [weight, bias] = [Some(*weight), *bias].map(|id| id.map(|id| self.weight_row(id, 0)));
                let weight = weight.expect("every norm has a weight");
                let mut y = self.copy(*x);
                y.chunks_mut(weight.len()).for_each(|x| arithmetic::layer_norm(x, &weight, bias.as_deref(), *eps));
                self.buffers[out.0 as usize] = y;
            }
            Op::MatMul { x, projections } => {
                let x = self.copy(*x);
                projections.iter().for_each(|projection| self.multiply(&x, projection));
            }
            Op::Route { logits, used, gating, scale, out } => {
                let (logits, width) = (self.copy(*logits), self.width(*logits));
                let routes = logits.chunks(width).flat_map(|row| experts::route(row, *used, *gating, *scale));
                self.buffers[out.0 as usize] = routes.collect();
            }
            Op::MatMulId { x, routes, experts, projections } => {
                projections.iter().for_each(|projection| self.multiply_experts(*x, *routes, *experts, projection));
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
                    x.chunks_mut(*head_dim).for_each(|head| arithmetic::rotate(head, rope, row.pos[0]));
                }
            }
            Op::StoreKv { state, k, v } => self.store(*state, *k, *v),
            Op::Attention { state, q, heads, scale, softcap, sinks, out } => {
                let mut y = self.copy(*out);
                let head_dim = self.state(*state).head_dim;
                let (q, width) = (self.copy(*q), heads * head_dim);
                let sinks = sinks.map(|sinks| self.weight_row(sinks, 0));
                for (index, row) in self.batch.rows.iter().enumerate() {
                    let group = heads / self.state(*state).kv_heads;
                    for kv_head in 0..self.state(*state).kv_heads {
                        let seen = self.visible(*state, row, kv_head);
                        for head in kv_head * group..(kv_head + 1) * group {
                            let at = index * width + head * head_dim;
                            let (q, y) = (&q[at..at + head_dim], &mut y[at..at + head_dim]);
                            let sink = sinks.as_ref().map(|sinks| sinks[head]);
                            arithmetic::attend(q, &seen, *scale, *softcap, sink, y);
                        }
                    }
                }
                self.buffers[out.0 as usize] = y;
            }
            Op::Glu { activation, gate, up, out } => {
                let pairs = self.copy(*gate).into_iter().zip(self.copy(*up));
                self.buffers[out.0 as usize] = pairs.map(|(g, u)| arithmetic::glu(*activation, g, u)).collect();
            }
            Op::Gelu { x } => self.each(*x, arithmetic::gelu),
            Op::Scale { x, factor } => self.each(*x, |x| x * f64::from(*factor)),
            Op::Softcap { x, cap } => self.each(*x, |x| f64::from(*cap) * (x / f64::from(*cap)).tanh()),
            Op::Add { x, y } => {
                let y = self.copy(*y);
                self.buffers[x.0 as usize].iter_mut().zip(y).for_each(|(x, y)| *x += y);
            }
            Op::Gather { x, out } => {
                let width = self.width(*x);
                let rows = self.batch.rows.iter().zip(self.buffers[x.0 as usize].chunks(width));
                let wanted = rows.filter(|(row, _)| row.want_logits).flat_map(|(_, x)| x.iter().copied()).collect();
                self.buffers[out.0 as usize] = wanted;
            }
        }
    }

    /// Replaces each element of a buffer.
    fn each(&mut self, id: BufferId, formula: impl Fn(f64) -> f64) {
        self.buffers[id.0 as usize].iter_mut().for_each(|x| *x = formula(f64::from(*x)) as f32);
    }

    fn copy(&self, id: BufferId) -> Vec<f32> {
        self.buffers[id.0 as usize].clone()
    }

    fn width(&self, id: BufferId) -> usize {
        self.plan.buffers[id.0 as usize].width
    }

    fn state(&self, id: StateId) -> State {
        self.plan.states[id.0 as usize]
    }

    /// One row of a weight as f32, exactly.
    fn weight_row(&self, id: WeightId, row: usize) -> Vec<f32> {
        let Weight { dtype, cols, bytes, .. } = &self.weights[id.0 as usize];
        let row_bytes = dtype.row_bytes(*cols);
        let mut out = vec![0.0; *cols];
        dtype.decode(&bytes[row * row_bytes..(row + 1) * row_bytes], &mut out);
        out
    }

    fn embed(&mut self, table: WeightId, out: BufferId) {
        let width = self.width(out);
        for (index, row) in self.batch.rows.iter().enumerate() {
            let from = match row.input {
                Input::Token(token) => self.weight_row(table, token as usize),
                Input::Embedding(at) => self.batch.embeddings[at as usize * width..][..width].to_vec(),
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

    /// Where a slot of a sequence keeps its key and value for one head: its page, and the bytes there.
    fn place(&self, state: StateId, seq: u32, slot: usize, kv_head: usize) -> (usize, [Range<usize>; 2]) {
        let page = self.batch.tables[seq as usize][slot / PAGE_TOKENS].0 as usize;
        let row_bytes = self.layout.row_bytes[state.0 as usize];
        let place = |section: usize| {
            let at = section + (kv_head * PAGE_TOKENS + slot % PAGE_TOKENS) * row_bytes;
            at..at + row_bytes
        };
        (page, self.layout.sections[state.0 as usize].map(place))
    }

    fn store(&mut self, state: StateId, k: BufferId, v: BufferId) {
        let State { kv_heads, head_dim, .. } = self.state(state);
        for (index, row) in self.batch.rows.iter().enumerate() {
            for kv_head in 0..kv_heads {
                let (page, places) = self.place(state, row.seq, row.slot as usize, kv_head);
                for (buffer, place) in [k, v].into_iter().zip(places) {
                    let from = &self.buffers[buffer.0 as usize][(index * kv_heads + kv_head) * head_dim..][..head_dim];
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

    /// Keys and values that a row may look at, in ascending slots.
    fn visible(&self, state: StateId, row: &Row, kv_head: usize) -> Vec<[Vec<f32>; 2]> {
        let first = match self.state(state).kind {
            StateKind::Full => 0,
            StateKind::Window(window) => (row.slot + 1).saturating_sub(window),
        };
        let at = |slot| {
            let (page, places) = self.place(state, row.seq, slot, kv_head);
            places.map(|place| {
                let mut values = vec![0.0; self.state(state).head_dim];
                self.layout.dtype.decode(&self.pages[page][place], &mut values);
                values
            })
        };
        (first as usize..row.until as usize).map(at).collect()
    }
}
