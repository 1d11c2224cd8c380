//! Ops over the rows of pictures, compared with the oracle, and their refusals.

use cairn_gguf::DType;
use cairn_tensor::{
    Backend, BackendError, Batch, Input, Limits, Op, PageId, Plan, PlanId, Reference, Row, Rows, State, StateKind, Tile,
};

use crate::common::{Random, VOCABULARY, all_variants, cpu, matrix, read, token};

const WIDTH: usize = 24;
/// Elements of an embedding row that are added behind the first ones.
const ADDED: usize = 2 * WIDTH;
/// Rows and columns of the picture.
const SIZE: [u32; 2] = [6, 10];
const GROUP: usize = 4;
const SIDE: usize = 5;

/// Joined rows of a picture, of which a table of positions and parts of its embedding rows are added, from runs of so many rows.
fn joined(backend: &mut dyn Backend, dtype: DType, tile: usize) -> Vec<f32> {
    let (plan, out) = plan(backend, dtype);
    let mut batch = picture();
    for start in (0..batch.rows.len()).step_by(tile) {
        batch.tile = Some(Tile { rows: start..batch.rows.len().min(start + tile), stage: 0 });
        backend.run(plan, &batch).expect("the batch is sound");
    }
    read(backend, plan, out, batch.rows.len() / GROUP, GROUP * WIDTH)
}

fn plan(backend: &mut dyn Backend, dtype: DType) -> (PlanId, cairn_tensor::BufferId) {
    let mut random = Random(5);
    let table = matrix(&mut random, dtype, SIDE * SIDE, WIDTH, 1.0);
    let table = backend.upload(table).expect("the bytes are those of the shape");
    let mut plan = Plan::default();
    let x = plan.buffer(Rows::Batch, WIDTH);
    let out = plan.buffer(Rows::Logits, GROUP * WIDTH);
    plan.push(Op::Input { out: x });
    plan.push(Op::AddGridEmbedding { x, table, side: SIDE });
    plan.push(Op::AddInput { x, first: ADDED });
    plan.push(Op::Join { x, count: GROUP, out });
    plan.logits = Some(out);
    assert_eq!(plan.input_width(), ADDED + WIDTH, "the last part ends an embedding row");
    let rows = (SIZE[0] * SIZE[1]) as usize;
    (backend.prepare(plan, Limits { rows, logit_rows: rows / GROUP }).expect("the plan is sound"), out)
}

fn picture() -> Batch {
    let [rows, columns] = SIZE;
    let row = |slot: u32| Row {
        seq: 0,
        input: Input::Embedding(slot),
        slot,
        pos: [slot / columns, slot % columns, rows, columns],
        until: rows * columns,
        want_logits: slot as usize % GROUP == GROUP - 1,
    };
    let mut random = Random(9);
    let embeddings =
        (0..(rows * columns) as usize * (ADDED + WIDTH)).map(|_| (random.bits() % 1000) as f32 / 500.0 - 1.0).collect();
    Batch { rows: (0..rows * columns).map(row).collect(), tables: vec![Vec::new()], embeddings, ..Batch::default() }
}

#[test]
fn rows_of_pictures_agree_with_the_oracle() {
    for dtype in [DType::F32, DType::F16] {
        let exact = joined(&mut Reference::new(), dtype, usize::MAX);
        for variant in all_variants() {
            let whole = joined(&mut cpu(variant, 3), dtype, usize::MAX);
            for (at, (found, exact)) in whole.iter().zip(&exact).enumerate() {
                assert!((found - exact).abs() < 1e-5, "{}, element {at}: {found} is not {exact}", variant.name);
            }
            assert_eq!(joined(&mut cpu(variant, 2), dtype, 8), whole, "{}: bits of tiles of 8 rows", variant.name);
        }
    }
}

#[test]
fn added_parts_of_embedding_rows_leave_tokens_unchanged() {
    let run = |backend: &mut dyn Backend| {
        let mut random = Random(3);
        let table = matrix(&mut random, DType::F32, VOCABULARY, 8, 1.0);
        let table = backend.upload(table).expect("the bytes are those of the shape");
        let mut plan = Plan::default();
        let x = plan.buffer(Rows::Batch, 8);
        plan.push(Op::Embed { table, out: x });
        plan.push(Op::AddInput { x, first: 8 });
        let plan = backend.prepare(plan, Limits { rows: 3, logit_rows: 0 }).expect("the plan is sound");
        let mut batch = Batch { tables: vec![Vec::new()], ..Batch::default() };
        batch.rows.extend((0..3).map(|slot| Row::text(0, token(0, slot as usize), slot, false)));
        batch.rows[1].input = Input::Embedding(1);
        batch.embeddings = (0..32).map(|element| element as f32).collect();
        backend.run(plan, &batch).expect("the batch is sound");
        read(backend, plan, x, 3, 8)
    };
    let exact = run(&mut Reference::new());
    let expected: Vec<f32> = (16..24).map(|element| (element + element + 8) as f32).collect();
    assert_eq!(exact[8..16], expected, "both halves of the second embedding row");
    for variant in all_variants() {
        assert_eq!(run(&mut cpu(variant, 2)), exact, "{}", variant.name);
    }
}

#[test]
fn pictures_without_whole_groups_or_places_are_refused() {
    let refused = |change: fn(&mut Batch), expected: &str| {
        for backend in [&mut Reference::new() as &mut dyn Backend, &mut cpu(all_variants()[0], 1)] {
            let (plan, _) = plan(backend, DType::F32);
            let mut batch = picture();
            change(&mut batch);
            let error = backend.run(plan, &batch).expect_err("the batch is not sound").to_string();
            assert!(error.contains(expected), "{error:?} lacks {expected:?}");
        }
    };
    refused(|batch| batch.rows[7].pos = [6, 0, 6, 10], "row 7 is at 6, 0 of a picture of 6 rows and 10 columns");
    refused(|batch| batch.rows[7].pos = [0, 0, 0, 0], "row 7 is at 0, 0 of a picture of 0 rows and 0 columns");
    refused(|batch| [2, 3].into_iter().for_each(|row| batch.rows[row].want_logits ^= true), "unlike row 2");
    refused(|batch| batch.rows.truncate(59), "divides a group of 4 rows");
    refused(
        |batch| batch.tile = Some(Tile { rows: 0..6, stage: 0 }),
        "a run from or to row 6 divides a group of 4 rows",
    );
    refused(|batch| batch.embeddings.truncate(100), "there are 1");
}

/// Ends of regions of rows. Some regions are in one block of rows, others in several spans of positions.
const REGIONS: [u32; 5] = [3, 20, 120, 450, 500];

/// A batch of one sequence with these regions.
fn regions() -> Batch {
    let rows = *REGIONS.last().expect("there are regions");
    let row = |slot: u32| {
        let nth = REGIONS.iter().position(|&end| slot < end).expect("every slot is in a region");
        let start = nth.checked_sub(1).map_or(0, |before| REGIONS[before]);
        let pos = [0, 0, start, REGIONS[nth]];
        Row { seq: 0, input: Input::Embedding(slot), slot, pos, until: rows, want_logits: false }
    };
    let mut random = Random(4);
    let embeddings = (0..rows as usize * 32).map(|_| (random.bits() % 1000) as f32 / 250.0 - 2.0).collect();
    let table = (0..rows.div_ceil(64)).map(PageId).collect();
    Batch { rows: (0..rows).map(row).collect(), tables: vec![table], embeddings, ..Batch::default() }
}

/// Prepares attention to regions and gives its output for a batch.
fn attended(backend: &mut dyn Backend, batch: &Batch) -> Result<Vec<f32>, BackendError> {
    let mut plan = Plan::default();
    let [x, out] = [32; 2].map(|width| plan.buffer(Rows::Batch, width));
    let state = plan.state(State::new(StateKind::Region, 2, 16));
    plan.push(Op::Input { out: x });
    plan.push(Op::StoreKv { state, k: x, v: x });
    plan.push(Op::Attention { state, q: x, heads: 2, scale: 0.3, softcap: None, sinks: None, out });
    let plan = backend.prepare(plan, Limits { rows: 500, logit_rows: 0 }).expect("the plan is sound");
    backend.grow_pages(8).expect("a few pages fit");
    backend.run(plan, batch)?;
    Ok(read(backend, plan, out, batch.rows.len(), 32))
}

#[test]
fn attention_to_regions_agrees_with_the_oracle() {
    let exact = attended(&mut Reference::with_kv_type(DType::F16), &regions()).expect("the batch is sound");
    for variant in all_variants() {
        let mut results = [1, 3].map(|threads| {
            attended(&mut cpu(variant, threads).with_kv_type(DType::F16), &regions()).expect("the batch is sound")
        });
        let [one, three] = &mut results;
        assert_eq!(one, three, "{}: bits on one and three threads", variant.name);
        for (at, (found, exact)) in one.iter().zip(&exact).enumerate() {
            assert!((found - exact).abs() < 2e-2, "{}, element {at}: {found} is not {exact}", variant.name);
        }
    }
}

#[test]
fn rows_outside_of_their_region_are_refused() {
    let refused = |change: fn(&mut Batch), expected: &str| {
        for backend in [&mut Reference::new() as &mut dyn Backend, &mut cpu(all_variants()[0], 1)] {
            let mut batch = regions();
            change(&mut batch);
            let error = attended(backend, &batch).expect_err("the batch is not sound").to_string();
            assert!(error.contains(expected), "{error:?} lacks {expected:?}");
        }
    };
    refused(|batch| batch.rows[5].pos[2] = 6, "row 5 has slot 5 and is not in its region of slots 6..20");
    refused(|batch| batch.rows[5].pos[3] = 5, "row 5 has slot 5 and is not in its region of slots 3..5");
    refused(|batch| batch.rows[7].until = 7, "it sees 7");
    refused(|batch| batch.rows[5].pos[3] = 30, "the region of row 6 is before that of the row before it");
    refused(|batch| batch.rows[5].pos[2] = 0, "the region of row 5 is before that of the row before it");
}
