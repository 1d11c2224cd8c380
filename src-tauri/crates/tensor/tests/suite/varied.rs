//! A tiny model with features that plain models lack: norms with a mean, sinks, a narrow window, three activations,
//! experts.

use cairn_gguf::DType;
use cairn_tensor::{
    Backend, BufferId, Gating, Glu, Limits, Op, Plan, PlanId, Projection, Router, Rows, State, StateKind, WeightId,
};

use crate::common::{Random, VOCABULARY, WIDTH, matrix};

/// Query heads, key/value heads and their width.
const HEADS: [usize; 3] = [4, 2, 64];
/// Experts of the second layer and of the third, and how many a row uses.
const EXPERTS: [[usize; 2]; 2] = [[8, 2], [5, 3]];

/// A plan under construction and the source of its weights.
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

    fn buffer(&mut self, width: usize) -> BufferId {
        self.plan.buffer(Rows::Batch, width)
    }

    /// Adds a projection of `experts` experts. A row of `out` has the results of `used` experts.
    fn projection(&mut self, cols: usize, out: BufferId, [experts, used]: [usize; 2], bias: bool) -> Projection {
        let width = self.plan.buffers[out.0 as usize].width / used;
        let weight = self.weight(self.dtype, experts * width, cols, 0.2);
        let bias = bias.then(|| self.weight(DType::F32, experts, width, 0.1));
        Projection { weight, bias, out }
    }

    fn multiply(&mut self, x: BufferId, out: BufferId) {
        let projections = vec![self.projection(self.plan.buffers[x.0 as usize].width, out, [1, 1], true)];
        self.plan.push(Op::MatMul { x, projections });
    }

    fn norm(&mut self) {
        let (weight, bias) = (self.weight(DType::F32, 1, WIDTH, 1.0), self.weight(DType::F32, 1, WIDTH, 0.2));
        let (x, out) = (self.x, self.branch);
        self.plan.push(Op::LayerNorm { x, weight, bias: Some(bias), eps: 1e-5, out });
    }

    /// Attention with sinks through a window, without positions: only the window distinguishes rows.
    fn attention(&mut self, window: u32) {
        let [heads, kv_heads, head_dim] = HEADS;
        self.norm();
        let [q, out] = [heads * head_dim; 2].map(|width| self.buffer(width));
        let [k, v] = [kv_heads * head_dim; 2].map(|width| self.buffer(width));
        [q, k, v].into_iter().for_each(|out| self.multiply(self.branch, out));
        let state = self.plan.state(State::new(StateKind::Window(window), kv_heads, head_dim));
        self.plan.push(Op::StoreKv { state, k, v });
        let sinks = Some(self.weight(DType::F32, 1, heads, 2.0));
        self.plan.push(Op::Attention { state, q, heads, scale: 0.02, softcap: None, sinks, out });
        self.multiply(out, self.branch);
        self.plan.push(Op::Add { x: self.x, y: self.branch });
    }

    /// An MLP without a gate.
    fn mlp(&mut self) {
        self.norm();
        let inner = self.buffer(2 * WIDTH);
        self.multiply(self.branch, inner);
        self.plan.push(Op::Gelu { x: inner });
        self.multiply(inner, self.branch);
        self.plan.push(Op::Scale { x: self.branch, factor: 0.7 });
        self.plan.push(Op::Add { x: self.x, y: self.branch });
    }

    fn experts(&mut self, [experts, used]: [usize; 2], gating: Gating, activation: Glu) {
        self.norm();
        let (logits, routes) = (self.buffer(experts), self.buffer(2 * used));
        let weight = self.weight(DType::F32, experts, WIDTH, 0.5);
        let projections = vec![Projection { weight, bias: None, out: logits }];
        self.plan.push(Op::MatMul { x: self.branch, projections });
        self.plan.push(Op::Route { logits, router: Router { scale: 1.5, ..Router::new(used, gating) }, out: routes });
        let [gate, up, down] = [used * WIDTH; 3].map(|width| self.buffer(width));
        let projections = [gate, up].map(|out| self.projection(WIDTH, out, [experts, used], true)).to_vec();
        self.plan.push(Op::MatMulId { x: self.branch, routes, experts, projections });
        self.plan.push(Op::Glu { activation, gate, up, out: gate });
        let projections = vec![self.projection(WIDTH, down, [experts, used], false)];
        self.plan.push(Op::MatMulId { x: gate, routes, experts, projections });
        self.plan.push(Op::Combine { x: down, routes, out: self.branch });
        self.plan.push(Op::Add { x: self.x, y: self.branch });
    }
}

/// Writes the model into a backend. Equal seeds give equal models.
pub(crate) fn varied(backend: &mut dyn Backend, dtype: DType, limits: Limits) -> (PlanId, BufferId) {
    let mut plan = Plan::default();
    let [x, branch] = [WIDTH; 2].map(|width| plan.buffer(Rows::Batch, width));
    let mut model = Model { backend, random: Random(13), plan, dtype, x, branch };
    let table = model.weight(dtype, VOCABULARY, WIDTH, 1.0);
    model.plan.push(Op::Embed { table, out: x });
    model.attention(100);
    model.mlp();
    model.attention(300);
    model.experts(EXPERTS[0], Gating::Softmax { renormalise: true }, Glu::Gelu);
    model.experts(EXPERTS[1], Gating::SoftmaxOfChosen, Glu::Clamped { alpha: 1.702, limit: 0.5 });
    let [last, logits] = [WIDTH, VOCABULARY].map(|width| model.plan.buffer(Rows::Logits, width));
    model.plan.push(Op::Gather { x, out: last });
    model.multiply(last, logits);
    model.plan.push(Op::Softcap { x: logits, cap: 30.0 });
    model.plan.logits = Some(logits);
    (model.backend.prepare(model.plan, limits).expect("the plan is sound"), logits)
}
