//! Encoders with rows that go through the stages of the plan in several runs, and the means of their groups.

use cairn_gguf::DType;
use cairn_tensor::{
    Backend, Batch, BufferId, Input, Limits, Op, Plan, PlanId, Projection, Reference, Row, Rows, State, StateKind,
    Tile, WeightId,
};

use crate::common::{Random, all_variants, cpu, matrix, read, table};

/// Rows of a picture: two spans of attention, the last one incomplete.
const ROWS: usize = 300;
/// Rows of a group.
const GROUP: usize = 4;
/// Elements of an input row, of a row, of a head, and of an output row. None of them is a multiple of 16.
const INPUT: usize = 12;
const WIDTH: usize = 72;
const HEAD_DIM: usize = 36;
const OUT: usize = 20;
const LIMITS: Limits = Limits { rows: ROWS, logit_rows: ROWS / GROUP };

/// An encoder of three layers: rows of the batch, attention without causality, and means of groups.
fn encoder(backend: &mut dyn Backend, states: usize) -> (PlanId, BufferId) {
    let mut random = Random(5);
    let mut weight = |rows: usize, cols: usize| -> WeightId {
        let matrix = matrix(&mut random, DType::F32, rows, cols, 0.5);
        backend.upload(matrix).expect("the bytes are those of the shape")
    };
    let mut plan = Plan::default();
    let input = plan.buffer(Rows::Batch, INPUT);
    let [x, q, k, v, attended, branch] = [WIDTH; 6].map(|width| plan.buffer(Rows::Batch, width));
    let [means, out] = [WIDTH, OUT].map(|width| plan.buffer(Rows::Logits, width));
    let states: Vec<_> =
        (0..states).map(|_| plan.state(State::new(StateKind::Full, WIDTH / HEAD_DIM, HEAD_DIM))).collect();
    plan.push(Op::Input { out: input });
    let bias = weight(1, WIDTH);
    plan.push(Op::MatMul {
        x: input,
        projections: vec![Projection { weight: weight(WIDTH, INPUT), bias: Some(bias), out: x }],
    });
    plan.push(Op::AddEmbedding { x, table: weight(ROWS, WIDTH), component: 0 });
    for layer in 0..3 {
        let norm = weight(1, WIDTH);
        plan.push(Op::LayerNorm { x, weight: norm, bias: None, eps: 1e-6, out: branch });
        let projections = [q, k, v].map(|out| Projection { weight: weight(WIDTH, WIDTH), bias: None, out });
        plan.push(Op::MatMul { x: branch, projections: projections.to_vec() });
        let state = states[layer % states.len()];
        plan.push(Op::StoreKv { state, k, v });
        let heads = WIDTH / HEAD_DIM;
        plan.push(Op::Attention { state, q, heads, scale: 0.2, softcap: None, sinks: None, out: attended });
        plan.push(Op::MatMul {
            x: attended,
            projections: vec![Projection { weight: weight(WIDTH, WIDTH), bias: None, out: branch }],
        });
        plan.push(Op::Gelu { x: branch });
        plan.push(Op::Clamp { x: branch, least: -0.125, most: 0.5 });
        plan.push(Op::AddWeight { x: branch, weight: weight(1, WIDTH) });
        plan.push(Op::Add { x, y: branch });
    }
    plan.push(Op::Mean { x, out: means });
    plan.push(Op::MatMul { x: means, projections: vec![Projection { weight: weight(OUT, WIDTH), bias: None, out }] });
    plan.logits = Some(out);
    (backend.prepare(plan, LIMITS).expect("the plan is sound"), out)
}

fn batch() -> Batch {
    let mut random = Random(3);
    let row = |at: usize| Row {
        seq: 0,
        input: Input::Embedding(at as u32),
        slot: at as u32,
        pos: [(at * 7 % ROWS) as u32, 0, 0, 0],
        until: ROWS as u32,
        want_logits: at % GROUP == GROUP - 1,
    };
    let embeddings = (0..ROWS * INPUT).map(|_| random.unit()).collect();
    Batch { rows: (0..ROWS).map(row).collect(), tables: vec![table(0, 1, ROWS)], embeddings, ..Batch::default() }
}

/// Output of the encoder. All rows go through a stage in tiles of `rows` rows.
fn output(backend: &mut dyn Backend, rows: Option<usize>) -> Vec<f32> {
    let (plan, out) = encoder(backend, 2);
    backend.grow_pages(ROWS.div_ceil(64)).expect("a few pages can be had");
    let mut batch = batch();
    match rows {
        None => backend.run(plan, &batch).expect("the batch is sound"),
        Some(rows) => {
            for stage in 0..4 {
                for first in (0..ROWS).step_by(rows) {
                    batch.tile = Some(Tile { rows: first..(first + rows).min(ROWS), stage });
                    backend.run(plan, &batch).expect("the tile continues the one before");
                }
            }
        }
    }
    read(backend, plan, out, LIMITS.logit_rows, OUT)
}

#[test]
fn encoder_agrees_with_the_oracle() {
    let exact = output(&mut Reference::new(), None);
    let norm: f64 = exact.iter().map(|x| f64::from(*x).powi(2)).sum();
    for variant in all_variants() {
        for threads in [1, 3] {
            let found = output(&mut cpu(variant, threads), None);
            let error: f64 = found.iter().zip(&exact).map(|(a, b)| f64::from(a - b).powi(2)).sum();
            let error = (error / norm).sqrt();
            assert!(error < 2e-3, "{} on {threads} threads is off by {error:e}", variant.name);
        }
    }
}

#[test]
fn tiles_give_the_bits_of_one_run() {
    let bits = |values: Vec<f32>| -> Vec<u32> { values.into_iter().map(f32::to_bits).collect() };
    let variant = all_variants()[0];
    type Start<'a> = &'a dyn Fn() -> Box<dyn Backend>;
    let cases: [(&str, Start<'_>); 3] = [
        ("reference", &|| Box::new(Reference::new())),
        ("one thread", &|| Box::new(cpu(variant, 1))),
        ("three threads", &|| Box::new(cpu(variant, 3))),
    ];
    for (name, backend) in cases {
        let whole = bits(output(backend().as_mut(), None));
        for rows in [ROWS, 64, 8, 4] {
            let tiled = bits(output(backend().as_mut(), Some(rows)));
            assert!(tiled == whole, "{name}: tiles of {rows} rows");
        }
    }
}

#[test]
fn impossible_tiles_are_refused() {
    let backends: [Box<dyn Backend>; 2] = [Box::new(Reference::new()), Box::new(cpu(all_variants()[0], 1))];
    for mut backend in backends {
        let (plan, _) = encoder(backend.as_mut(), 2);
        backend.grow_pages(ROWS.div_ceil(64)).expect("a few pages can be had");
        let mut batch = batch();
        let mut run = |rows: std::ops::Range<usize>, stage: usize, change: &dyn Fn(&mut Batch)| {
            batch.tile = Some(Tile { rows, stage });
            let mut batch = batch.clone();
            change(&mut batch);
            backend.run(plan, &batch).map_err(|error| error.to_string())
        };
        let same = |_: &mut Batch| ();
        for (rows, stage, expected) in [
            (0..ROWS + 1, 0, "is no part of 300 rows in 4 stages"),
            (5..5, 0, "is no part of"),
            (0..ROWS, 4, "is no part of"),
            (0..ROWS, 1, "does not continue"),
            (8..16, 0, "does not continue"),
        ] {
            let error = run(rows.clone(), stage, &same).expect_err("the tile is impossible");
            assert!(error.contains(expected), "{rows:?}, {stage}: {error:?} lacks {expected:?}");
        }
        run(0..8, 0, &same).expect("the first tile");
        let error = run(8..ROWS, 0, &|batch| batch.rows[299].pos[0] = 1).expect_err("another batch");
        assert!(error.contains("does not continue"), "{error}");
        for stage in 0..3 {
            run(0..ROWS, stage, &same).expect("all rows go through the stage");
        }
        run(0..6, 3, &same).expect("the first rows go through the last stage");
        let error = run(6..ROWS, 3, &same).expect_err("it begins inside of a group");
        assert!(error.contains("behind a row without logits"), "{error}");
    }
    let mut backend = cpu(all_variants()[0], 1);
    let (plan, _) = encoder(&mut backend, 1);
    backend.grow_pages(ROWS.div_ceil(64)).expect("a few pages can be had");
    let tiled = Batch { tile: Some(Tile { rows: 0..8, stage: 0 }), ..batch() };
    let error = backend.run(plan, &tiled).expect_err("the state is that of the layer before").to_string();
    assert!(error.contains("adjacent layers share keys and values"), "{error}");
}

#[test]
fn tokens_are_refused_where_rows_are_given() {
    for mut backend in [Box::new(Reference::new()) as Box<dyn Backend>, Box::new(cpu(all_variants()[0], 1))] {
        let (plan, _) = encoder(backend.as_mut(), 2);
        backend.grow_pages(ROWS.div_ceil(64)).expect("a few pages can be had");
        for (input, expected) in
            [(Input::Token(0), "row 0 is token 0, there are 0"), (Input::Embedding(300), "there are 300")]
        {
            let mut batch = batch();
            batch.rows[0].input = input;
            let error = backend.run(plan, &batch).expect_err("the input does not exist").to_string();
            assert!(error.contains(expected), "{error}");
        }
    }
}
