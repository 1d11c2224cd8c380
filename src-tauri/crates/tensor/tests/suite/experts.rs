//! Mixtures of experts against the oracle.

use cairn_gguf::DType;
use cairn_tensor::{Backend, BufferId, ExpertGroups, Gating, Op, Projection, Router, Rows};

use crate::common::VOCABULARY;
use crate::model::logits;
use crate::ops::{Bench, check, compare, compare_types};
use crate::varied::{chunked, varied};

const GATINGS: [Gating; 5] = [
    Gating::Softmax { renormalise: false },
    Gating::Softmax { renormalise: true },
    Gating::Sigmoid { renormalise: false },
    Gating::Sigmoid { renormalise: true },
    Gating::SoftmaxOfChosen,
];

/// Routes to random experts; which ones differs from token to token.
fn routes(bench: &mut Bench<'_>, experts: usize, used: usize) -> BufferId {
    let (logits, out) = (bench.input(experts), bench.plan.buffer(Rows::Batch, 2 * used));
    bench.plan.push(Op::Route { logits, router: Router::new(used, Gating::SoftmaxOfChosen), out });
    out
}

#[test]
fn route_agrees_with_the_oracle() {
    for gating in GATINGS {
        for (experts, used, scale) in [(5, 2, 1.0), (128, 8, 2.5), (3, 3, 1.0), (1, 1, 0.5)] {
            check(&format!("{used} of {experts}, {gating:?}"), 1e-7, |bench| {
                let (logits, out) = (bench.input(experts), bench.plan.buffer(Rows::Batch, 2 * used));
                bench.plan.push(Op::Route { logits, router: Router { scale, ..Router::new(used, gating) }, out });
                out
            });
        }
    }
}

#[test]
fn route_with_bias_and_groups_agrees_with_the_oracle() {
    for gating in GATINGS {
        for (experts, used, groups) in
            [(5, 2, None), (12, 4, Some([3, 2])), (128, 8, Some([8, 4])), (6, 6, Some([1, 1]))]
        {
            for has_bias in [false, true] {
                check(&format!("{used} of {experts}, {groups:?}, {has_bias}, {gating:?}"), 1e-7, |bench| {
                    let (logits, out) = (bench.input(experts), bench.plan.buffer(Rows::Batch, 2 * used));
                    let choice_bias = has_bias.then(|| bench.weight(DType::F32, 1, experts, 0.5));
                    let groups = groups.map(|[count, used]| ExpertGroups { count, used });
                    let router = Router { choice_bias, groups, ..Router::new(used, gating) };
                    bench.plan.push(Op::Route { logits, router, out });
                    out
                });
            }
        }
    }
}

#[test]
fn factors_of_experts_agree_with_the_oracle() {
    for gating in GATINGS {
        check(&format!("{gating:?}"), 1e-7, |bench| {
            let (logits, out) = (bench.input(12), bench.plan.buffer(Rows::Batch, 8));
            let expert_scales = Some(bench.weight(DType::F32, 1, 12, 2.0));
            bench.plan.push(Op::Route { logits, router: Router { expert_scales, ..Router::new(4, gating) }, out });
            out
        });
    }
}

#[test]
fn route_ranks_equal_logits_by_index() {
    check("8 of 64 with sixteen different logits", 1e-7, |bench| {
        let table = bench.weight(DType::Q4_0, VOCABULARY, 64, 2.0);
        let [logits, out] = [64, 16].map(|width| bench.plan.buffer(Rows::Batch, width));
        bench.plan.push(Op::Embed { table, out: logits });
        bench.plan.push(Op::Route { logits, router: Router::new(8, GATINGS[1]), out });
        out
    });
}

#[test]
fn expert_products_agree_with_the_oracle() {
    for (dtype, bound) in [(DType::F32, 1e-6), (DType::BF16, 1e-6), (DType::Q8_0, 1e-2), (DType::Q4_K, 1e-2)] {
        for (experts, used, width, own, bias) in
            [(5, 2, 100, false, true), (5, 2, 24, true, false), (9, 3, 40, true, true), (4, 1, 16, false, true)]
        {
            let what = format!("{used} of {experts} experts of {width} in {}, own: {own}, {bias}", dtype.name());
            check(&what, bound, |bench| {
                let x = bench.input(if own { used * 256 } else { 256 });
                let routes = routes(bench, experts, used);
                let [other, out] = [8, width].map(|width| bench.plan.buffer(Rows::Batch, used * width));
                // A projection in another format precedes it.
                let weight = bench.weight(DType::Q5_0, experts * 8, 256, 1.0);
                let mut projections = vec![Projection { weight, bias: None, out: other }];
                let bias = bias.then(|| bench.weight(DType::F32, experts, width, 30.0));
                let weight = bench.weight(dtype, experts * width, 256, 1.0);
                projections.push(Projection { weight, bias, out });
                bench.plan.push(Op::MatMulId { x, routes, experts, projections });
                out
            });
        }
    }
}

#[test]
fn weighed_inputs_agree_with_the_oracle() {
    for (used, width) in [(2, 100), (8, 64), (1, 30)] {
        let weigh = |bench: &mut Bench<'_>| {
            let x = bench.input(width);
            let routes = routes(bench, 10, used);
            let out = bench.plan.buffer(Rows::Batch, used * width);
            bench.plan.push(Op::WeighInputs { x, routes, out });
            [routes, out]
        };
        check(&format!("{used} inputs of {width}"), 1e-6, |bench| weigh(bench)[1]);
        check(&format!("weights of {used} inputs"), 1e-6, |bench| weigh(bench)[0]);
        // The weights are in the inputs, so the outputs have none.
        check(&format!("sum of {used} inputs of {width}"), 1e-6, |bench| {
            let [routes, x] = weigh(bench);
            let out = bench.plan.buffer(Rows::Batch, width);
            bench.plan.push(Op::Combine { x, routes, out });
            out
        });
    }
}

#[test]
fn expert_sums_agree_with_the_oracle() {
    for (used, width) in [(2, 100), (8, 64), (1, 30)] {
        check(&format!("sum of {used} times {width}"), 1e-6, |bench| {
            let x = bench.input(used * width);
            let routes = routes(bench, 10, used);
            let out = bench.plan.buffer(Rows::Batch, width);
            bench.plan.push(Op::Combine { x, routes, out });
            out
        });
    }
}

#[test]
fn model_with_experts_agrees_with_the_oracle() {
    // A rounded logit may choose another expert.
    for (dtype, bound) in [(DType::F32, 1e-3), (DType::Q8_0, 1e-1)] {
        compare(dtype.name(), bound, |backend| vec![logits(backend, varied, dtype, 310)]);
    }
    // Each row has one expert at last, so that another one changes much: both backends round keys and values.
    let outputs = |backend: &mut dyn Backend| vec![logits(backend, chunked, DType::F32, 310)];
    compare_types("chunks and weighed inputs", [DType::F16; 2], 1e-3, outputs);
}
