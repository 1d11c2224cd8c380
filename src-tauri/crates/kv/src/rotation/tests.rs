//! Shifted rows against rows that are computed at their new positions, and who may see them.

use std::sync::Arc;

use cairn_tensor::{Backend, Batch, Cpu, Kv, Limits, PageLayout, PlanId, Row, Rows, State, Team, Weight, WeightId};

use super::*;
use crate::cache::ShiftError;
use crate::{Budget, Cache, SeqId};

const VOCABULARY: usize = 97;
const HEADS: usize = 2;
const HEAD_DIM: usize = 32;
const WIDTH: usize = HEADS * HEAD_DIM;

/// A model of one layer, whose keys are its tokens' embeddings, turned, and whose values are the embeddings as they are.
struct Model {
    backend: Cpu,
    plan: PlanId,
    rotation: Rotation,
    layout: PageLayout,
    cache: Cache,
}

fn rope(style: RopeStyle, pairs: usize, magnitude: f32) -> Rope {
    let frequency = |pair: usize| 500f32.powf(-(pair as f32) / pairs as f32);
    Rope { style, inverse_frequencies: (0..pairs).map(frequency).collect(), magnitude }
}

impl Model {
    fn new(dtype: DType, rope: Rope) -> Self {
        let team = Arc::new(Team::new(1, &[]).expect("one thread is this one"));
        let variant = cairn_kernels::by_name("scalar").expect("it runs everywhere");
        let mut backend = Cpu::new(variant, team).with_kv_type(dtype);
        let value = |at: usize| ((at * 7919 % 2003) as f32 - 1001.0) / 500.0;
        let bytes: Vec<u8> = (0..VOCABULARY * WIDTH).flat_map(|at| value(at).to_le_bytes()).collect();
        let (name, dtype_of_table) = ("table".to_owned(), DType::F32);
        let table = Weight { name, dtype: dtype_of_table, rows: VOCABULARY, cols: WIDTH, bytes: bytes.into() };
        let table = backend.upload(table).expect("it has the right size");
        let plan = plan(table, rope);
        let layout = plan.page_layout(dtype);
        let rotation = Rotation::of(&plan, dtype).expect("nothing happens after RoPE");
        let plan = backend.prepare(plan, Limits { rows: 1024, logit_rows: 1 }).expect("the plan is sound");
        let cache = Cache::new(layout.clone(), Arc::new(Budget::new(64 << 20)));
        Self { backend, plan, rotation, layout, cache }
    }

    /// Computes what a sequence of these tokens lacks, and returns it with the number of tokens that it found.
    fn open(&mut self, tokens: &[u32]) -> (SeqId, usize) {
        let (seq, cached) = self.cache.open(tokens);
        self.compute(seq, cached, &tokens[cached..]);
        (seq, cached)
    }

    fn compute(&mut self, seq: SeqId, from: usize, tokens: &[u32]) {
        self.cache.reserve(&mut self.backend, seq, tokens.len()).expect("there is room");
        let rows =
            tokens.iter().enumerate().map(|(at, &token)| Row::text(0, token, (from + at) as u32, false)).collect();
        let batch = Batch { rows, tables: vec![self.cache.pages(seq).to_vec()], embeddings: Vec::new() };
        self.backend.run(self.plan, &batch).expect("the batch is within the limits");
        self.cache.advance(seq, tokens);
    }

    /// All keys, or values, of a sequence: `[tokens][heads][head_dim]`.
    fn rows(&self, seq: SeqId, kv: Kv) -> Vec<Vec<f32>> {
        let state = StateId(0);
        let mut section = vec![0; self.layout.section(state, kv).len()];
        let row_bytes = self.layout.row_bytes[0];
        let mut rows = Vec::new();
        let tokens = self.cache.len(seq);
        for (nth, &page) in self.cache.pages(seq).iter().enumerate().take(tokens.div_ceil(PAGE_TOKENS)) {
            self.backend.read_section(page, state, kv, &mut section);
            for slot in 0..(tokens - nth * PAGE_TOKENS).min(PAGE_TOKENS) {
                let mut row = vec![0.0; WIDTH];
                for head in 0..HEADS {
                    let at = (head * PAGE_TOKENS + slot) * row_bytes;
                    self.layout.dtype.decode(&section[at..at + row_bytes], &mut row[head * HEAD_DIM..][..HEAD_DIM]);
                }
                rows.push(row);
            }
        }
        rows
    }
}

fn plan(table: WeightId, rope: Rope) -> Plan {
    let mut plan = Plan::default();
    let rope = plan.rope(rope);
    let [k, v] = [0; 2].map(|_| plan.buffer(Rows::Batch, WIDTH));
    let state = plan.state(State { kind: StateKind::Full, kv_heads: HEADS, head_dim: HEAD_DIM });
    plan.push(Op::Embed { table, out: k });
    plan.push(Op::Embed { table, out: v });
    plan.push(Op::Rope { x: k, head_dim: HEAD_DIM, rope });
    plan.push(Op::StoreKv { state, k, v });
    plan
}

fn tokens(count: usize) -> Vec<u32> {
    (0..count).map(|at| (at * 31 % VOCABULARY) as u32).collect()
}

/// Shifts a sequence, and compares its rows with those of a sequence that has its tokens from the start.
fn check(dtype: DType, rope: Rope, tolerance: f32) {
    let what = format!("{dtype}, {:?}, {} pairs", rope.style, rope.inverse_frequencies.len());
    let mut model = Model::new(dtype, rope.clone());
    let mut left = tokens(500);
    let (seq, _) = model.open(&left);
    let gone = model.cache.shift(&mut model.backend, seq, 5, &model.rotation).expect("there is enough to forget");
    // Seven whole pages, of which one is kept; half of the others goes.
    assert_eq!(gone, 64..256, "{what}: whole pages after the beginning");
    left.drain(gone);
    assert_eq!(model.cache.len(seq), left.len(), "{what}: what is left");
    // It goes on, within the last page and beyond it.
    let more = tokens(90);
    model.compute(seq, left.len(), &more);
    left.extend(more);

    let mut direct = Model::new(dtype, rope);
    let (expected, _) = direct.open(&left);
    assert_eq!(model.rows(seq, Kv::Values), direct.rows(expected, Kv::Values), "{what}: values have no position");
    let (found, expected) = (model.rows(seq, Kv::Keys), direct.rows(expected, Kv::Keys));
    assert_eq!(found[..64], expected[..64], "{what}: the beginning stays as it is");
    assert_eq!(found.len(), expected.len(), "{what}: as many keys");
    let differences = found.iter().flatten().zip(expected.iter().flatten()).map(|(a, b)| (a - b).abs());
    let worst = differences.fold(0.0, f32::max);
    assert!(worst <= tolerance, "{what}: keys are those of the new positions, but for rounding: {worst}");
    assert!(expected.iter().flatten().any(|value| value.abs() > 1.5), "{what}: keys are large beside the tolerance");
}

#[test]
fn shifted_keys_are_those_of_their_new_positions() {
    for style in [RopeStyle::Half, RopeStyle::Interleaved] {
        // Keys reach 2.4 in each element: a half-precision number there is precise to about a thousandth.
        check(DType::F16, rope(style, HEAD_DIM / 2, 1.0), 4e-3);
        check(DType::F16, rope(style, HEAD_DIM / 4, 1.2), 4e-3);
        check(DType::BF16, rope(style, HEAD_DIM / 2, 1.0), 4e-2);
        check(DType::Q8_0, rope(style, HEAD_DIM / 2, 1.0), 6e-2);
    }
}

#[test]
fn nobody_else_finds_what_was_shifted() {
    let mut model = Model::new(DType::F16, rope(RopeStyle::Half, HEAD_DIM / 2, 1.0));
    let all = tokens(500);
    let (seq, _) = model.open(&all);
    let (shared, cached) = model.open(&all);
    assert_eq!(cached, 448, "whole pages are shared while both are open");
    let before = model.rows(shared, Kv::Keys);
    let gone = model.cache.shift(&mut model.backend, seq, 64, &model.rotation).expect("there is enough to forget");
    assert_eq!(model.rows(shared, Kv::Keys), before, "another sequence of the same tokens keeps its rows");
    let mut left = all.clone();
    left.drain(gone);
    let more = tokens(200);
    model.compute(seq, left.len(), &more);
    left.extend(more);
    // A second shift works on pages that are its own already.
    let gone = model.cache.shift(&mut model.backend, seq, 64, &model.rotation).expect("there is enough to forget");
    left.drain(gone);
    let check = |model: &mut Model, tokens: &[u32], most: usize, why: &str| {
        let (seq, cached) = model.cache.open(tokens);
        assert_eq!(cached, most, "{why}");
        model.cache.discard(seq);
    };
    check(&mut model, &left, 64, "while it is open, only the beginning is found");
    model.cache.close(seq);
    check(&mut model, &left, 64, "nor is more found when it has ended");
    model.cache.close(shared);
    check(&mut model, &all, 499, "the whole conversation is still there as it was computed");
    let stats = model.cache.stats();
    assert_eq!(stats.live_pages, 0, "its own pages are free again: {stats:?}");
}

#[test]
fn what_cannot_be_shifted_is_left_as_it_is() {
    let half = || rope(RopeStyle::Half, HEAD_DIM / 2, 1.0);
    let mut model = Model::new(DType::F16, half());
    let (seq, _) = model.open(&tokens(127));
    let error = model.cache.shift(&mut model.backend, seq, 1, &model.rotation).expect_err("no whole page is left");
    assert!(matches!(error, ShiftError::Short { kept_tokens: 64, tokens: 127 }), "{error}");

    let mut coarse = Model::new(DType::Q8_0, half());
    let (seq, _) = coarse.open(&tokens(500));
    coarse.cache.shift(&mut coarse.backend, seq, 1, &coarse.rotation).expect("once is possible");
    let before = coarse.rows(seq, Kv::Keys);
    let error = coarse.cache.shift(&mut coarse.backend, seq, 1, &coarse.rotation).expect_err("twice is too often");
    assert!(matches!(error, ShiftError::Rounded), "{error}");
    assert_eq!(coarse.rows(seq, Kv::Keys), before, "it is as it was");

    let table = WeightId(0);
    let mut windowed = plan(table, half());
    windowed.states[0].kind = StateKind::Window(128);
    assert_eq!(Rotation::of(&windowed, DType::F16).err(), Some(Fixed::Window(0)), "rows may be missing");
    let mut changed = plan(table, half());
    let Some(Op::StoreKv { k, .. }) = changed.ops.last().cloned() else { panic!("it ends so") };
    changed.ops.insert(3, Op::Scale { x: k, factor: 2.0 });
    assert_eq!(Rotation::of(&changed, DType::F16).err(), Some(Fixed::Changed(0)), "RoPE is not the last step");
    changed.ops.swap(2, 3);
    assert!(Rotation::of(&changed, DType::F16).is_ok(), "what comes before RoPE is as it was");
}
