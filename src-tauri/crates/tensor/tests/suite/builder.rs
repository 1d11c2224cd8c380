//! A tiny model under construction: its plan, and the source of its weights.

use cairn_gguf::DType;
use cairn_tensor::{Backend, BufferId, Limits, Op, Plan, PlanId, Projection, Rows, WeightId};

use crate::common::{Random, VOCABULARY, WIDTH, matrix};

/// A model under construction. Equal seeds give equal models.
pub(crate) struct Builder<'a> {
    pub(crate) backend: &'a mut dyn Backend,
    pub(crate) plan: Plan,
    pub(crate) dtype: DType,
    /// The rows that each layer adds to.
    pub(crate) x: BufferId,
    /// The rows that a layer reads, and later those that it adds.
    pub(crate) branch: BufferId,
    random: Random,
}

impl<'a> Builder<'a> {
    /// Begins a model with the embeddings of its tokens.
    pub(crate) fn new(backend: &'a mut dyn Backend, seed: u64, dtype: DType) -> Self {
        let mut plan = Plan::default();
        let [x, branch] = [WIDTH; 2].map(|width| plan.buffer(Rows::Batch, width));
        let mut builder = Self { backend, plan, dtype, x, branch, random: Random(seed) };
        let table = builder.weight(dtype, VOCABULARY, WIDTH, 1.0);
        builder.plan.push(Op::Embed { table, out: x });
        builder
    }

    pub(crate) fn weight(&mut self, dtype: DType, rows: usize, cols: usize, scale: f32) -> WeightId {
        let matrix = matrix(&mut self.random, dtype, rows, cols, scale);
        self.backend.upload(matrix).expect("the bytes are those of the shape")
    }

    pub(crate) fn buffer(&mut self, width: usize) -> BufferId {
        self.plan.buffer(Rows::Batch, width)
    }

    pub(crate) fn width(&self, id: BufferId) -> usize {
        self.plan.buffers[id.0 as usize].width
    }

    /// The model's type, or one with blocks that fill rows of this length.
    pub(crate) fn type_of_rows(&self, cols: usize) -> DType {
        if cols.is_multiple_of(self.dtype.block()) { self.dtype } else { DType::Q8_0 }
    }

    /// Adds products of the same rows.
    pub(crate) fn multiply(&mut self, x: BufferId, outs: &[BufferId]) {
        let cols = self.width(x);
        let dtype = self.type_of_rows(cols);
        self.multiply_as(dtype, x, outs);
    }

    pub(crate) fn multiply_as(&mut self, dtype: DType, x: BufferId, outs: &[BufferId]) {
        let cols = self.width(x);
        let project = |&out: &BufferId| {
            let rows = self.width(out);
            Projection { weight: self.weight(dtype, rows, cols, 0.2), bias: None, out }
        };
        let projections = outs.iter().map(project).collect();
        self.plan.push(Op::MatMul { x, projections });
    }

    pub(crate) fn rms_norm(&mut self, x: BufferId, group: usize, out: BufferId) {
        let weight = self.weight(DType::F32, 1, group, 1.0);
        self.plan.push(Op::RmsNorm { x, weight, eps: 1e-5, group, out });
    }

    /// Ends a layer.
    pub(crate) fn add_branch(&mut self) {
        self.plan.push(Op::Add { x: self.x, y: self.branch });
    }

    /// Adds the rows that have logits. Returns them, and the buffer of the logits.
    pub(crate) fn gather(&mut self) -> [BufferId; 2] {
        let [last, logits] = [WIDTH, VOCABULARY].map(|width| self.plan.buffer(Rows::Logits, width));
        self.plan.push(Op::Gather { x: self.x, out: last });
        self.plan.logits = Some(logits);
        [last, logits]
    }

    /// Ends a model with the product that gives its logits.
    pub(crate) fn finish(mut self, limits: Limits) -> (PlanId, BufferId) {
        let [last, logits] = self.gather();
        self.multiply(last, &[logits]);
        self.prepare(limits, logits)
    }

    pub(crate) fn prepare(self, limits: Limits, logits: BufferId) -> (PlanId, BufferId) {
        (self.backend.prepare(self.plan, limits).expect("the plan is sound"), logits)
    }
}
