//! Rows that go through the layers in several runs have the same bits as in one run, and so have the rows beside them.

use cairn_gguf::DType;
use cairn_tensor::{
    Backend, Batch, BufferId, Limits, PAGE_TOKENS, PageId, PlanId, Reference, Row, Slice, SnapshotId, SnapshotTable,
};

use crate::common::{Random, VOCABULARY, all_variants, cpu, layered, push_rows, read, table, tiny, token};
use crate::hybrid::{SNAPSHOTS, Snapshots, hybrid, linear, state_space};
use crate::latent::latent;
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
    let mut snapshots = Snapshots::default();
    for start in (0..PROMPT).step_by(rows) {
        let part = start..(start + rows).min(PROMPT);
        for first in (0..case.layers).step_by(layers) {
            let run = first..(first + layers).min(case.layers);
            let mut batch = Batch { tables: tables.clone(), ..Batch::default() };
            push_rows(&mut batch, 0, part.clone(), run.end == case.layers);
            let (is_slice, is_complete) = (run != (0..case.layers), run.end == case.layers);
            batch.slice = is_slice.then(|| Slice { rows: part.len(), layers: run });
            for (seq, rows) in beside.next().into_iter().flatten().enumerate() {
                let end = (done[seq] + rows).min(BESIDE);
                push_rows(&mut batch, seq + 1, done[seq]..end, true);
                done[seq] = end;
            }
            snapshots.link(&mut batch, |seq| seq > 0 || is_complete);
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
    for (model, layers) in [(deep as Model, 4), (varied, 2), (hybrid, 4), (latent, 2), (linear, 3), (state_space, 3)] {
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
            Snapshots::default().link(&mut batch, |_| true);
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

/// Sequences of the random slices, and the tokens of each.
const SEQUENCES: usize = 4;
const TOKENS: usize = 200;

/// Sequences that are computed in random slices, and the expected bits of the logits of their rows.
struct RandomSlices<'a> {
    backend: &'a mut dyn Backend,
    plan: PlanId,
    logits: BufferId,
    layers: usize,
    random: Random,
    /// By sequence.
    done: [usize; SEQUENCES],
    tables: [Vec<PageId>; SEQUENCES],
    unused: Vec<PageId>,
    /// The snapshot of each sequence, and another one.
    snapshots: [[SnapshotId; 2]; SEQUENCES],
    expected: Vec<Vec<u32>>,
}

impl<'a> RandomSlices<'a> {
    fn new(backend: &'a mut dyn Backend, case: Case, seed: u64) -> Self {
        let (plan, logits) = (case.model)(backend, case.dtype, LIMITS);
        let tables = std::array::from_fn(|seq| table(seq, SEQUENCES, TOKENS));
        let pages = SEQUENCES * TOKENS.div_ceil(PAGE_TOKENS);
        backend.grow_pages(2 * pages).expect("a few pages can be had");
        let unused = (pages..2 * pages).map(|page| PageId(page as u32)).collect();
        let (layers, random, done) = (case.layers, Random(seed), [0; SEQUENCES]);
        let snapshots = std::array::from_fn(|seq| [0, 1].map(|nth| SnapshotId((seq * SNAPSHOTS + nth) as u32)));
        let mut new =
            Self { backend, plan, logits, layers, random, done, tables, unused, snapshots, expected: Vec::new() };
        for seq in 0..SEQUENCES {
            let mut batch = Batch { tables: new.tables.to_vec(), ..Batch::default() };
            push_rows(&mut batch, seq, 0..TOKENS, true);
            Snapshots::default().link(&mut batch, |_| true);
            new.backend.run(plan, &batch).expect("the batch is sound");
            let logits = read(new.backend, plan, logits, TOKENS, VOCABULARY);
            new.expected.push(logits.into_iter().map(f32::to_bits).collect());
        }
        new
    }

    fn below(&mut self, bound: usize) -> usize {
        (self.random.bits() % bound as u64) as usize
    }

    /// Up to `most` rows of some sequences, in any order.
    fn choose(&mut self, sequences: &mut Vec<usize>, count: usize, most: usize) -> Vec<(usize, usize)> {
        let mut chosen = Vec::new();
        while chosen.len() < count && !sequences.is_empty() {
            let at = self.below(sequences.len());
            let seq = sequences.swap_remove(at);
            chosen.push((seq, (1 + self.below(most)).min(TOKENS - self.done[seq])));
        }
        chosen
    }

    /// Takes rows of some sequences through the layers, beside rows of others. The slice may be abandoned, and its rows be computed
    /// again in other pages.
    fn slice(&mut self) {
        let mut ready: Vec<usize> = (0..SEQUENCES).filter(|seq| self.done[*seq] < TOKENS).collect();
        let count = 1 + self.below(2);
        let inside = self.choose(&mut ready, count, 70);
        let mut next = 0;
        while next < self.layers {
            let layers = next..next + 1 + self.below(self.layers - next);
            next = layers.end;
            let count = self.below(3);
            let mut beside = ready.clone();
            beside.retain(|seq| self.done[*seq] < TOKENS);
            let beside = self.choose(&mut beside, count, 3);
            self.run(&inside, &beside, layers);
            beside.into_iter().for_each(|(seq, rows)| self.complete(seq, rows));
            if next < self.layers && self.below(5) == 0 {
                inside.iter().for_each(|(seq, _)| self.move_rows(*seq));
                return;
            }
        }
        inside.into_iter().for_each(|(seq, rows)| self.complete(seq, rows));
    }

    fn complete(&mut self, seq: usize, rows: usize) {
        self.done[seq] += rows;
        self.snapshots[seq].reverse();
    }

    /// Runs rows of these sequences, and compares the logits of some of them.
    fn run(&mut self, inside: &[(usize, usize)], beside: &[(usize, usize)], layers: std::ops::Range<usize>) {
        let (mut batch, mut wanted) = (Batch::default(), Vec::new());
        let rows = inside.iter().map(|(_, rows)| rows).sum::<usize>();
        for (index, &(seq, count)) in inside.iter().chain(beside).enumerate() {
            batch.tables.push(self.tables[seq].clone());
            let [from, to] = self.snapshots[seq];
            let from = (self.done[seq] > 0).then_some(from);
            batch.snapshots.push(SnapshotTable { from, to: vec![((self.done[seq] + count) as u32, to)] });
            for slot in self.done[seq]..self.done[seq] + count {
                let is_wanted = (index >= inside.len() || layers.end == self.layers) && self.below(2) == 0;
                wanted.extend(is_wanted.then_some((seq, slot)));
                batch.rows.push(Row::text(index as u32, token(seq, slot), slot as u32, is_wanted));
            }
        }
        batch.slice = (layers != (0..self.layers)).then(|| Slice { rows, layers: layers.clone() });
        self.backend.run(self.plan, &batch).expect("the batch is sound");
        let logits = read(self.backend, self.plan, self.logits, wanted.len(), VOCABULARY);
        for ((seq, slot), logits) in wanted.into_iter().zip(logits.chunks(VOCABULARY)) {
            let expected = &self.expected[seq][slot * VOCABULARY..][..VOCABULARY];
            let is_equal = logits.iter().zip(expected).all(|(logit, bits)| logit.to_bits() == *bits);
            assert!(is_equal, "slot {slot} of sequence {seq}: {inside:?} in {layers:?} beside {beside:?}");
        }
    }

    /// Moves the incomplete pages of a sequence, and the rows that are computed.
    fn move_rows(&mut self, seq: usize) {
        let done = self.done[seq];
        for index in done / PAGE_TOKENS..self.tables[seq].len() {
            let (from, to) = (self.tables[seq][index], self.unused.remove(0));
            self.backend.copy_page(from, to, done.saturating_sub(index * PAGE_TOKENS));
            self.tables[seq][index] = to;
            self.unused.push(from);
        }
    }
}

#[test]
fn random_slices_of_several_sequences_give_the_bits_of_one_run() {
    let check = |backend: &mut dyn Backend, case: Case, seed: u64| {
        let mut slices = RandomSlices::new(backend, case, seed);
        while slices.done.iter().any(|done| *done < TOKENS) {
            slices.slice();
        }
    };
    let models = [(deep as Model, 4), (varied, 2), (hybrid, 4), (latent, 2), (linear, 3), (state_space, 3)];
    for seed in 0..18 {
        let (model, layers) = models[seed % 6];
        let dtype = [DType::Q8_0, DType::F32, DType::Q4_K][seed / 6];
        let variants = all_variants();
        let fast = variants.iter().filter(|variant| variant.name != "scalar").count().max(1);
        let mut backend = cpu(variants[seed % fast], 1 + seed % 4);
        check(&mut backend, Case { model, dtype, layers }, seed as u64);
    }
    check(&mut Reference::new(), Case { model: deep, dtype: DType::Q8_0, layers: 4 }, 99);
}
