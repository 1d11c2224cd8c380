//! Attention with values of another size than keys, or in the keys, and the ops around it: comparisons with the oracle, and refusals.

use cairn_gguf::DType;
use cairn_tensor::{
    Backend, Batch, BufferId, HeadPart, Input, Limits, Op, PageId, Plan, Reference, Row, Rows, State, StateId,
    StateKind, Values, Weight, WeightId,
};

use crate::common::{Random, all_variants, cpu, matrix};
use crate::latent::latent;
use crate::model::logits;
use crate::ops::{Bench, attend, check, compare, compare_types, outputs};

#[test]
fn attention_with_other_values_agrees_with_the_oracle() {
    for (heads, kv_heads, head_dim, values, softcap, sinks) in [
        (4, 2, 96, Values::Rows(64), None, false),
        (2, 2, 32, Values::Rows(96), Some(3.0), true),
        (4, 1, 96, Values::InKeys(64), None, true),
        // Several tasks share the key/value head.
        (32, 1, 64, Values::InKeys(32), None, false),
        (48, 2, 32, Values::Rows(64), None, true),
    ] {
        for kind in [StateKind::Full, StateKind::Window(100)] {
            let state = State { kind, kv_heads, head_dim, values };
            let what = format!("{state:?}, {heads} heads, {softcap:?}, sinks: {sinks}");
            check(&what, 1e-3, |bench| attend(bench, state, heads, softcap, sinks));
            // Types differ in how a row is read, and kinds in which rows are.
            let types = [(DType::Q8_0, 1e-2), (DType::Q4_0, 0.2)];
            for (dtype, rounding) in types.into_iter().filter(|_| kind == StateKind::Full) {
                let what = format!("{dtype}: {what}");
                let run = |backend: &mut dyn Backend| {
                    outputs(backend, &|bench: &mut Bench<'_>| attend(bench, state, heads, softcap, sinks))
                };
                compare_types(&what, [dtype; 2], 3e-6, run);
                compare_types(&what, [DType::F32, dtype], rounding, run);
            }
        }
    }
}

#[test]
fn products_and_copies_by_head_agree_with_the_oracle() {
    for (dtype, rounding) in [(DType::F32, 1e-5), (DType::Q8_0, 1e-2), (DType::Q4_0, 1e-2)] {
        for (heads, inner, outer) in [(1, 32, 16), (3, 64, 40), (5, 32, 129)] {
            let what = format!("{dtype}: {heads} heads of {inner} to {outer}");
            check(&what, rounding, |bench| {
                let (from_width, to_width) = (inner + 7, outer + 5);
                let x = bench.input(heads * from_width);
                let single = bench.input(3 + 4);
                let to = bench.plan.buffer(Rows::Batch, heads * to_width);
                let weight = bench.weight(dtype, heads * outer, inner, 0.3);
                let part = |buffer, heads, first| HeadPart { buffer, heads, first };
                let from = part(x, heads, 7);
                bench.plan.push(Op::MatMulHeads { from, weight, to: part(to, heads, 1) });
                bench.plan.push(Op::CopyHeads { from: part(x, heads, 2), to: part(to, heads, 0), width: 1 });
                bench.plan.push(Op::CopyHeads { from: part(single, 1, 3), to: part(to, heads, outer + 1), width: 4 });
                to
            });
        }
    }
}

#[test]
fn squared_inputs_of_a_product_by_head_are_added_for_each_head() {
    let (heads, inner, outer, first, count) = (3, 32, 8, 5, 70);
    let stride = inner + first + 2;
    let mut random = Random(3);
    let inputs: Vec<f32> = (0..count * heads * stride).map(|_| random.unit()).collect();
    let column = |head: usize, column: usize| {
        let rows = inputs.chunks(heads * stride);
        rows.map(|row| f64::from(row[head * stride + first + column]).powi(2)).sum::<f64>()
    };
    for threads in [1, 3] {
        let mut backend = cpu(all_variants()[0], threads);
        let weight = matrix(&mut random, DType::F32, heads * outer, inner, 0.3);
        let weight = backend.upload(Weight { name: "by head".to_owned(), ..weight }).expect("the weight is sound");
        let mut plan = Plan::default();
        let [x, to] = [heads * stride, heads * outer].map(|width| plan.buffer(Rows::Batch, width));
        let part = |buffer, first| HeadPart { buffer, heads, first };
        plan.push(Op::Input { out: x });
        plan.push(Op::MatMulHeads { from: part(x, first), weight, to: part(to, 0) });
        let plan = backend.prepare(plan, Limits { rows: count, logit_rows: 1 }).expect("the plan is sound");
        backend.grow_pages(2).expect("two pages can be had");
        backend.collect_squares();
        let row = |at: u32| Row { input: Input::Embedding(at), ..Row::text(0, 0, at, false) };
        let (rows, tables) = ((0..count as u32).map(row).collect(), vec![vec![PageId(0), PageId(1)]]);
        backend.run(plan, &Batch { rows, tables, embeddings: inputs.clone(), ..Batch::default() }).expect("it runs");
        let squares = backend.take_squares(plan);
        let [found] = &squares[..] else { panic!("one weight: {squares:?}") };
        assert_eq!((found.name.as_str(), found.matrices.len()), ("by head", heads), "{threads} threads");
        for (head, matrix) in found.matrices.iter().enumerate() {
            assert_eq!((matrix.inputs, matrix.sums.len()), (count as u64, inner), "{threads} threads, head {head}");
            for (at, sum) in matrix.sums.iter().enumerate() {
                let expected = column(head, at);
                assert!((sum - expected).abs() < 1e-9 * expected, "{threads} threads: {sum} instead of {expected}");
            }
        }
    }
}

#[test]
fn latent_model_agrees_with_the_oracle() {
    for (dtype, bound) in [(DType::F32, 2e-3), (DType::Q8_0, 2e-2)] {
        compare(dtype.name(), bound, |backend| vec![logits(backend, latent, dtype, 310)]);
    }
}

/// Checks that a plan of one op is refused with this text. Buffers 0: 32 wide, 1: 48 wide, 2: 16 wide, 3: 32 wide by logits; weight 0:
/// 32 x 8. State 0 has values in the keys, 1 in rows of their own, 2 in the keys of two heads.
fn check_refused(op: &Op, expected: &str) {
    let scalar = cpu(all_variants().last().expect("scalar is usable"), 1);
    let backends: [Box<dyn Backend>; 2] = [Box::new(Reference::new()), Box::new(scalar)];
    for mut backend in backends {
        backend.upload(matrix(&mut Random(1), DType::F32, 32, 8, 1.0)).expect("the weight is sound");
        let mut plan = Plan { ops: vec![op.clone()], ..Plan::default() };
        for (rows, width) in [(Rows::Batch, 32), (Rows::Batch, 48), (Rows::Batch, 16), (Rows::Logits, 32)] {
            plan.buffer(rows, width);
        }
        let kind = StateKind::Full;
        plan.state(State { kind, kv_heads: 1, head_dim: 48, values: Values::InKeys(32) });
        plan.state(State { kind, kv_heads: 1, head_dim: 32, values: Values::Rows(16) });
        plan.state(State { kind, kv_heads: 2, head_dim: 48, values: Values::InKeys(32) });
        let error = backend.prepare(plan, Limits { rows: 2, logit_rows: 1 }).expect_err("the op is not sound");
        let error = error.to_string();
        assert!(error.contains(expected), "{op:?}: {error:?} lacks {expected:?}");
    }
}

#[test]
fn invalid_latent_ops_are_refused() {
    let [x, wide, narrow, last] = [0, 1, 2, 3].map(BufferId);
    let part = |buffer, heads, first| HeadPart { buffer, heads, first };
    let multiply = |from, to| Op::MatMulHeads { from, weight: WeightId(0), to };
    check_refused(&multiply(part(x, 4, 0), part(wide, 2, 0)), "for 4 heads and outputs of 2");
    check_refused(&multiply(part(x, 0, 0), part(wide, 0, 0)), "for 0 heads");
    check_refused(&multiply(part(x, 3, 0), part(wide, 3, 0)), "for 3 heads");
    check_refused(&multiply(part(x, 4, 1), part(wide, 4, 0)), "has no 4 heads with 8 elements from 1 on");
    check_refused(&multiply(part(x, 4, 0), part(wide, 4, 5)), "has no 4 heads with 8 elements from 5 on");
    check_refused(&multiply(part(x, 4, 0), part(wide, 4, usize::MAX)), "has no 4 heads with 8 elements");
    check_refused(&multiply(part(x, 4, 0), part(x, 4, 0)), "buffer 0 is both read and written");
    check_refused(&multiply(part(x, 4, 0), part(last, 4, 0)), "buffers 0 and 3 have different rows");
    let copy = |from, to, width| Op::CopyHeads { from, to, width };
    check_refused(&copy(part(x, 2, 0), part(wide, 4, 0), 8), "2 heads of buffer 0 are no source of 4 others");
    check_refused(&copy(part(x, 4, 0), part(narrow, 4, 0), 8), "buffer 2 of width 16 has no 4 heads");
    check_refused(&copy(part(x, 4, 0), part(last, 4, 0), 8), "are no source of");
    check_refused(&copy(part(x, 4, 0), part(x, 4, 0), 8), "buffer 0 is both read and written");
    check_refused(&copy(part(x, 4, 0), part(wide, 4, 0), 0), "with 0 elements");
    check_refused(&copy(part(x, 0, 0), part(wide, 0, 0), 8), "buffer 0 of width 32 has no 0 heads");
    check_refused(&copy(part(x, 5, 0), part(wide, 5, 0), 2), "buffer 0 of width 32 has no 5 heads");
    check_refused(&copy(part(x, 4, 7), part(wide, 4, 0), 2), "has no 4 heads with 2 elements from 7 on");
    check_refused(&copy(part(x, 4, usize::MAX), part(wide, 4, 0), 2), "has no 4 heads with 2 elements");
    check_refused(&copy(part(x, 4, 0), part(wide, 5, 0), 2), "buffer 1 of width 48 has no 5 heads");
    check_refused(&Op::StoreKv { state: StateId(0), k: x, v: x }, "state 0 stores no values");
    check_refused(&Op::StoreKv { state: StateId(1), k: x, v: x }, "buffer 0 is");
    check_refused(&Op::StoreLatent { state: StateId(1), k: narrow, v: x }, "state 1 has no values in the keys");
    check_refused(
        &Op::StoreLatent { state: StateId(2), k: narrow, v: x },
        "state 2 has no values in the keys of one head",
    );
    check_refused(&Op::StoreLatent { state: StateId(0), k: x, v: narrow }, "buffer 0 is");
    let attention =
        Op::Attention { state: StateId(1), q: x, heads: 1, scale: 1.0, softcap: None, sinks: None, out: wide };
    check_refused(&attention, "buffer 1 is");
}

#[test]
fn states_of_impossible_sizes_are_refused() {
    for values in [Values::Rows(0), Values::InKeys(0), Values::InKeys(32), Values::InKeys(40)] {
        let scalar = cpu(all_variants().last().expect("scalar is usable"), 1);
        let backends: [Box<dyn Backend>; 2] = [Box::new(Reference::new()), Box::new(scalar)];
        for mut backend in backends {
            let mut plan = Plan::default();
            plan.state(State { kind: StateKind::Full, kv_heads: 1, head_dim: 32, values });
            let error = backend.prepare(plan, Limits { rows: 2, logit_rows: 1 }).expect_err("the state is not sound");
            assert!(error.to_string().contains("state 0 is empty"), "{values:?}: {error}");
        }
    }
}
