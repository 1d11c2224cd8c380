//! Both backends refuse invalid steps and rows, with the same error that names the step or row.

use cairn_gguf::DType;
use cairn_tensor::{
    Backend, BackendError, Batch, BufferId, ExpertGroups, Gating, Glu, Growth, Limits, Op, PageId, Plan, Projection,
    Reference, Rope, RopeStyle, Router, Row, Rows, State, StateId, StateKind, Values, Weight, WeightId,
};

use crate::common::{Random, all_variants, cpu, matrix};

/// Returns the CPU backend and the reference backend.
fn backends() -> [Box<dyn Backend>; 2] {
    [Box::new(Reference::new()), Box::new(cpu(all_variants().last().expect("scalar is usable"), 1))]
}

/// Weights 0: a table of 10 x 32, 1: a vector of 32. Buffers 0 and 1: 32 wide, 2: 10 wide, 3: 32 wide by logits.
fn prepare(backend: &mut dyn Backend, ops: Vec<Op>) -> Result<cairn_tensor::PlanId, BackendError> {
    backend.upload(matrix(&mut Random(1), DType::Q8_0, 10, 32, 1.0)).expect("the table is sound");
    backend.upload(matrix(&mut Random(1), DType::F32, 1, 32, 1.0)).expect("the vector is sound");
    let mut plan = Plan { ops, ..Plan::default() };
    for (rows, width) in [(Rows::Batch, 32), (Rows::Batch, 32), (Rows::Batch, 10), (Rows::Logits, 32)] {
        plan.buffer(rows, width);
    }
    plan.state(State::new(StateKind::Full, 2, 16));
    for growth in [None, Some(Growth { factor: 1.0, step: 0, offset: 0 })] {
        plan.rope(Rope { growth, ..Rope::new(RopeStyle::Half, vec![1.0; 8]) });
    }
    backend.prepare(plan, Limits { rows: 2, logit_rows: 1 })
}

/// Checks that a plan whose second step is `op` is refused with this text.
fn check(op: Op, expected: &str) {
    for mut backend in backends() {
        let embed = Op::Embed { table: WeightId(0), out: BufferId(0) };
        let error = prepare(backend.as_mut(), vec![embed, op.clone()]).expect_err("the plan is not sound").to_string();
        assert!(error.starts_with("step 1 of the plan: "), "the step is named: {error}");
        assert!(error.contains(expected), "{op:?}: {error:?} lacks {expected:?}");
    }
}

fn product(weight: u32, bias: Option<u32>, out: u32) -> Op {
    let projections = vec![Projection { weight: WeightId(weight), bias: bias.map(WeightId), out: BufferId(out) }];
    Op::MatMul { x: BufferId(0), projections }
}

#[test]
fn plan_with_invalid_step_is_refused() {
    let [x, y, narrow, last] = [0, 1, 2, 3].map(BufferId);
    let norm = |weight, group, out| Op::RmsNorm { x, weight: WeightId(weight), eps: 1e-5, group, out };
    check(Op::Embed { table: WeightId(7), out: x }, "there is no weight 7");
    check(Op::Embed { table: WeightId(0), out: last }, "buffer 3 is");
    check(Op::EmbedTokens { table: WeightId(0), out: narrow }, "buffer 2 is");
    let add_embedding = |x, component| Op::AddEmbedding { x, table: WeightId(0), component };
    check(add_embedding(narrow, 0), "buffer 2 is");
    check(add_embedding(last, 0), "buffer 3 is");
    check(add_embedding(x, 4), "a position has 4 components, not 4");
    let grid = |x, side| Op::AddGridEmbedding { x, table: WeightId(0), side };
    check(grid(x, 3), "10 positions are not a grid with a side of 3");
    check(grid(narrow, 3), "buffer 2 is");
    check(Op::AddInput { x: last, first: 0 }, "buffer 3 is");
    check(Op::AddInput { x, first: usize::MAX }, "an embedding row has no element");
    check(Op::Join { x, count: 2, out: last }, "buffer 3 is");
    check(Op::Join { x, count: 0, out: last }, "buffer 3 is");
    let narrow_norm = Op::RmsNorm { x: narrow, weight: WeightId(1), eps: 1e-5, group: 5, out: narrow };
    check(narrow_norm, "is 1 x 32, not a vector of 5");
    check(norm(1, 12, y), "32 elements are not whole groups of 12");
    check(norm(1, 0, y), "32 elements are not whole groups of 0");
    check(norm(0, 32, y), "is 10 x 32, not a vector of 32");
    check(norm(1, 32, narrow), "buffers 0 and 2 differ");
    check(product(0, None, 1), "is 10 x 32, its output");
    check(product(0, Some(1), 2), "is 1 x 32, not a vector of 10");
    check(product(0, None, 9), "there is no buffer 9");
    check(Op::MatMul { x: narrow, projections: vec![] }, "the product has no weights");
    check(Op::Rope { x, head_dim: 8, rope: 0 }, "16 elements rotate in a head of 8");
    check(Op::Rope { x, head_dim: 24, rope: 0 }, "not whole heads of 24");
    check(Op::Rope { x, head_dim: 16, rope: 1 }, "the growth of a rotation is Some(Growth { factor: 1.0, step: 0 })");
    check(Op::Rope { x, head_dim: 16, rope: 2 }, "there is no rotation 2");
    check(Op::StoreKv { state: StateId(0), k: x, v: narrow }, "buffer 2 is");
    check(Op::StoreKv { state: StateId(1), k: x, v: y }, "there is no state 1");
    let attend = |heads, softcap, sinks: Option<u32>, out| {
        let (state, sinks) = (StateId(0), sinks.map(WeightId));
        Op::Attention { state, q: x, heads, scale: 1.0, softcap, sinks, out }
    };
    let attention = |heads, out| attend(heads, None, None, out);
    check(attention(3, y), "3 query heads do not share 2 key/value heads evenly");
    check(attention(4, y), "buffer 0 is");
    check(attention(2, x), "buffer 0 is both read and written");
    check(attend(2, None, Some(1), y), "is 1 x 32, not a vector of 2");
    check(attend(2, Some(0.0), None, y), "the cap on scores is 0");
    let glu = |activation, up, out| Op::Glu { activation, gate: x, up, out };
    check(glu(Glu::Silu, y, y), "buffer 1 is both read and written");
    check(glu(Glu::Gelu, x, x), "buffer 0 is both read and written");
    check(glu(Glu::Clamped { alpha: 1.0, limit: f32::NAN }, y, x), "the gate is Clamped");
    let layer_norm = |weight, bias: Option<u32>, out| {
        let (weight, bias) = (WeightId(weight), bias.map(WeightId));
        Op::LayerNorm { x, weight, bias, eps: 1e-5, out }
    };
    check(layer_norm(0, None, y), "is 10 x 32, not a vector of 32");
    check(layer_norm(1, Some(0), y), "is 10 x 32, not a vector of 32");
    check(layer_norm(1, None, narrow), "buffers 0 and 2 differ");
    check(Op::ReluSquared { x: BufferId(9) }, "there is no buffer 9");
    check(Op::Gelu { x: BufferId(9) }, "there is no buffer 9");
    check(Op::GeluErf { x: BufferId(9) }, "there is no buffer 9");
    check(Op::Scale { x, factor: f32::INFINITY }, "the factor is inf");
    check(Op::Softcap { x, cap: 0.0 }, "the cap is 0");
    check(Op::Clamp { x, least: 1.0, most: 0.5 }, "no value is from 1 to 0.5");
    check(Op::Clamp { x, least: 1.0, most: f32::NAN }, "no value is from 1 to NaN");
    check(Op::Add { x, y: last }, "buffers 0 and 3 differ");
    check(Op::Mul { x, y: narrow }, "width: 10 } has no factor for each element of");
    check(Op::Mul { x, y: last }, "has no factor for each element of");
    check(Op::Mul { x, y: x }, "buffer 0 is both read and written");
    check(Op::Sigmoid { x: BufferId(9) }, "there is no buffer 9");
    check(Op::Gather { x, out: y }, "buffer 1 is");
}

/// Checks that a plan of these steps is refused at the last one. Buffers as in [`prepare`], and 4: routes to two
/// experts, 5: to one, 6: 20 wide, 7: 64 wide, 8: 5 wide; weights and 2: biases of 10 experts.
fn check_experts(ops: &[Op], expected: &str) {
    for mut backend in backends() {
        backend.upload(matrix(&mut Random(1), DType::Q8_0, 10, 32, 1.0)).expect("the table is sound");
        backend.upload(matrix(&mut Random(1), DType::F32, 1, 32, 1.0)).expect("the vector is sound");
        backend.upload(matrix(&mut Random(1), DType::F32, 5, 2, 1.0)).expect("the biases are sound");
        let mut plan = Plan { ops: ops.to_vec(), ..Plan::default() };
        for (rows, width) in [(Rows::Batch, 32), (Rows::Batch, 32), (Rows::Batch, 10), (Rows::Logits, 32)] {
            plan.buffer(rows, width);
        }
        for width in [4, 2, 20, 64, 5] {
            plan.buffer(Rows::Batch, width);
        }
        let error = backend.prepare(plan, Limits { rows: 2, logit_rows: 1 }).expect_err("the plan is not sound");
        let step = format!("step {} of the plan: ", ops.len() - 1);
        assert!(error.to_string().starts_with(&step), "the step is named: {error}");
        assert!(error.to_string().contains(expected), "{ops:?}: {error} lacks {expected:?}");
    }
}

#[test]
fn plan_with_invalid_expert_step_is_refused() {
    let [x, y, narrow, last, two, one, out, wide, five] = [0, 1, 2, 3, 4, 5, 6, 7, 8].map(BufferId);
    let router = |used| Router::new(used, Gating::SoftmaxOfChosen);
    let weighed = |logits, used, scale, out| [Op::Route { logits, router: Router { scale, ..router(used) }, out }];
    let route = |logits, used, out| weighed(logits, used, 1.0, out)[0].clone();
    check_experts(&weighed(five, 0, 1.0, two), "0 of 5 experts are used");
    check_experts(&weighed(five, 6, 1.0, two), "6 of 5 experts are used");
    check_experts(&weighed(five, 3, 1.0, two), "buffer 4 is Buffer { rows: Batch, width: 4 }, not");
    check_experts(&weighed(five, 2, f32::NAN, two), "the weights' factor is NaN");
    check_experts(&weighed(one, 1, 1.0, one), "buffer 5 is both read and written");
    let biased = Router { choice_bias: Some(WeightId(1)), ..router(2) };
    check_experts(&[Op::Route { logits: five, router: biased, out: two }], "is 1 x 32, not a vector of 5");
    let scaled = Router { expert_scales: Some(WeightId(1)), ..router(2) };
    check_experts(&[Op::Route { logits: five, router: scaled, out: two }], "is 1 x 32, not a vector of 5");
    let check_groups = |logits, count, used_groups| {
        let grouped = Router { groups: Some(ExpertGroups { count, used: used_groups }), ..router(2) };
        let expected = format!("experts are chosen from {used_groups} of {count} groups");
        check_experts(&[Op::Route { logits, router: grouped, out: two }], &expected);
    };
    for (logits, count, used_groups) in
        [(five, 0, 0), (five, 2, 1), (five, 5, 1), (narrow, 5, 0), (narrow, 5, 6), (narrow, 10, 1)]
    {
        check_groups(logits, count, used_groups);
    }

    let product = |x, routes, experts, weight: u32, bias: Option<u32>, out| {
        let projections = vec![Projection { weight: WeightId(weight), bias: bias.map(WeightId), out }];
        Op::MatMulId { x, routes, experts, projections }
    };
    let routed = |op: Op| [route(five, 2, two), op];
    check_experts(&[product(x, two, 5, 0, None, out)], "buffer 4 holds no routes");
    check_experts(&[route(five, 2, two), Op::Gelu { x: two }, product(x, two, 5, 0, None, out)], "holds no routes");
    check_experts(&routed(product(last, two, 5, 0, None, out)), "the routes in buffer 4 are for Batch rows");
    check_experts(&routed(product(x, two, 4, 0, None, out)), "5 experts were routed, not 4");
    check_experts(&routed(product(narrow, two, 5, 0, None, out)), "the input is 10 wide, for 2 experts of 32");
    check_experts(&routed(product(x, two, 5, 1, None, out)), "is 1 x 32, not 5 times a width by 32");
    check_experts(&routed(product(wide, two, 5, 0, None, out)), "buffer 6 is Buffer { rows: Batch, width: 20 }, not");
    check_experts(&routed(product(x, two, 5, 0, Some(1), two)), "is 1 x 32, not 5 x 2");
    check_experts(&routed(product(x, two, 5, 0, Some(2), two)), "buffer 4 is both read and written");
    check_experts(
        &routed(Op::MatMulId { x, routes: two, experts: 5, projections: vec![] }),
        "the product has no weights",
    );

    let weigh = |x, routes, out| Op::WeighInputs { x, routes, out };
    check_experts(&[weigh(x, two, wide)], "buffer 4 holds no routes");
    check_experts(&routed(weigh(x, two, out)), "buffer 6 is Buffer { rows: Batch, width: 20 }, 2 parts of");
    check_experts(
        &[route(five, 2, two), weigh(x, two, wide), product(x, two, 4, 0, None, out)],
        "5 experts were routed",
    );
    check_experts(&[route(five, 1, one), weigh(x, one, x)], "buffer 0 is both read and written");
    check_experts(&[Op::Combine { x, routes: two, out: y }], "buffer 4 holds no routes");
    check_experts(&routed(Op::Combine { x, routes: two, out: y }), "the sum of 2 parts");
    check_experts(
        &[route(narrow, 1, one), Op::Combine { x, routes: one, out: x }],
        "buffer 0 is both read and written",
    );
}

#[test]
fn weight_with_wrong_size_is_refused() {
    for mut backend in backends() {
        let bytes = vec![0; 68].into();
        let weight = Weight { name: "blk.0".into(), dtype: DType::Q8_0, rows: 1, cols: 32, bytes };
        let error = backend.upload(weight).expect_err("68 bytes are two blocks").to_string();
        assert_eq!(error, "blk.0: 1 x 32 of Q8_0 needs 34 bytes, but has 68", "the error has the sizes");
    }
}

#[test]
fn batch_with_invalid_row_is_refused() {
    let row = |seq, token, slot| Row::text(seq, token, slot, false);
    let blind = Row { until: 0, ..row(0, 0, 0) };
    let far = Row { until: 65, ..row(0, 0, 0) };
    for (rows, pages, expected) in [
        (vec![row(0, 10, 0)], vec![0], "row 0 is token 10, there are 10"),
        (vec![row(1, 0, 0)], vec![0], "row 0 belongs to sequence 1, there are 1"),
        (vec![row(0, 0, 64)], vec![0], "row 0 has slot 64 and sees 65, its table covers 64"),
        (vec![far], vec![0], "row 0 has slot 0 and sees 65, its table covers 64"),
        (vec![blind], vec![0], "row 0 has slot 0 and does not see it: it sees 0"),
        (vec![row(0, 0, 5), row(0, 0, 5)], vec![0], "row 1 has slot 5 after slot 5 of its sequence"),
        (vec![row(0, 0, 10)], vec![0], "row 0 is at position 10 of Q8_0 10 x 32, which has 10"),
        (vec![row(0, 0, 0); 3], vec![0], "3 rows"),
        (vec![row(0, 0, 0)], vec![2], "page 2 is beyond the pool's 2"),
    ] {
        for mut backend in backends() {
            let embed = Op::Embed { table: WeightId(0), out: BufferId(0) };
            let add = Op::AddEmbedding { x: BufferId(0), table: WeightId(0), component: 0 };
            let plan = prepare(backend.as_mut(), vec![embed, add]).expect("the plan is sound");
            backend.grow_pages(2).expect("two pages can be had");
            let tables = vec![pages.iter().map(|page| PageId(*page)).collect()];
            let batch = Batch { rows: rows.clone(), tables, ..Batch::default() };
            let error = backend.run(plan, &batch).expect_err("the batch is not sound").to_string();
            assert!(error.contains(expected), "{error:?} lacks {expected:?}");
        }
    }
}

#[test]
fn huge_heads_are_refused() {
    let check = |kv_heads: usize, head_dim: usize, values: Values, heads: usize, expected: &str| {
        for mut backend in backends() {
            let mut plan = Plan::default();
            let state = State { kind: StateKind::Full, kv_heads, head_dim, values };
            let out = heads * state.value_dim();
            let [q, out] = [heads * head_dim, out].map(|width| plan.buffer(Rows::Batch, width));
            let state = plan.state(state);
            plan.push(Op::Attention { state, q, heads, scale: 1.0, softcap: None, sinks: None, out });
            let error = backend.prepare(plan, Limits { rows: 1, logit_rows: 0 }).expect_err(expected).to_string();
            assert!(error.contains(expected), "{error:?} lacks {expected:?}");
        }
    };
    let long = "state 0 has heads of 16385 elements, more than 16384";
    check(1, 16_385, Values::Rows(2), 1, long);
    check(1, 2, Values::Rows(16_385), 1, long);
    check(1, 16_385, Values::InKeys(16_384), 1, long);
    check(1, 2, Values::Rows(2), 65_537, "65537 query heads are more than 65536");
}

#[test]
fn token_beyond_a_table_of_tokens_is_refused() {
    for mut backend in backends() {
        let ops = vec![Op::EmbedTokens { table: WeightId(0), out: BufferId(0) }];
        let plan = prepare(backend.as_mut(), ops).expect("the plan is sound");
        backend.grow_pages(1).expect("a page can be had");
        let batch = Batch { rows: vec![Row::text(0, 10, 0, false)], tables: vec![vec![PageId(0)]], ..Batch::default() };
        let error = backend.run(plan, &batch).expect_err("the table has ten rows").to_string();
        assert!(error.contains("row 0 needs row 10 of a table of tokens, which has 10"), "{error}");
    }
}

#[test]
fn head_size_that_is_no_multiple_of_the_block_size_is_refused() {
    let mut plan = Plan::default();
    for head_dim in [64, 48] {
        plan.state(State::new(StateKind::Full, 2, head_dim));
    }
    let scalar = || cpu(all_variants().last().expect("scalar is usable"), 1);
    for (kv_type, uneven) in [(DType::F16, false), (DType::BF16, false), (DType::Q8_0, true), (DType::Q4_0, true)] {
        let backends: [Box<dyn Backend>; 2] =
            [Box::new(Reference::with_kv_type(kv_type)), Box::new(scalar().with_kv_type(kv_type))];
        for mut backend in backends {
            let prepared = backend.prepare(plan.clone(), Limits { rows: 1, logit_rows: 0 });
            let text = format!("heads of 48 elements are not whole blocks of {kv_type}, which have 32 elements");
            let found = prepared.err().map(|error| error.to_string());
            assert_eq!(found.is_some(), uneven, "{kv_type}: {found:?}");
            assert!(found.is_none_or(|found| found.contains(&text)), "the error names it");
        }
        let (used, why) = plan.kv_type(kv_type);
        assert_eq!((used, why.is_some()), (if uneven { DType::F16 } else { kv_type }, uneven), "what it falls back to");
    }
}
