//! Several residual streams and sparse activations: comparisons with the oracle, and refusals.

use cairn_gguf::DType;
use cairn_tensor::{Backend, BufferId, HeadPart, Limits, Op, Plan, Reference, Rows, WeightId};

use crate::common::{Random, all_variants, cpu, matrix};
use crate::ops::check;

#[test]
fn mixed_parts_agree_with_the_oracle() {
    for (m, n, width) in [(4, 4, 64), (1, 4, 50), (3, 1, 33), (1, 1, 7)] {
        check(&format!("{m} parts of {width} to {n}"), 1e-6, |bench| {
            let [x, factors, out] = [m * width, n * m, n * width].map(|width| bench.input(width));
            bench.plan.push(Op::AddMixed { x, factors, width, out });
            out
        });
    }
}

#[test]
fn matched_lengths_agree_with_the_oracle() {
    for (parts, width) in [(1, 64), (3, 50), (2, 7)] {
        check(&format!("{parts} parts of {width}"), 1e-6, |bench| {
            let [x, like] = [parts * width, width].map(|width| bench.input(width));
            bench.plan.push(Op::MatchLength { x, like });
            x
        });
        // Rows of zeros have no direction.
        check(&format!("{parts} parts of {width}, one of zeros"), 1e-6, |bench| {
            let [x, like, y] = [parts * width, width, parts * width].map(|width| bench.input(width));
            bench.plan.push(Op::Scale { x, factor: 0.0 });
            bench.plan.push(Op::MatchLength { x, like });
            bench.plan.push(Op::Add { x, y });
            x
        });
    }
}

#[test]
fn outliers_agree_with_the_oracle() {
    // The elements are evenly distributed, so that the largest exceed the mean by 1.7 deviations.
    for (width, deviations) in [(200, 1.25), (77, 0.0), (64, -3.0), (2, 0.5)] {
        check(&format!("{deviations} deviations of {width}"), 1e-5, |bench| {
            let x = bench.input(width);
            bench.plan.push(Op::KeepOutliers { x, deviations });
            x
        });
    }
}

#[test]
fn added_heads_and_scaled_elements_agree_with_the_oracle() {
    for (from_heads, heads, width) in [(3, 3, 5), (1, 4, 12), (1, 1, 30)] {
        check(&format!("{width} elements of {from_heads} to {heads} heads"), 1e-7, |bench| {
            let x = bench.input(from_heads * (width + 3));
            let out = bench.input(heads * (width + 2));
            let part = |buffer, heads, first| HeadPart { buffer, heads, first };
            bench.plan.push(Op::AddHeads { from: part(x, from_heads, 3), to: part(out, heads, 1), width });
            out
        });
    }
    check("a summand for each element", 0.0, |bench| {
        let x = bench.input(70);
        let weight = bench.weight(DType::F32, 1, 70, 2.0);
        bench.plan.push(Op::AddWeight { x, weight });
        x
    });
    check("a factor for each element", 1e-7, |bench| {
        let x = bench.input(70);
        let weight = bench.weight(DType::F32, 1, 70, 2.0);
        bench.plan.push(Op::MulWeight { x, weight });
        x
    });
}

/// Checks that a plan of one op is refused with this text. Buffers 0 and 1: 32 wide, 2: 8 wide, 3: 1 wide, 4: 32 wide by logits; weight 0:
/// a vector of 8.
fn check_refused(op: &Op, expected: &str) {
    let scalar = cpu(all_variants().last().expect("scalar is usable"), 1);
    let backends: [Box<dyn Backend>; 2] = [Box::new(Reference::new()), Box::new(scalar)];
    for mut backend in backends {
        backend.upload(matrix(&mut Random(1), DType::F32, 1, 8, 1.0)).expect("the weight is sound");
        let mut plan = Plan { ops: vec![op.clone()], ..Plan::default() };
        for (rows, width) in
            [(Rows::Batch, 32), (Rows::Batch, 32), (Rows::Batch, 8), (Rows::Batch, 1), (Rows::Logits, 32)]
        {
            plan.buffer(rows, width);
        }
        let error = backend.prepare(plan, Limits { rows: 2, logit_rows: 1 }).expect_err("the op is not sound");
        let error = error.to_string();
        assert!(error.contains(expected), "{op:?}: {error:?} lacks {expected:?}");
    }
}

#[test]
fn invalid_ops_between_streams_are_refused() {
    let [x, y, narrow, single, last] = [0, 1, 2, 3, 4].map(BufferId);
    let mix = |x, factors, width, out| Op::AddMixed { x, factors, width, out };
    check_refused(&mix(x, narrow, 8, y), "are no factors from parts of 8 elements");
    check_refused(&mix(x, narrow, 0, y), "are no factors from parts of 0 elements");
    check_refused(&mix(x, narrow, 5, y), "are no factors from parts of 5 elements");
    check_refused(&mix(x, single, 32, last), "are no factors");
    check_refused(&mix(x, single, 32, x), "buffer 0 is both read and written");
    check_refused(&mix(narrow, single, 1, single), "are no factors");
    let matched = |x, like| Op::MatchLength { x, like };
    check_refused(&matched(narrow, x), "has no parts with the lengths of");
    check_refused(&matched(x, last), "has no parts with the lengths of");
    check_refused(&matched(x, x), "buffer 0 is both read and written");
    check_refused(&Op::KeepOutliers { x: single, deviations: 1.0 }, "a row of 1 elements has no deviation");
    check_refused(&Op::KeepOutliers { x, deviations: f32::NEG_INFINITY }, "the limit is -inf deviations");
    check_refused(&Op::MulWeight { x, weight: WeightId(0) }, "is 1 x 8, not a vector of 32");
    check_refused(&Op::AddWeight { x, weight: WeightId(0) }, "is 1 x 8, not a vector of 32");
    let part = |buffer| HeadPart { buffer, heads: 4, first: 0 };
    check_refused(&Op::AddHeads { from: part(x), to: part(x), width: 8 }, "buffer 0 is both read and written");
    check_refused(&Op::AddHeads { from: part(x), to: part(narrow), width: 8 }, "has no 4 heads with 8 elements");
}
