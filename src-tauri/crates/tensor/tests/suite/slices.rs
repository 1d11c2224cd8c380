//! Rows that go through the layers in several runs have the same bits as in one run, and so have the rows beside them.

use cairn_gguf::DType;
use cairn_tensor::{Backend, Batch, BufferId, Limits, PlanId, Reference, Slice};

use crate::common::{VOCABULARY, all_variants, cpu, layered, push_rows, read, table, tiny};
use crate::model::Model;
use crate::varied::varied;

/// Tokens of the prompt: two spans of attention, the last one incomplete.
const PROMPT: usize = 300;
/// Tokens of the sequences beside it.
const BESIDE: usize = 40;
const LIMITS: Limits = Limits { rows: PROMPT + 3, logit_rows: PROMPT + 3 };

/// A model of four layers.
fn deep(backend: &mut dyn Backend, dtype: DType, limits: Limits) -> (PlanId, BufferId) {
    layered(backend, dtype, limits, 4)
}

/// A model, the type of its weights, and its number of layers.
#[derive(Clone, Copy)]
struct Case {
    model: Model,
    dtype: DType,
    layers: usize,
}

/// Bits of the logits of all rows: of the prompt, then of each sequence beside it. The prompt has parts of `rows` rows, which go
/// through `layers` layers in each run. Each run also has a row of sequence 1, and up to two rows of sequence 2.
fn logits(backend: &mut dyn Backend, case: Case, rows: usize, layers: usize) -> [Vec<u32>; 3] {
    let (plan, buffer) = (case.model)(backend, case.dtype, LIMITS);
    let tables: Vec<_> = [PROMPT, BESIDE, BESIDE].iter().enumerate().map(|(seq, len)| table(seq, 3, *len)).collect();
    backend.grow_pages(3 * tables[0].len()).expect("a few pages can be had");
    let mut found = [const { Vec::new() }; 3];
    let mut done = [0; 2];
    let mut beside = [[1, 1], [1, 2], [1, 0]].into_iter().cycle();
    for start in (0..PROMPT).step_by(rows) {
        let part = start..(start + rows).min(PROMPT);
        for first in (0..case.layers).step_by(layers) {
            let run = first..(first + layers).min(case.layers);
            let mut batch = Batch { tables: tables.clone(), ..Batch::default() };
            push_rows(&mut batch, 0, part.clone(), run.end == case.layers);
            let is_slice = run != (0..case.layers);
            batch.slice = is_slice.then(|| Slice { rows: part.len(), layers: run });
            for (seq, rows) in beside.next().into_iter().flatten().enumerate() {
                let end = (done[seq] + rows).min(BESIDE);
                push_rows(&mut batch, seq + 1, done[seq]..end, true);
                done[seq] = end;
            }
            backend.run(plan, &batch).expect("the batch is sound");
            let wanted: Vec<usize> =
                batch.rows.iter().filter(|row| row.want_logits).map(|row| row.seq as usize).collect();
            let logits = read(backend, plan, buffer, wanted.len(), VOCABULARY);
            for (seq, logits) in wanted.iter().zip(logits.chunks(VOCABULARY)) {
                found[*seq].extend(logits.iter().map(|logit| logit.to_bits()));
            }
        }
    }
    found
}

/// Compares slices of these numbers of rows and layers with runs through all layers.
fn check(case: Case, slices: &[(usize, usize)], backend: impl Fn() -> Box<dyn Backend>, name: &str) {
    let whole = logits(backend().as_mut(), case, 7, case.layers);
    assert_eq!(whole.each_ref().map(Vec::len), [PROMPT, BESIDE, BESIDE].map(|rows| rows * VOCABULARY), "all rows");
    for &(rows, layers) in slices {
        let sliced = logits(backend().as_mut(), case, rows, layers);
        for (seq, (sliced, whole)) in sliced.iter().zip(&whole).enumerate() {
            let dtype = case.dtype;
            assert!(!sliced.is_empty(), "sequence {seq} has rows");
            // Few runs have few rows beside the prompt.
            let is_equal = sliced[..] == whole[..sliced.len()];
            assert!(is_equal, "{name}, {dtype}: sequence {seq}, slices of {rows} rows through {layers} layers");
        }
    }
}

#[test]
fn slice_gives_the_bits_of_one_run() {
    for (model, layers) in [(deep as Model, 4), (varied, 2)] {
        for (dtype, threads) in [(DType::F32, 1), (DType::Q8_0, 3), (DType::Q4_K, 2)] {
            let case = Case { model, dtype, layers };
            for variant in all_variants() {
                // The scalar variant uses the same code of this crate, and takes most of the time.
                let slices = match (variant.name, dtype) {
                    ("scalar", DType::Q8_0) => &[(64, 1)][..],
                    ("scalar", _) => &[],
                    _ => &[(7, 1), (64, 1), (64, 3), (PROMPT, 2)],
                };
                check(case, slices, || Box::new(cpu(variant, threads)), variant.name);
            }
        }
        check(Case { model, dtype: DType::Q8_0, layers }, &[(64, 1)], || Box::new(Reference::new()), "reference");
    }
}

#[test]
fn impossible_slice_is_refused() {
    let slice = |rows, layers| Some(Slice { rows, layers });
    let variant = all_variants().pop().expect("scalar is usable");
    let backends: [Box<dyn Backend>; 2] = [Box::new(Reference::new()), Box::new(cpu(variant, 1))];
    for mut backend in backends {
        let (plan, _) = tiny(backend.as_mut(), DType::F32, LIMITS);
        backend.grow_pages(2).expect("a few pages can be had");
        let mut run = |slice: Option<Slice>, rows: [usize; 2], want_logits: bool| {
            let mut batch = Batch { tables: vec![table(0, 2, 64), table(1, 2, 64)], slice, ..Batch::default() };
            push_rows(&mut batch, 0, 0..rows[0], want_logits);
            push_rows(&mut batch, 1, 0..rows[1], true);
            backend.run(plan, &batch).map_err(|error| error.to_string())
        };
        for (slice, want_logits, expected) in [
            (slice(5, 0..1), false, "the slice has 5 rows, the batch has 4"),
            (slice(3, 0..3), false, "the slice has the layers 0..3 of 2"),
            (slice(3, 1..1), false, "the slice has the layers 1..1 of 2"),
            (slice(3, 1..2), false, "does not continue the slice of the last run"),
            (slice(2, 0..1), false, "a row of sequence 0 is behind the slice"),
            (slice(3, 0..1), true, "logits of the slice are wanted before its last layer"),
        ] {
            let error = run(slice.clone(), [3, 1], want_logits).expect_err("the slice is impossible");
            assert!(error.contains(expected), "{slice:?}: {error:?} lacks {expected:?}");
        }
        // Another slice, and a run without one, end a slice.
        for between in [slice(2, 0..1), None] {
            run(slice(3, 0..1), [3, 1], false).expect("a slice begins");
            run(between, [2, 1], false).expect("another run");
            run(slice(3, 1..2), [3, 1], true).expect_err("its rows are lost");
        }
        run(slice(3, 0..1), [3, 1], false).expect("a slice begins");
        run(slice(3, 1..2), [3, 0], true).expect("it ends without rows beside it");
    }
}
