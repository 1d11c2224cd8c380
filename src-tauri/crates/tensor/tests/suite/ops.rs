//! Compares every op of every backend with the oracle.

use cairn_gguf::DType;
use cairn_tensor::{
    Backend, Batch, BufferId, DeltaRule, Glu, Growth, HeadPart, KeySharing, Limits, Op, Plan, Projection, RecurrentId,
    Reference, Rope, RopeStyle, Row, Rows, SnapshotId, State, StateKind, Values, Weight, WeightId,
};

use crate::common::{Random, VOCABULARY, all_variants, cpu, matrix, push_rows, read, table, tiny, token};
use crate::hybrid::{SNAPSHOTS, Snapshots, hybrid, linear, rates, state_space};
use crate::model::logits;

/// Slots that each of the three sequences may use.
const SLOTS: usize = 720;

/// A plan under construction on one backend. Inputs are look-ups in random tables, so that all backends start from
/// equal bits.
pub(crate) struct Bench<'a> {
    backend: &'a mut dyn Backend,
    pub(crate) plan: Plan,
    random: Random,
}

impl Bench<'_> {
    /// A buffer that holds a random row for each token.
    pub(crate) fn input(&mut self, width: usize) -> BufferId {
        let table = self.weight(DType::F32, VOCABULARY, width, 2.0);
        let out = self.plan.buffer(Rows::Batch, width);
        self.plan.push(Op::Embed { table, out });
        out
    }

    pub(crate) fn weight(&mut self, dtype: DType, rows: usize, cols: usize, scale: f32) -> WeightId {
        let weight = matrix(&mut self.random, dtype, rows, cols, scale);
        self.upload(weight)
    }

    pub(crate) fn upload(&mut self, weight: Weight) -> WeightId {
        self.backend.upload(weight).expect("the bytes are those of the shape")
    }
}

/// Returns the test batches: first three sequences (a prompt, a single row, and a prompt after a prefix); then distant
/// rows, one of which attends to later slots; then one sequence alone, which has few attention tasks.
fn batches() -> Vec<Batch> {
    let tables: Vec<_> = (0..3).map(|seq| table(seq, 3, SLOTS)).collect();
    let batch = |parts: &[(usize, std::ops::Range<usize>)]| {
        let mut batch = Batch { tables: tables.clone(), ..Batch::default() };
        parts.iter().for_each(|(seq, slots)| push_rows(&mut batch, *seq, slots.clone(), slots.len() % 2 == 1));
        batch
    };
    let mut image = batch(&[(0, 33..34), (1, 1..2), (2, 600..610)]);
    image.rows.iter_mut().filter(|row| row.seq == 2).for_each(|row| (row.until, row.pos[1]) = (610, 1));
    vec![batch(&[(0, 0..33), (1, 0..1), (2, 0..600)]), image, batch(&[(2, 610..611)]), batch(&[(2, 611..720)])]
}

/// Runs one plan over all batches. Pages are filled with NaN first, because a reused page may contain any bits.
pub(crate) fn outputs(backend: &mut dyn Backend, build: &dyn Fn(&mut Bench<'_>) -> BufferId) -> Vec<Vec<f32>> {
    let mut bench = Bench { backend, plan: Plan::default(), random: Random(11) };
    let out = build(&mut bench);
    let Bench { plan, .. } = bench;
    let (shape, layout) = (plan.buffers[out.0 as usize], plan.page_layout(backend.caps().kv_type));
    let id = backend.prepare(plan, Limits { rows: 640, logit_rows: 640 }).expect("the plan is sound");
    let mut batches = batches();
    let mut snapshots = Snapshots::default();
    batches.iter_mut().for_each(|batch| snapshots.link(batch, |_| true));
    let pages: usize = batches[0].tables.iter().map(Vec::len).sum();
    backend.grow_pages(pages).expect("a few pages can be had");
    for page in 0..pages {
        backend.write_page(cairn_tensor::PageId(page as u32), &vec![0xff; layout.page_bytes]);
    }
    backend.grow_snapshots(3 * SNAPSHOTS).expect("a few snapshots can be had");
    for (state, section) in layout.snapshot.sections.iter().enumerate() {
        let state = RecurrentId(state as u32);
        (0..3 * SNAPSHOTS as u32)
            .for_each(|id| backend.write_snapshot(SnapshotId(id), state, &vec![0xff; section.len()]));
    }
    let rows = |batch: &Batch| if shape.rows == Rows::Batch { batch.rows.len() } else { batch.logit_rows() };
    let run = |batch: &Batch| {
        backend.run(id, batch).expect("the batch is sound");
        read(backend, id, out, rows(batch), shape.width)
    };
    batches.iter().map(run).collect()
}

/// Compares an op's outputs with the oracle's.
pub(crate) fn check(what: &str, bound: f64, build: impl Fn(&mut Bench<'_>) -> BufferId) {
    compare(what, bound, |backend| outputs(backend, &build));
}

/// Compares every variant on one and three threads with the oracle: the root mean square of the error, relative to the
/// oracle's output, must be at most `bound`.
pub(crate) fn compare(what: &str, bound: f64, outputs: impl Fn(&mut dyn Backend) -> Vec<Vec<f32>>) {
    compare_types(what, [DType::F32, DType::F16], bound, outputs);
}

/// The same with these types of pages: the oracle's, and the other backend's.
pub(crate) fn compare_types(
    what: &str,
    kv: [DType; 2],
    bound: f64,
    outputs: impl Fn(&mut dyn Backend) -> Vec<Vec<f32>>,
) {
    let exact = outputs(&mut Reference::with_kv_type(kv[0]));
    for variant in all_variants() {
        for threads in [1, 3] {
            let found = outputs(&mut cpu(variant, threads).with_kv_type(kv[1]));
            for (nth, (found, exact)) in found.iter().zip(&exact).enumerate() {
                let square = |x: f64| x * x;
                let norm: f64 = exact.iter().map(|x| square(f64::from(*x))).sum();
                let differences = found.iter().zip(exact).map(|(a, b)| square(f64::from(*a) - f64::from(*b)));
                let error = (differences.sum::<f64>() / norm.max(f64::MIN_POSITIVE)).sqrt();
                assert_eq!(found.len(), exact.len(), "both backends give the same rows");
                assert!(exact.is_empty() || norm > 0.0, "{what}: the oracle's output is not zero");
                let place = format!("{} on {threads} threads, batch {nth}", variant.name);
                assert!(error <= bound, "{what}: {place} is off by {error:e}, more than {bound:e}");
            }
        }
    }
}

#[test]
fn embed_agrees_with_the_oracle() {
    for dtype in [DType::F32, DType::F16, DType::BF16, DType::Q8_0, DType::Q4_0, DType::Q5_0, DType::Q6_K] {
        check(dtype.name(), 0.0, |bench| {
            let table = bench.weight(dtype, VOCABULARY, 256, 1.0);
            let out = bench.plan.buffer(Rows::Batch, 256);
            bench.plan.push(Op::Embed { table, out });
            out
        });
    }
}

#[test]
fn added_positions_agree_with_the_oracle() {
    for (dtype, component) in [(DType::F32, 0), (DType::F16, 0), (DType::Q8_0, 0), (DType::F32, 1)] {
        check(&format!("component {component} in {}", dtype.name()), 1e-7, |bench| {
            let x = bench.input(96);
            let table = bench.weight(dtype, SLOTS, 96, 1.0);
            bench.plan.push(Op::AddEmbedding { x, table, component });
            x
        });
    }
}

#[test]
fn rms_norm_agrees_with_the_oracle() {
    for (width, group, in_place, weights) in
        [(200, 200, false, 200), (192, 48, true, 48), (96, 32, false, 32), (192, 48, true, 192), (96, 32, false, 96)]
    {
        check(&format!("norm of {width} by {group} with {weights} weights"), 1e-6, |bench| {
            let x = bench.input(width);
            let out = if in_place { x } else { bench.plan.buffer(Rows::Batch, width) };
            let weight = bench.weight(DType::F32, 1, weights, 1.0);
            bench.plan.push(Op::RmsNorm { x, weight, eps: 1e-5, group, out });
            out
        });
    }
}

#[test]
fn products_agree_with_the_oracle() {
    // 8-bit activations cause most of the error of quantized types.
    for (dtype, bound) in [
        (DType::F32, 1e-6),
        (DType::F16, 1e-6),
        (DType::BF16, 1e-6),
        (DType::Q8_0, 1e-2),
        (DType::Q4_0, 1e-2),
        (DType::Q5_0, 1e-2),
        (DType::Q4_K, 1e-2),
        (DType::Q5_K, 1e-2),
        (DType::Q6_K, 1e-2),
    ] {
        for (rows, bias) in [(100, false), (24, true)] {
            check(&format!("{} x {rows}", dtype.name()), bound, |bench| {
                let x = bench.input(256);
                let other = bench.plan.buffer(Rows::Batch, 40);
                let out = bench.plan.buffer(Rows::Batch, rows);
                let bias = bias.then(|| bench.weight(DType::F32, 1, rows, 1.0));
                let projections = vec![
                    Projection { weight: bench.weight(DType::Q8_0, 40, 256, 1.0), bias: None, out: other },
                    Projection { weight: bench.weight(dtype, rows, 256, 1.0), bias, out },
                ];
                bench.plan.push(Op::MatMul { x, projections });
                out
            });
        }
    }
}

#[test]
fn rope_matches_reference() {
    let growth = Some(Growth { factor: 0.5, step: 3, offset: 1 });
    for (style, pairs, growth) in [
        (RopeStyle::Half, 16, None),
        (RopeStyle::Interleaved, 16, None),
        (RopeStyle::Half, 5, None),
        (RopeStyle::Half, 16, growth),
    ] {
        check(&format!("{style:?} of {pairs} pairs, {growth:?}"), 1e-6, |bench| {
            let x = bench.input(96);
            let inverse_frequencies = (0..pairs).map(|pair| 0.7f32.powi(pair)).collect();
            let rope = bench.plan.rope(Rope { magnitude: 1.25, growth, ..Rope::new(style, inverse_frequencies) });
            bench.plan.push(Op::Rope { x, head_dim: 32, rope });
            x
        });
    }
}

/// One layer's attention; a second layer shows that states are separate.
pub(crate) fn attend(bench: &mut Bench<'_>, state: State, heads: usize, softcap: Option<f32>, sinks: bool) -> BufferId {
    let State { kv_heads, head_dim, values, .. } = state;
    let value_dim = state.value_dim();
    let q = bench.input(heads * head_dim);
    let [k, v] = match values {
        Values::Rows(_) => [kv_heads * head_dim, kv_heads * value_dim],
        Values::InKeys(_) => [head_dim - value_dim, value_dim],
    }
    .map(|width| bench.input(width));
    for _ in 0..2 {
        let state = bench.plan.state(state);
        bench.plan.push(match values {
            Values::Rows(_) => Op::StoreKv { state, k, v },
            Values::InKeys(_) => Op::StoreLatent { state, k, v },
        });
    }
    let (out, scale) = (bench.plan.buffer(Rows::Batch, heads * value_dim), 0.2);
    let sinks = sinks.then(|| bench.weight(DType::F32, 1, heads, 8.0));
    bench.plan.push(Op::Attention { state: cairn_tensor::StateId(0), q, heads, scale, softcap, sinks, out });
    out
}

#[test]
fn attention_agrees_with_the_oracle() {
    for (kind, heads, kv_heads, head_dim, softcap, sinks) in [
        (StateKind::Full, 4, 2, 64, None, false),
        (StateKind::Full, 3, 3, 40, None, false),
        (StateKind::Full, 8, 1, 32, Some(3.0), false),
        (StateKind::Full, 6, 2, 32, None, true),
        (StateKind::Causal, 4, 2, 64, None, false),
        (StateKind::Window(100), 4, 1, 64, None, false),
        (StateKind::Window(128), 8, 2, 32, None, true),
        (StateKind::Window(1), 2, 1, 32, Some(20.0), false),
        (StateKind::Window(1), 2, 1, 32, Some(20.0), true),
        (StateKind::Chunk(100), 4, 1, 64, None, false),
        (StateKind::Chunk(128), 8, 2, 32, None, true),
        (StateKind::Chunk(1), 2, 1, 32, Some(20.0), true),
        (StateKind::Around(100), 4, 2, 32, None, false),
        (StateKind::Around(0), 2, 1, 32, None, true),
    ] {
        let what = format!("{kind:?}, {heads} heads on {kv_heads} of {head_dim}, {softcap:?}, sinks: {sinks}");
        let state = State::new(kind, kv_heads, head_dim);
        check(&what, 1e-3, |bench| attend(bench, state, heads, softcap, sinks));
    }
}

#[test]
fn attention_over_all_page_types_agrees_with_the_oracle() {
    for (kind, heads, kv_heads, head_dim, softcap, sinks) in [
        (StateKind::Full, 4, 2, 64, None, false),
        (StateKind::Full, 3, 3, 96, Some(3.0), true),
        (StateKind::Window(100), 2, 1, 128, None, false),
    ] {
        let state = State::new(kind, kv_heads, head_dim);
        // Both backends store the same bits, with less precision than the oracle's f32.
        for (dtype, rounding) in [(DType::F16, 1e-3), (DType::BF16, 5e-3), (DType::Q8_0, 1e-2), (DType::Q4_0, 0.2)] {
            let what = format!("{dtype}: {kind:?}, {heads} heads on {kv_heads} of {head_dim}, sinks: {sinks}");
            let run = |backend: &mut dyn Backend| {
                outputs(backend, &|bench: &mut Bench<'_>| attend(bench, state, heads, softcap, sinks))
            };
            compare_types(&what, [dtype; 2], 3e-6, run);
            compare_types(&what, [DType::F32, dtype], rounding, run);
        }
    }
}

#[test]
fn windows_at_page_and_span_borders_agree_with_the_oracle() {
    for window in [2, 63, 64, 65, 255, 256, 257, 319, 320, 610, 611, 719, 720, 721, u32::MAX] {
        let state = State::new(StateKind::Window(window), 1, 16);
        check(&format!("a window of {window}"), 1e-3, |bench| attend(bench, state, 2, None, false));
    }
}

#[test]
fn chunks_at_page_and_span_borders_agree_with_the_oracle() {
    for chunk in [2, 63, 64, 65, 255, 256, 257, 320, 610, 611, 720, 721, u32::MAX] {
        let state = State::new(StateKind::Chunk(chunk), 1, 16);
        check(&format!("chunks of {chunk}"), 1e-3, |bench| attend(bench, state, 2, None, false));
    }
}

#[test]
fn rows_of_an_encoder_attend_in_both_directions() {
    for kind in
        [StateKind::Full, StateKind::Causal, StateKind::Around(0), StateKind::Around(63), StateKind::Around(256)]
    {
        compare(&format!("{kind:?} in both directions"), 1e-3, |backend| {
            let mut bench = Bench { backend, plan: Plan::default(), random: Random(12) };
            let out = attend(&mut bench, State::new(kind, 2, 32), 4, None, false);
            let Bench { plan, .. } = bench;
            let id = backend.prepare(plan, Limits { rows: 640, logit_rows: 0 }).expect("the plan is sound");
            let tables: Vec<_> = (0..2).map(|seq| table(seq, 2, SLOTS)).collect();
            backend.grow_pages(tables.iter().map(Vec::len).sum()).expect("a few pages can be had");
            let rows = |seq, tokens| {
                (0..tokens).map(move |slot| Row::encoder(seq, token(seq as usize, slot as usize), slot, 0, tokens))
            };
            let batch = Batch { rows: rows(0, 39).chain(rows(1, 601)).collect(), tables, ..Batch::default() };
            backend.run(id, &batch).expect("the batch is sound");
            vec![read(backend, id, out, 640, 128)]
        });
    }
}

#[test]
fn windows_and_chunks_include_the_row_itself_and_earlier_rows() {
    // Keys are zero, so that each visible value weighs the same; the value at slot s is s.
    let means = |backend: &mut dyn Backend, kind: StateKind| {
        let zero = Weight { name: "zero".into(), dtype: DType::F32, rows: 512, cols: 8, bytes: vec![0; 16384].into() };
        let numbers: Vec<u8> = (0..512 * 8).flat_map(|at| ((at / 8) as f32).to_le_bytes()).collect();
        let numbers = Weight { name: "numbers".into(), dtype: DType::F32, rows: 512, cols: 8, bytes: numbers.into() };
        let [zero, numbers] = [zero, numbers].map(|weight| backend.upload(weight).expect("the bytes fit the shape"));
        let mut plan = Plan::default();
        let [qk, v, out] = [8; 3].map(|width| plan.buffer(Rows::Batch, width));
        let state = plan.state(State::new(kind, 1, 8));
        plan.push(Op::Embed { table: zero, out: qk });
        plan.push(Op::Embed { table: numbers, out: v });
        plan.push(Op::StoreKv { state, k: qk, v });
        plan.push(Op::Attention { state, q: qk, heads: 1, scale: 1.0, softcap: None, sinks: None, out });
        let plan = backend.prepare(plan, Limits { rows: 512, logit_rows: 0 }).expect("the plan is sound");
        backend.grow_pages(8).expect("a few pages can be had");
        let rows = (0..512).map(|slot| Row::text(0, slot, slot, false)).collect();
        let batch = Batch { rows, tables: vec![table(0, 1, 512)], ..Batch::default() };
        backend.run(plan, &batch).expect("the batch is sound");
        read(backend, plan, out, 512, 8)
    };
    let sizes = [1u32, 2, 63, 64, 65, 128, 256, 257, 512, 513];
    for (size, is_chunk) in sizes.into_iter().flat_map(|size| [(size, false), (size, true)]) {
        let kind = if is_chunk { StateKind::Chunk(size) } else { StateKind::Window(size) };
        let mut backends: Vec<Box<dyn Backend>> = vec![Box::new(Reference::new())];
        backends.extend(all_variants().into_iter().map(|variant| Box::new(cpu(variant, 2)) as Box<dyn Backend>));
        for mut backend in backends {
            for (slot, mean) in means(backend.as_mut(), kind).chunks(8).map(|row| row[0]).enumerate() {
                let size = size as usize;
                let first = if is_chunk { slot / size * size } else { (slot + 1).saturating_sub(size) };
                let expected = (first + slot) as f32 / 2.0;
                let what = format!("{}: slot {slot} through {kind:?}", backend.caps().variant);
                assert!((mean - expected).abs() < 1e-3, "{what} sees a mean of {mean}, not {expected}");
            }
        }
    }
}

#[test]
fn layer_norm_agrees_with_the_oracle() {
    for (width, bias, in_place) in [(200, true, false), (192, false, true), (31, true, true)] {
        check(&format!("layer norm of {width}, bias: {bias}"), 1e-6, |bench| {
            let x = bench.input(width);
            let out = if in_place { x } else { bench.plan.buffer(Rows::Batch, width) };
            let weight = bench.weight(DType::F32, 1, width, 1.0);
            let bias = bias.then(|| bench.weight(DType::F32, 1, width, 1.0));
            bench.plan.push(Op::LayerNorm { x, weight, bias, eps: 1e-5, out });
            out
        });
    }
}

#[test]
fn element_wise_ops_agree_with_the_oracle() {
    for (width, in_place) in [(200, true), (64, false), (30, false)] {
        for activation in [Glu::Silu, Glu::Gelu, Glu::Clamped { alpha: 1.702, limit: 0.75 }] {
            check(&format!("{activation:?} of {width}"), 1e-6, |bench| {
                let [gate, up] = [width; 2].map(|width| bench.input(width));
                let out = if in_place { gate } else { bench.plan.buffer(Rows::Batch, width) };
                bench.plan.push(Op::Glu { activation, gate, up, out });
                out
            });
        }
        check(&format!("sum of {width}"), 0.0, |bench| {
            let [x, y] = [width; 2].map(|width| bench.input(width));
            bench.plan.push(Op::Add { x, y });
            x
        });
        for factors in [width, width / 2, 1] {
            check(&format!("product of {width} and {factors}"), 0.0, |bench| {
                let [x, y] = [width, factors].map(|width| bench.input(width));
                bench.plan.push(Op::Mul { x, y });
                x
            });
        }
        let alone = |what: &str, bound, op: &dyn Fn(BufferId) -> Op| {
            check(&format!("{what} of {width}"), bound, |bench| {
                let x = bench.input(width);
                bench.plan.push(op(x));
                x
            });
        };
        alone("gelu", 1e-6, &|x| Op::Gelu { x });
        alone("gelu with erf", 1e-6, &|x| Op::GeluErf { x });
        alone("sigmoid", 1e-6, &|x| Op::Sigmoid { x });
        alone("silu", 1e-6, &|x| Op::Silu { x });
        alone("relu squared", 1e-6, &|x| Op::ReluSquared { x });
        alone("scale", 1e-7, &|x| Op::Scale { x, factor: 11.3 });
        alone("clamp", 0.0, &|x| Op::Clamp { x, least: -0.25, most: 0.5 });
        alone("clamp from below", 0.0, &|x| Op::Clamp { x, least: 0.125, most: f32::INFINITY });
        alone("softcap", 1e-6, &|x| Op::Softcap { x, cap: 1.5 });
    }
}

#[test]
fn convolutions_agree_with_the_oracle() {
    for (width, kernel, dtype) in
        [(200, 3, DType::F32), (64, 2, DType::F16), (30, 4, DType::F32), (256, 16, DType::BF16)]
    {
        let has_bias = kernel > 2;
        check(&format!("convolution of {kernel} rows of {width} in {dtype}"), 1e-6, |bench| {
            let x = bench.input(width);
            // Another state is before the one in use.
            for _ in 0..2 {
                let out = bench.plan.buffer(Rows::Batch, width);
                let (state, weight) =
                    (bench.plan.recurrent((kernel - 1) * width), bench.weight(dtype, width, kernel, 1.0));
                let bias = has_bias.then(|| bench.weight(DType::F32, 1, width, 1.0));
                bench.plan.push(Op::Conv { state, x, weight, bias, out });
            }
            BufferId(bench.plan.buffers.len() as u32 - 1)
        });
    }
}

#[test]
fn delta_rule_agrees_with_the_oracle() {
    for (sharing, [key_heads, key_dim], [heads, value_dim]) in [
        (KeySharing::Adjacent, [1, 8], [1, 16]),
        (KeySharing::Adjacent, [2, 33], [6, 32]),
        (KeySharing::Tiled, [3, 128], [6, 128]),
        (KeySharing::Tiled, [2, 16], [2, 75]),
    ] {
        check(&format!("{sharing:?} {key_heads} x {key_dim} for {heads} x {value_dim}"), 1e-5, |bench| {
            let qkv = bench.input(2 * key_heads * key_dim + heads * value_dim);
            let [decay, beta] = [heads; 2].map(|width| bench.input(width));
            let rate = bench.upload(rates(heads));
            let bias = bench.weight(DType::F32, 1, heads, 1.0);
            bench.plan.push(Op::Decay { x: decay, rate, bias });
            bench.plan.push(Op::Sigmoid { x: beta });
            // Another state is before the one in use.
            for _ in 0..2 {
                let (out, eps) = (bench.plan.buffer(Rows::Batch, heads * value_dim), 1e-3);
                let state = bench.plan.recurrent(heads * key_dim * value_dim);
                bench.plan.push(Op::DeltaRule(DeltaRule {
                    state,
                    qkv,
                    decay,
                    beta,
                    key_heads,
                    heads,
                    key_dim,
                    value_dim,
                    sharing,
                    eps,
                    out,
                }));
            }
            BufferId(bench.plan.buffers.len() as u32 - 1)
        });
    }
}

#[test]
fn decays_and_parts_of_heads_agree_with_the_oracle() {
    // The exponential of some inputs of the second overflows.
    for (largest_rate, largest_bias) in [(1.0, 3.0), (1e-3, 2000.0)] {
        check(&format!("decay with biases up to {largest_bias}"), 1e-6, |bench| {
            let x = bench.input(30);
            let rate = bench.weight(DType::F32, 1, 30, largest_rate);
            let bias = bench.weight(DType::F32, 1, 30, largest_bias);
            bench.plan.push(Op::Decay { x, rate, bias });
            x
        });
    }
    for (width, group, start, len) in [(48, 48, 0, 48), (48, 12, 0, 5), (48, 12, 7, 5), (30, 2, 1, 1)] {
        check(&format!("{len} of {group} from {start}"), 0.0, |bench| {
            let x = bench.input(width);
            let (heads, out) = (width / group, bench.plan.buffer(Rows::Batch, width / group * len));
            let part = |buffer, first| HeadPart { buffer, heads, first };
            bench.plan.push(Op::CopyHeads { from: part(x, start), to: part(out, 0), width: len });
            out
        });
    }
}

#[test]
fn gather_agrees_with_the_oracle() {
    check("gather", 0.0, |bench| {
        let x = bench.input(24);
        let out = bench.plan.buffer(Rows::Logits, 24);
        bench.plan.push(Op::Gather { x, out });
        out
    });
}

#[test]
fn rotations_by_components_agree_with_the_oracle() {
    check("three components", 1e-6, |bench| {
        let x = bench.input(96);
        let components = vec![0, 1, 2, 2, 1, 0, 1, 2];
        let frequencies = (0..8).map(|pair| 1.0 / (pair + 1) as f32).collect();
        let rope = bench.plan.rope(Rope { components, ..Rope::new(RopeStyle::Half, frequencies) });
        bench.plan.push(Op::Rope { x, head_dim: 16, rope });
        x
    });
}

#[test]
fn embedding_rows_and_tokens_mix_in_a_batch() {
    let build = |backend: &mut dyn Backend| {
        let mut bench = Bench { backend, plan: Plan::default(), random: Random(3) };
        let out = bench.input(8);
        let plan = bench.plan;
        let plan = backend.prepare(plan, Limits { rows: 3, logit_rows: 0 }).expect("the plan is sound");
        let mut batch = Batch { tables: vec![Vec::new()], ..Batch::default() };
        batch.rows.extend((0..3).map(|slot| Row::text(0, token(0, slot as usize), slot, false)));
        batch.rows[1].input = cairn_tensor::Input::Embedding(1);
        batch.embeddings = (0..16).map(|element| element as f32).collect();
        backend.run(plan, &batch).expect("the batch is sound");
        read(backend, plan, out, 3, 8)
    };
    let exact = build(&mut Reference::new());
    assert_eq!(exact[8..16], [8.0, 9.0, 10.0, 11.0, 12.0, 13.0, 14.0, 15.0], "the batch's second row is second");
    for variant in all_variants() {
        assert_eq!(build(&mut cpu(variant, 2)), exact, "{}", variant.name);
    }
}

#[test]
fn tables_of_tokens_have_a_row_of_padding() {
    for dtype in [DType::F32, DType::BF16, DType::Q8_0, DType::Q6_K] {
        check(dtype.name(), 0.0, |bench| {
            let table = bench.weight(dtype, VOCABULARY, 256, 1.0);
            let out = bench.plan.buffer(Rows::Batch, 256);
            bench.plan.push(Op::EmbedTokens { table, out });
            out
        });
    }
    let run = |backend: &mut dyn Backend| {
        let mut bench = Bench { backend, plan: Plan::default(), random: Random(3) };
        bench.input(8);
        let table = bench.weight(DType::F32, VOCABULARY, 16, 1.0);
        let out = bench.plan.buffer(Rows::Batch, 16);
        bench.plan.push(Op::EmbedTokens { table, out });
        let plan = bench.plan;
        let plan = backend.prepare(plan, Limits { rows: 2, logit_rows: 0 }).expect("the plan is sound");
        let mut batch = Batch { tables: vec![Vec::new()], embeddings: vec![1.0; 8], ..Batch::default() };
        batch.rows.extend((0..2).map(|slot| Row::text(0, 0, slot, false)));
        batch.rows[1].input = cairn_tensor::Input::Embedding(0);
        backend.run(plan, &batch).expect("the batch is sound");
        read(backend, plan, out, 2, 16)
    };
    let exact = run(&mut Reference::new());
    assert_eq!(exact[..16], exact[16..], "an embedding has the row of token 0");
    for variant in all_variants() {
        assert_eq!(run(&mut cpu(variant, 2)), exact, "{}", variant.name);
    }
}

#[test]
fn model_agrees_with_the_oracle() {
    // The tiny model's values come from Q8_0 weights for all types, so the bound of 8-bit activations applies.
    for (dtype, bound) in [(DType::F32, 1e-2), (DType::Q8_0, 3e-2), (DType::Q6_K, 3e-2)] {
        compare(dtype.name(), bound, |backend| vec![logits(backend, tiny, dtype, 310)]);
        // A gated convolution multiplies three quantized projections.
        compare(dtype.name(), 1.5 * bound, |backend| vec![logits(backend, hybrid, dtype, 310)]);
        compare(dtype.name(), 1.5 * bound, |backend| vec![logits(backend, linear, dtype, 310)]);
        compare(dtype.name(), 1.5 * bound, |backend| vec![logits(backend, state_space, dtype, 310)]);
    }
}
