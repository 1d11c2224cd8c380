//! The ops of state space models against the oracle, and plans with them that are refused.

use cairn_gguf::DType;
use cairn_tensor::{BufferId, Limits, Op, Plan, RecurrentId, Reference, Rows, StateSpace, WeightId};

use crate::common::{Random, all_variants, cpu, matrix};
use crate::hybrid::rates;
use crate::ops::check;

#[test]
fn state_space_agrees_with_the_oracle() {
    for (groups, heads, head_dim, state_size) in [(1, 1, 16, 8), (2, 6, 32, 33), (3, 6, 64, 128), (2, 2, 75, 16)] {
        check(&format!("{heads} x {head_dim} x {state_size} in {groups} groups"), 1e-5, |bench| {
            let xbc = bench.input(heads * head_dim + 2 * groups * state_size);
            let step = bench.input(heads);
            let decay = bench.plan.buffer(Rows::Batch, heads);
            let rate = bench.upload(rates(heads));
            let [bias, skip] = [1.0; 2].map(|scale| bench.weight(DType::F32, 1, heads, scale));
            bench.plan.push(Op::Discretise { x: step, rate, bias, decay });
            // Another state is before the one in use.
            for _ in 0..2 {
                let out = bench.plan.buffer(Rows::Batch, heads * head_dim);
                let state = bench.plan.recurrent(heads * head_dim * state_size);
                let op = StateSpace { state, xbc, step, decay, skip, groups, heads, head_dim, state_size, out };
                bench.plan.push(Op::StateSpace(op));
            }
            BufferId(bench.plan.buffers.len() as u32 - 1)
        });
    }
}

#[test]
fn step_sizes_and_decays_agree_with_the_oracle() {
    // The exponential of some inputs of the second overflows.
    for (largest_rate, largest_bias) in [(1.0, 3.0), (1e-3, 2000.0)] {
        for is_decay in [false, true] {
            let what = format!("biases up to {largest_bias}, {}", if is_decay { "decays" } else { "step sizes" });
            check(&what, 1e-6, |bench| {
                let x = bench.input(30);
                let decay = bench.plan.buffer(Rows::Batch, 30);
                let rate = bench.weight(DType::F32, 1, 30, largest_rate);
                let bias = bench.weight(DType::F32, 1, 30, largest_bias);
                bench.plan.push(Op::Discretise { x, rate, bias, decay });
                if is_decay { decay } else { x }
            });
        }
    }
}

/// Checks that a plan with one op is refused with this text. Weights 0: 1 x 4, 1: 1 x 5.
fn check_refused(op: impl Fn(&mut Plan) -> Op, expected: &str) {
    let mut backends: Vec<Box<dyn cairn_tensor::Backend>> = vec![Box::new(Reference::new())];
    backends.extend(all_variants().into_iter().take(1).map(|variant| Box::new(cpu(variant, 2)) as _));
    for mut backend in backends {
        for len in [4, 5] {
            backend.upload(matrix(&mut Random(1), DType::F32, 1, len, 1.0)).expect("the weight is sound");
        }
        let mut plan = Plan::default();
        let op = op(&mut plan);
        plan.push(op);
        let error = backend.prepare(plan, Limits { rows: 4, logit_rows: 4 }).expect_err("it is not sound").to_string();
        assert!(error.contains(expected), "{error:?} lacks {expected:?}");
    }
}

/// Checks that a changed state space model is refused with this text.
fn check_scan(change: impl Fn(&mut StateSpace), expected: &str) {
    let op = |plan: &mut Plan| {
        let [xbc, step, decay, out] = [64, 4, 4, 32].map(|width| plan.buffer(Rows::Batch, width));
        let (state, skip, state_size) = (plan.recurrent(256), WeightId(0), 8);
        let mut op = StateSpace { state, xbc, step, decay, skip, groups: 2, heads: 4, head_dim: 8, state_size, out };
        change(&mut op);
        Op::StateSpace(op)
    };
    check_refused(op, expected);
}

#[test]
fn invalid_state_spaces_are_refused() {
    check_scan(|op| op.groups = 3, "4 heads of 8 with states of 8 are not 3 equal groups");
    check_scan(|op| op.groups = 0, "4 heads of 8 with states of 8 are not 0 equal groups");
    check_scan(|op| op.state_size = usize::MAX, "with states of 18446744073709551615 are not 2 equal groups");
    check_scan(|op| op.head_dim = 7, "recurrent state 0 has 256 elements, its op needs 224");
    check_scan(|op| op.xbc = op.out, "buffer 3 is Buffer { rows: Batch, width: 32 }, not");
    check_scan(|op| op.step = op.xbc, "buffer 0 is Buffer { rows: Batch, width: 64 }, not");
    check_scan(|op| op.decay = op.xbc, "buffer 0 is Buffer { rows: Batch, width: 64 }, not");
    check_scan(|op| op.out = op.xbc, "buffer 0 is Buffer { rows: Batch, width: 64 }, not");
    check_scan(|op| op.skip = WeightId(1), "is 1 x 5, not a vector of 4");
    check_scan(|op| op.state = RecurrentId(1), "there is no recurrent state 1");
}

#[test]
fn invalid_step_sizes_are_refused() {
    let op = |weights: [u32; 2], width: usize, is_same: bool| {
        move |plan: &mut Plan| {
            let [x, other] = [4, width].map(|width| plan.buffer(Rows::Batch, width));
            let [rate, bias] = weights.map(WeightId);
            Op::Discretise { x, rate, bias, decay: if is_same { x } else { other } }
        }
    };
    check_refused(op([1, 0], 4, false), "is 1 x 5, not a vector of 4");
    check_refused(op([0, 1], 4, false), "is 1 x 5, not a vector of 4");
    check_refused(op([0, 0], 5, false), "buffers 0 and 1 differ");
    check_refused(op([0, 0], 4, true), "buffer 0 is both read and written");
}
