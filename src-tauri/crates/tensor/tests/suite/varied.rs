//! Tiny models with features that plain models lack: norms with a mean, sinks, a narrow window or chunks, three
//! activations, experts with weights that multiply their outputs or inputs.

use cairn_gguf::DType;
use cairn_tensor::{Backend, BufferId, Gating, Glu, Limits, Op, PlanId, Projection, Router, State, StateKind};

use crate::builder::Builder;
use crate::common::WIDTH;

/// Query heads, key/value heads and their width.
const HEADS: [usize; 3] = [4, 2, 64];
/// Experts of the second layer and of the third, and how many a row uses.
const EXPERTS: [[usize; 2]; 2] = [[8, 2], [5, 3]];

/// Adds a projection of `experts` experts. A row of `out` has the results of `used` experts.
fn projection(b: &mut Builder<'_>, cols: usize, out: BufferId, [experts, used]: [usize; 2], bias: bool) -> Projection {
    let width = b.width(out) / used;
    let weight = b.weight(b.dtype, experts * width, cols, 0.2);
    let bias = bias.then(|| b.weight(DType::F32, experts, width, 0.1));
    Projection { weight, bias, out }
}

fn multiply(b: &mut Builder<'_>, x: BufferId, out: BufferId) {
    let projections = vec![projection(b, b.width(x), out, [1, 1], true)];
    b.plan.push(Op::MatMul { x, projections });
}

fn norm(b: &mut Builder<'_>) {
    let (weight, bias) = (b.weight(DType::F32, 1, WIDTH, 1.0), b.weight(DType::F32, 1, WIDTH, 0.2));
    let (x, out) = (b.x, b.branch);
    b.plan.push(Op::LayerNorm { x, weight, bias: Some(bias), eps: 1e-5, out });
}

/// Attention with sinks through a window or chunks, without positions: only those distinguish rows.
fn attention(b: &mut Builder<'_>, kind: StateKind) {
    let [heads, kv_heads, head_dim] = HEADS;
    norm(b);
    let [q, out] = [heads * head_dim; 2].map(|width| b.buffer(width));
    let [k, v] = [kv_heads * head_dim; 2].map(|width| b.buffer(width));
    [q, k, v].into_iter().for_each(|out| multiply(b, b.branch, out));
    let state = b.plan.state(State::new(kind, kv_heads, head_dim));
    b.plan.push(Op::StoreKv { state, k, v });
    let sinks = Some(b.weight(DType::F32, 1, heads, 2.0));
    b.plan.push(Op::Attention { state, q, heads, scale: 0.02, softcap: None, sinks, out });
    multiply(b, out, b.branch);
    b.add_branch();
}

/// An MLP without a gate.
fn mlp(b: &mut Builder<'_>) {
    norm(b);
    let inner = b.buffer(2 * WIDTH);
    multiply(b, b.branch, inner);
    b.plan.push(Op::Gelu { x: inner });
    multiply(b, inner, b.branch);
    b.plan.push(Op::Scale { x: b.branch, factor: 0.7 });
    b.add_branch();
}

fn experts(b: &mut Builder<'_>, shape: [usize; 2], gating: Gating, activation: Glu) {
    experts_of(b, shape, gating, activation, false);
}

/// Experts with weights that multiply their outputs, or their inputs.
fn experts_of(b: &mut Builder<'_>, [experts, used]: [usize; 2], gating: Gating, activation: Glu, weighs_inputs: bool) {
    norm(b);
    let (logits, routes) = (b.buffer(experts), b.buffer(2 * used));
    let weight = b.weight(DType::F32, experts, WIDTH, 0.5);
    let projections = vec![Projection { weight, bias: None, out: logits }];
    b.plan.push(Op::MatMul { x: b.branch, projections });
    b.plan.push(Op::Route { logits, router: Router { scale: 1.5, ..Router::new(used, gating) }, out: routes });
    let [gate, up, down] = [used * WIDTH; 3].map(|width| b.buffer(width));
    let projections = [gate, up].map(|out| projection(b, WIDTH, out, [experts, used], true)).to_vec();
    let x = if weighs_inputs { b.buffer(used * WIDTH) } else { b.branch };
    if weighs_inputs {
        b.plan.push(Op::WeighInputs { x: b.branch, routes, out: x });
    }
    b.plan.push(Op::MatMulId { x, routes, experts, projections });
    b.plan.push(Op::Glu { activation, gate, up, out: gate });
    let projections = vec![projection(b, WIDTH, down, [experts, used], false)];
    b.plan.push(Op::MatMulId { x: gate, routes, experts, projections });
    b.plan.push(Op::Combine { x: down, routes, out: b.branch });
    b.add_branch();
}

/// Writes the model into a backend. Equal seeds give equal models.
pub(crate) fn varied(backend: &mut dyn Backend, dtype: DType, limits: Limits) -> (PlanId, BufferId) {
    let mut builder = Builder::new(backend, 13, dtype);
    let b = &mut builder;
    attention(b, StateKind::Window(100));
    mlp(b);
    attention(b, StateKind::Window(300));
    experts(b, EXPERTS[0], Gating::Softmax { renormalise: true }, Glu::Gelu);
    experts(b, EXPERTS[1], Gating::SoftmaxOfChosen, Glu::Clamped { alpha: 1.702, limit: 0.5 });
    let [last, logits] = b.gather();
    multiply(b, last, logits);
    b.plan.push(Op::Softcap { x: logits, cap: 30.0 });
    builder.prepare(limits, logits)
}

/// Writes a model with chunks and experts of weighed inputs into a backend. Equal seeds give equal models.
pub(crate) fn chunked(backend: &mut dyn Backend, dtype: DType, limits: Limits) -> (PlanId, BufferId) {
    let mut builder = Builder::new(backend, 17, dtype);
    let b = &mut builder;
    attention(b, StateKind::Chunk(100));
    experts_of(b, EXPERTS[0], Gating::Sigmoid { renormalise: false }, Glu::Silu, true);
    attention(b, StateKind::Chunk(320));
    experts_of(b, [4, 1], Gating::Sigmoid { renormalise: false }, Glu::Silu, true);
    let [last, logits] = b.gather();
    multiply(b, last, logits);
    builder.prepare(limits, logits)
}
