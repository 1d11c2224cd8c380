//! Ops over the rows of pictures, compared with the oracle, and their refusals.

use cairn_gguf::DType;
use cairn_tensor::{Backend, Batch, Input, Limits, Op, Plan, PlanId, Reference, Row, Rows, Tile};

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
