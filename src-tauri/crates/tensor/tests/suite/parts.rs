//! Attention to parts of sequences with biases by distance: comparisons with the oracle, equal bits in any batch, and refusals.

use cairn_gguf::DType;
use cairn_tensor::{
    Backend, Batch, DistanceBias, Limits, Op, Part, PartAttention, Plan, Reference, Row, Rows, State, StateId,
    StateKind, WeightId,
};

use crate::common::{Random, VOCABULARY, all_variants, cpu, matrix, read, table, token};
use crate::ops::check;

/// Query heads and elements of each.
const HEADS: usize = 3;
const HEAD_DIM: usize = 40;
/// Rows of the inputs of three sequences: less than a page, more than a span, and the end of a page.
const INPUTS: [usize; 3] = [5, 300, 64];
/// Rows behind them: more than a span, a few, and a single one.
const OWN: [usize; 3] = [290, 37, 1];
const SLOTS: usize = 384;

#[test]
fn biased_attention_agrees_with_the_oracle() {
    for (both_ways, buckets, heads, kv_heads) in
        [(false, 32, 3, 3), (true, 32, 4, 2), (false, 6, 2, 1), (true, 4, 1, 1)]
    {
        let what = format!("{buckets} buckets, both ways: {both_ways}, {heads} heads on {kv_heads}");
        check(&what, 1e-3, |bench| {
            let state = bench.plan.state(State::new(StateKind::Full, kv_heads, 32));
            let [q, k, v] = [heads, kv_heads, kv_heads].map(|heads| bench.input(heads * 32));
            bench.plan.push(Op::StoreKv { state, k, v });
            let bias = Some(DistanceBias { table: bench.weight(DType::F32, buckets, heads, 6.0), both_ways });
            let out = bench.plan.buffer(Rows::Batch, heads * 32);
            bench.plan.push(Op::PartAttention(PartAttention {
                state,
                q,
                heads,
                scale: 0.3,
                part: Part::Own,
                bias,
                out,
            }));
            out
        });
    }
}

#[test]
fn positive_parts_agree_with_the_oracle() {
    check("positive elements", 1e-7, |bench| {
        let x = bench.input(77);
        bench.plan.push(Op::Relu { x });
        x
    });
}

/// Results of the rows behind the inputs of all sequences, computed `cut` rows of each at a time.
fn decoded(backend: &mut dyn Backend, cut: usize) -> Vec<Vec<f32>> {
    const WIDTH: usize = HEADS * HEAD_DIM;
    let mut random = Random(5);
    let mut weight = |rows: usize, cols: usize, scale: f32| -> WeightId {
        let matrix = matrix(&mut random, DType::F32, rows, cols, scale);
        backend.upload(matrix).expect("the bytes are those of the shape")
    };
    let tables = [(); 4].map(|()| weight(VOCABULARY, WIDTH, 2.0));
    let bias = DistanceBias { table: weight(32, HEADS, 4.0), both_ways: false };
    let plan = |is_input: bool| {
        let mut plan = Plan::default();
        let [q, k, v, seen, out] = [WIDTH; 5].map(|width| plan.buffer(Rows::Batch, width));
        let state = plan.state(State::new(StateKind::Full, HEADS, HEAD_DIM));
        let first = if is_input { 2 } else { 0 };
        plan.push(Op::Embed { table: tables[first], out: k });
        plan.push(Op::Embed { table: tables[first + 1], out: v });
        plan.push(Op::StoreKv { state, k, v });
        if !is_input {
            plan.push(Op::Embed { table: tables[2], out: q });
            let attention = |part, bias, out| {
                Op::PartAttention(PartAttention { state, q, heads: HEADS, scale: 0.2, part, bias, out })
            };
            plan.push(attention(Part::Own, Some(bias), out));
            plan.push(attention(Part::Input, None, seen));
            plan.push(Op::Add { x: out, y: seen });
        }
        (plan, out)
    };
    let limits = Limits { rows: 3 * SLOTS, logit_rows: 0 };
    let [(input, _), (own, out)] = [true, false].map(|is_input| {
        let (plan, out) = plan(is_input);
        (backend.prepare(plan, limits).expect("the plan is sound"), out)
    });
    let tables: Vec<_> = (0..3).map(|seq| table(seq, 3, SLOTS)).collect();
    backend.grow_pages(tables.iter().map(Vec::len).sum()).expect("a few pages can be had");
    let row = |seq: usize, slot: usize| Row::text(seq as u32, token(seq, slot), slot as u32, false);
    let inputs = (0..3).flat_map(|seq| (0..INPUTS[seq]).map(move |slot| row(seq, slot)));
    let mut batch = Batch { rows: inputs.collect(), tables, ..Batch::default() };
    backend.run(input, &batch).expect("the batch is sound");
    let mut results = vec![Vec::new(); 3];
    for start in (0..SLOTS).step_by(cut) {
        batch.rows.clear();
        for seq in 0..3 {
            let first = INPUTS[seq];
            let behind = (first + start..first + OWN[seq].min(start + cut)).map(|slot| row(seq, slot));
            batch.rows.extend(behind.map(|row| Row { pos: [0, 0, 0, first as u32], ..row }));
        }
        if batch.rows.is_empty() {
            break;
        }
        backend.run(own, &batch).expect("the batch is sound");
        let values = read(backend, own, out, batch.rows.len(), WIDTH);
        for (row, values) in batch.rows.iter().zip(values.chunks(WIDTH)) {
            results[row.seq as usize].extend_from_slice(values);
        }
    }
    results
}

#[test]
fn rows_behind_an_input_agree_with_the_oracle_in_any_batch() {
    let exact = decoded(&mut Reference::new(), SLOTS).concat();
    let norm: f64 = exact.iter().map(|x| f64::from(*x).powi(2)).sum();
    for variant in all_variants() {
        let whole = decoded(&mut cpu(variant, 1), SLOTS).concat();
        let error: f64 = whole.iter().zip(&exact).map(|(a, b)| f64::from(a - b).powi(2)).sum();
        let error = (error / norm).sqrt();
        assert!(error < 1e-3, "{} is off by {error:e}", variant.name);
        let bits = |values: &[f32]| values.iter().map(|x| x.to_bits()).collect::<Vec<_>>();
        for (cut, threads) in [(1, 3), (7, 2), (64, 3), (SLOTS, 3)] {
            let cut_up = decoded(&mut cpu(variant, threads), cut).concat();
            assert_eq!(bits(&cut_up), bits(&whole), "{}, cuts of {cut}, {threads} threads", variant.name);
        }
    }
}

/// Returns both backends.
fn backends() -> [Box<dyn Backend>; 2] {
    [Box::new(Reference::new()), Box::new(cpu(all_variants().last().expect("scalar is usable"), 1))]
}

/// Prepares attention with this bias table and kind of state.
fn prepare(
    backend: &mut dyn Backend,
    table: [usize; 2],
    both_ways: bool,
    part: Part,
    kind: StateKind,
) -> Result<cairn_tensor::PlanId, cairn_tensor::BackendError> {
    let table = backend.upload(matrix(&mut Random(1), DType::F32, table[0], table[1], 1.0)).expect("it is sound");
    let mut plan = Plan::default();
    let [q, out] = [32; 2].map(|width| plan.buffer(Rows::Batch, width));
    plan.state(State::new(kind, 2, 16));
    let bias = Some(DistanceBias { table, both_ways });
    let op = PartAttention { state: StateId(0), q, heads: 2, scale: 1.0, part, bias, out };
    plan.push(Op::PartAttention(op));
    backend.prepare(plan, Limits { rows: 4, logit_rows: 0 })
}

#[test]
fn invalid_attention_to_parts_is_refused() {
    for mut backend in backends() {
        let mut check = |table, both_ways, kind, expected: &str| {
            let error = prepare(backend.as_mut(), table, both_ways, Part::Own, kind).expect_err("it is not sound");
            assert!(error.to_string().contains(expected), "{error} lacks {expected:?}");
        };
        check([32, 3], false, StateKind::Full, "is 32 x 3, and there are 2 heads");
        check([1, 2], false, StateKind::Full, "has 1 buckets of distances");
        check([256, 2], false, StateKind::Full, "has 256 buckets of distances");
        check([31, 2], false, StateKind::Full, "has 31 buckets of distances");
        check([30, 2], true, StateKind::Full, "has 30 buckets of distances");
        check([512, 2], true, StateKind::Full, "has 512 buckets of distances");
        check([32, 2], true, StateKind::Window(8), "a part of a sequence has all its slots, not Window(8)");
    }
}

#[test]
fn rows_without_their_input_are_refused() {
    for mut backend in backends() {
        let plan = prepare(backend.as_mut(), [32, 2], false, Part::Input, StateKind::Full).expect("the plan is sound");
        backend.grow_pages(1).expect("a page can be had");
        for (first, slot, is_refused) in [(0, 0, true), (0, 3, true), (4, 3, true), (3, 3, false), (1, 3, false)] {
            let row = Row { pos: [0, 0, 0, first], ..Row::text(0, 0, slot, false) };
            let batch = Batch { rows: vec![row], tables: vec![table(0, 1, 64)], ..Batch::default() };
            let result = backend.run(plan, &batch);
            assert_eq!(result.is_err(), is_refused, "an input of {first} before slot {slot}: {result:?}");
            if let Err(error) = result {
                let expected = format!("row 0 has slot {slot}, and the input of its sequence has {first}");
                assert!(error.to_string().contains(&expected), "{error} lacks {expected:?}");
            }
        }
    }
}
