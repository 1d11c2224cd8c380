//! Random weights, a tiny model's plan, and sequences whose pages are scattered in the pool.

use std::sync::Arc;

use cairn_gguf::DType;
use cairn_hardware::Machine;
use cairn_kernels::Variant;
use cairn_tensor::{
    Backend, Batch, BufferId, Cpu, Glu, Input, Limits, Op, PAGE_TOKENS, PageId, Plan, PlanId, Projection, Rope,
    RopeStyle, Row, Rows, State, StateKind, Team, Weight, WeightId, cpu,
};

/// A small generator with a full period (Steele, Lea & Flood, SplitMix64).
pub(crate) struct Random(pub(crate) u64);

impl Random {
    /// The next 64 bits.
    pub(crate) fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// The next number between -1 and 1.
    pub(crate) fn unit(&mut self) -> f32 {
        (self.bits() >> 40) as f32 / (1 << 23) as f32 - 1.0
    }
}

/// Bytes of `elements` random weights, about evenly spread within `scale` of zero.
fn weight_bytes(random: &mut Random, dtype: DType, elements: usize, scale: f32) -> Vec<u8> {
    let f16 = |x: f32| {
        let mut bytes = Vec::new();
        DType::F16.encode(&[x], &mut bytes).expect("f16 is encoded here");
        bytes
    };
    let mut bytes = Vec::new();
    // The types without an encoder get random blocks, with the minimum's factor in the middle of the values.
    let levels = match dtype {
        DType::Q4_K => 15.0,
        DType::Q5_K => 31.0,
        _ => {
            let x: Vec<f32> = (0..elements).map(|_| scale * random.unit()).collect();
            dtype.encode(&x, &mut bytes).expect("this type is encoded here");
            return bytes;
        }
    };
    let factor = scale / (32.0 * levels / 2.0);
    for _ in 0..elements / dtype.block() {
        bytes.extend(f16(factor));
        bytes.extend(f16(factor * levels / 2.0));
        bytes.extend((4..dtype.block_bytes()).map(|_| random.bits() as u8));
    }
    bytes
}

/// A random matrix.
pub(crate) fn matrix(random: &mut Random, dtype: DType, rows: usize, cols: usize, scale: f32) -> Weight {
    let bytes = weight_bytes(random, dtype, rows * cols, scale).into();
    Weight { name: format!("{} {rows} x {cols}", dtype.name()), dtype, rows, cols, bytes }
}

/// Elements of a row in the tiny model: a block of the largest types.
pub(crate) const WIDTH: usize = 256;
/// Tokens of the tiny model.
pub(crate) const VOCABULARY: usize = 64;
/// Query heads, key/value heads and their width.
const HEADS: [usize; 3] = [4, 2, 64];

/// Writes a model of two layers, the second with a sliding window and a soft-cap, into a backend. Equal seeds give
/// equal models.
pub(crate) fn tiny(backend: &mut dyn Backend, dtype: DType, limits: Limits) -> (PlanId, BufferId) {
    layered(backend, dtype, limits, 2)
}

/// The same with this number of layers. Each second one has a sliding window and a soft-cap.
pub(crate) fn layered(backend: &mut dyn Backend, dtype: DType, limits: Limits, layers: usize) -> (PlanId, BufferId) {
    let mut random = Random(7);
    let mut plan = Plan::default();
    let [heads, kv_heads, head_dim] = HEADS;
    let mut weight = |dtype: DType, rows: usize, cols: usize, scale: f32| -> WeightId {
        let matrix = matrix(&mut random, dtype, rows, cols, scale);
        backend.upload(matrix).expect("the bytes are those of the shape")
    };
    let frequencies = (0..head_dim / 2).map(|pair| 10000f32.powf(-2.0 * pair as f32 / head_dim as f32)).collect();
    let rope = plan.rope(Rope::new(RopeStyle::Half, frequencies));
    let [x, normed, attended, projected, gate, up] = [WIDTH; 6].map(|width| plan.buffer(Rows::Batch, width));
    let q = plan.buffer(Rows::Batch, heads * head_dim);
    let [k, v] = [kv_heads * head_dim; 2].map(|width| plan.buffer(Rows::Batch, width));
    let one = |weight, out| vec![Projection { weight, bias: None, out }];
    plan.push(Op::Embed { table: weight(dtype, VOCABULARY, WIDTH, 1.0), out: x });
    let kinds = [(StateKind::Full, None), (StateKind::Window(300), Some(5.0))];
    for (kind, softcap) in kinds.into_iter().cycle().take(layers) {
        let state = plan.state(State::new(kind, kv_heads, head_dim));
        let norm = weight(DType::F32, 1, WIDTH, 1.0);
        plan.push(Op::RmsNorm { x, weight: norm, eps: 1e-5, group: WIDTH, out: normed });
        let bias = weight(DType::F32, 1, q_width(), 0.1);
        let projections = vec![
            Projection { weight: weight(dtype, q_width(), WIDTH, 0.3), bias: Some(bias), out: q },
            Projection { weight: weight(dtype, kv_heads * head_dim, WIDTH, 0.3), bias: None, out: k },
            Projection { weight: weight(DType::Q8_0, kv_heads * head_dim, WIDTH, 0.3), bias: None, out: v },
        ];
        plan.push(Op::MatMul { x: normed, projections });
        plan.push(Op::Rope { x: q, head_dim, rope });
        plan.push(Op::Rope { x: k, head_dim, rope });
        plan.push(Op::StoreKv { state, k, v });
        let scale = 1.0 / (head_dim as f32).sqrt();
        plan.push(Op::Attention { state, q, heads, scale, softcap, sinks: None, out: attended });
        plan.push(Op::MatMul { x: attended, projections: one(weight(dtype, WIDTH, q_width(), 0.1), projected) });
        plan.push(Op::Add { x, y: projected });
        let norm = weight(DType::F32, 1, WIDTH, 1.0);
        plan.push(Op::RmsNorm { x, weight: norm, eps: 1e-5, group: WIDTH, out: normed });
        let mut projections = one(weight(dtype, WIDTH, WIDTH, 0.2), gate);
        projections.extend(one(weight(dtype, WIDTH, WIDTH, 0.2), up));
        plan.push(Op::MatMul { x: normed, projections });
        plan.push(Op::Glu { activation: Glu::Silu, gate, up, out: gate });
        plan.push(Op::MatMul { x: gate, projections: one(weight(dtype, WIDTH, WIDTH, 0.1), projected) });
        plan.push(Op::Add { x, y: projected });
    }
    let [last, logits] = [WIDTH, VOCABULARY].map(|width| plan.buffer(Rows::Logits, width));
    plan.push(Op::Gather { x, out: last });
    plan.push(Op::MatMul { x: last, projections: one(weight(dtype, VOCABULARY, WIDTH, 0.3), logits) });
    plan.logits = Some(logits);
    (backend.prepare(plan, limits).expect("the plan is sound"), logits)
}

/// Elements of all query heads.
fn q_width() -> usize {
    HEADS[0] * HEADS[2]
}

/// The CPU backend on threads that are not pinned, since tests run beside each other.
pub(crate) fn cpu(variant: &'static Variant, threads: usize) -> Cpu {
    Cpu::new(variant, Arc::new(Team::new(threads, &[]).expect("a test may start threads")))
}

/// Every variant that this machine can run.
pub(crate) fn all_variants() -> Vec<&'static Variant> {
    cpu::variants(&Machine::probe().cpu.features, None).expect("nothing is forced")
}

/// A page table of its own for each sequence: pages of different sequences alternate, and descend.
pub(crate) fn table(seq: usize, sequences: usize, slots: usize) -> Vec<PageId> {
    let pages = slots.div_ceil(PAGE_TOKENS);
    (0..pages).rev().map(|page| PageId((page * sequences + seq) as u32)).collect()
}

/// The token at a slot of a sequence.
pub(crate) fn token(seq: usize, slot: usize) -> u32 {
    (Random((seq * 100_003 + slot) as u64).bits() % VOCABULARY as u64) as u32
}

/// Adds causal rows of a sequence to a batch.
pub(crate) fn push_rows(batch: &mut Batch, seq: usize, slots: std::ops::Range<usize>, want_logits: bool) {
    for slot in slots {
        let mut row = Row::text(seq as u32, token(seq, slot), slot as u32, want_logits);
        row.input = Input::Token(token(seq, slot));
        batch.rows.push(row);
    }
}

/// All rows of a buffer, after a run that left `rows` of them.
pub(crate) fn read(backend: &dyn Backend, plan: PlanId, buffer: BufferId, rows: usize, width: usize) -> Vec<f32> {
    let mut out = vec![0.0; rows * width];
    backend.read(plan, buffer, 0..rows, &mut out);
    out
}
