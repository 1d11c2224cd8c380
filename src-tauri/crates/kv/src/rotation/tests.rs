//! Shifted rows compared with rows that are computed at their new positions, and their visibility.

use std::sync::Arc;

use cairn_tensor::{
    Backend, Batch, Cpu, HeadPart, Kv, Limits, PageLayout, PlanId, Row, Rows, State, Team, Values, Weight, WeightId,
};

use super::*;
use crate::cache::ShiftError;
use crate::{Budget, Cache, SeqId};

const VOCABULARY: usize = 97;
const HEADS: usize = 2;
const HEAD_DIM: usize = 32;
const WIDTH: usize = HEADS * HEAD_DIM;
/// Elements of a latent, which is the value in a key of [`WIDTH`] elements.
const LATENT: usize = WIDTH - HEAD_DIM;

/// A model of one layer. Its values are the tokens' embeddings, its keys the rotated embeddings.
struct Model {
    backend: Cpu,
    plan: PlanId,
    rotation: Rotation,
    layout: PageLayout,
    cache: Cache,
}

fn rope(style: RopeStyle, pairs: usize, magnitude: f32) -> Rope {
    let frequency = |pair: usize| 500f32.powf(-(pair as f32) / pairs as f32);
    Rope { magnitude, ..Rope::new(style, (0..pairs).map(frequency).collect()) }
}

impl Model {
    fn new(dtype: DType, rope: Rope) -> Self {
        Self::with_plan(dtype, |table, _| plan(table, rope))
    }

    /// The same with keys that contain the values.
    fn latent(dtype: DType, rope: Rope) -> Self {
        Self::with_plan(dtype, |_, tables| latent_plan(tables, rope))
    }

    /// Creates the model of a plan over a table of rows, or of parts of rows.
    fn with_plan(dtype: DType, plan: impl FnOnce(WeightId, [WeightId; 2]) -> Plan) -> Self {
        let team = Arc::new(Team::new(1, &[]).expect("one thread is the current one"));
        let variant = cairn_kernels::by_name("scalar").expect("the scalar variant runs everywhere");
        let mut backend = Cpu::new(variant, team).with_kv_type(dtype);
        let value = |at: usize| ((at * 7919 % 2003) as f32 - 1001.0) / 500.0;
        let bytes: Vec<u8> = (0..VOCABULARY * WIDTH).flat_map(|at| value(at).to_le_bytes()).collect();
        let (name, dtype_of_table) = ("table".to_owned(), DType::F32);
        let table = Weight { name, dtype: dtype_of_table, rows: VOCABULARY, cols: WIDTH, bytes: bytes.into() };
        let part = |cols: usize| {
            let bytes = table.bytes[..VOCABULARY * cols * size_of::<f32>()].to_vec().into();
            Weight { name: "part".to_owned(), cols, bytes, ..table.clone() }
        };
        let parts = [part(HEAD_DIM), part(LATENT)];
        let mut upload = |table: Weight| backend.upload(table).expect("the table has the right size");
        let plan = plan(upload(table), parts.map(upload));
        let layout = plan.page_layout(dtype);
        let rotation = Rotation::from_plan(&plan, dtype).expect("RoPE is the last op");
        let plan = backend.prepare(plan, Limits { rows: 1024, logit_rows: 1 }).expect("the plan is valid");
        let cache = Cache::new(layout.clone(), Arc::new(Budget::new(64 << 20)));
        Self { backend, plan, rotation, layout, cache }
    }

    /// Opens a sequence of these tokens and computes the missing ones. Returns the number of cached tokens too.
    fn open(&mut self, tokens: &[u32]) -> (SeqId, usize) {
        let (seq, cached) = self.cache.open(tokens);
        self.compute(seq, cached, &tokens[cached..]);
        (seq, cached)
    }

    fn compute(&mut self, seq: SeqId, from: usize, tokens: &[u32]) {
        self.cache.reserve(&mut self.backend, seq, tokens.len()).expect("pages are free");
        let rows =
            tokens.iter().enumerate().map(|(at, &token)| Row::text(0, token, (from + at) as u32, false)).collect();
        let batch = Batch { rows, tables: vec![self.cache.pages(seq).to_vec()], ..Batch::default() };
        self.backend.run(self.plan, &batch).expect("the batch is within the limits");
        self.cache.advance(seq, tokens);
    }

    /// All keys or values of a sequence, shape `[tokens][heads * head_dim]`.
    fn rows(&self, seq: SeqId, kv: Kv) -> Vec<Vec<f32>> {
        let state = StateId(0);
        if self.layout.section(state, kv).is_empty() {
            return self.rows(seq, Kv::Keys).into_iter().map(|mut key| key.split_off(WIDTH - LATENT)).collect();
        }
        let mut section = vec![0; self.layout.section(state, kv).len()];
        let ([row_bytes, _], heads) = (self.layout.row_bytes[0], self.layout.kv_heads[0]);
        let mut rows = Vec::new();
        let tokens = self.cache.len(seq);
        for (nth, &page) in self.cache.pages(seq).iter().enumerate().take(tokens.div_ceil(PAGE_TOKENS)) {
            self.backend.read_section(page, state, kv, &mut section);
            for slot in 0..(tokens - nth * PAGE_TOKENS).min(PAGE_TOKENS) {
                let mut row = vec![0.0; WIDTH];
                for (head, row) in row.chunks_mut(WIDTH / heads).enumerate() {
                    let at = (head * PAGE_TOKENS + slot) * row_bytes;
                    self.layout.dtype.decode(&section[at..at + row_bytes], row);
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
    let state = plan.state(State::new(StateKind::Full, HEADS, HEAD_DIM));
    plan.push(Op::Embed { table, out: k });
    plan.push(Op::Embed { table, out: v });
    plan.push(Op::Rope { x: k, head_dim: HEAD_DIM, rope });
    plan.push(Op::StoreKv { state, k, v });
    plan
}

fn latent_plan(tables: [WeightId; 2], rope: Rope) -> Plan {
    let mut plan = Plan::default();
    let rope = plan.rope(rope);
    let [k, v] = [HEAD_DIM, LATENT].map(|width| plan.buffer(Rows::Batch, width));
    let values = Values::InKeys(LATENT);
    let state = plan.state(State { kind: StateKind::Full, kv_heads: 1, head_dim: WIDTH, values });
    tables.into_iter().zip([k, v]).for_each(|(table, out)| plan.push(Op::Embed { table, out }));
    plan.push(Op::Rope { x: k, head_dim: HEAD_DIM, rope });
    plan.push(Op::StoreLatent { state, k, v });
    plan
}

fn tokens(count: usize) -> Vec<u32> {
    (0..count).map(|at| (at * 31 % VOCABULARY) as u32).collect()
}

/// Compares the rows of a shifted sequence with those of a new sequence of the same tokens.
fn check(dtype: DType, rope: Rope, tolerance: f32) {
    check_model(Model::new, dtype, rope, tolerance);
}

fn check_model(new: fn(DType, Rope) -> Model, dtype: DType, rope: Rope, tolerance: f32) {
    let what = format!("{dtype}, {:?}, {} pairs", rope.style, rope.inverse_frequencies.len());
    let mut model = new(dtype, rope.clone());
    let mut remaining = tokens(500);
    let (seq, _) = model.open(&remaining);
    let dropped =
        model.cache.shift(&mut model.backend, seq, 5, &model.rotation).expect("there are enough pages to drop");
    // Of seven full pages, one is kept, and half of the others are dropped.
    assert_eq!(dropped, 64..256, "{what}: full pages after the prefix");
    remaining.drain(dropped);
    assert_eq!(model.cache.len(seq), remaining.len(), "{what}: remaining tokens");
    // The sequence continues within the last page and beyond it.
    let more = tokens(90);
    model.compute(seq, remaining.len(), &more);
    remaining.extend(more);

    let mut direct = new(dtype, rope);
    let (expected, _) = direct.open(&remaining);
    assert_eq!(model.rows(seq, Kv::Values), direct.rows(expected, Kv::Values), "{what}: values have no position");
    let (found, expected) = (model.rows(seq, Kv::Keys), direct.rows(expected, Kv::Keys));
    assert_eq!(found[..64], expected[..64], "{what}: the prefix is unchanged");
    assert_eq!(found.len(), expected.len(), "{what}: number of keys");
    let differences = found.iter().flatten().zip(expected.iter().flatten()).map(|(a, b)| (a - b).abs());
    let worst = differences.fold(0.0, f32::max);
    assert!(worst <= tolerance, "{what}: keys of the new positions, except for rounding: {worst}");
    assert!(
        expected.iter().flatten().any(|value| value.abs() > 1.5),
        "{what}: keys are large compared with the tolerance"
    );
}

#[test]
fn shifted_keys_equal_keys_of_new_positions() {
    for style in [RopeStyle::Half, RopeStyle::Interleaved] {
        // Elements of keys reach 2.4, where a half-precision number is precise to about 0.001.
        check(DType::F16, rope(style, HEAD_DIM / 2, 1.0), 4e-3);
        check(DType::F16, rope(style, HEAD_DIM / 4, 1.2), 4e-3);
        check(DType::BF16, rope(style, HEAD_DIM / 2, 1.0), 4e-2);
        check(DType::Q8_0, rope(style, HEAD_DIM / 2, 1.0), 6e-2);
    }
}

#[test]
fn shifted_latents_equal_latents_of_new_positions() {
    let interleaved = |pairs: usize| rope(RopeStyle::Interleaved, pairs, 1.0);
    check_model(Model::latent, DType::F16, interleaved(HEAD_DIM / 2), 4e-3);
    check_model(Model::latent, DType::Q8_0, interleaved(HEAD_DIM / 4), 6e-2);
}

#[test]
fn keys_that_are_copied_after_rotation_are_not_shifted() {
    let part = |buffer| HeadPart { buffer, heads: 1, first: 0 };
    let copied = |rotated_after: bool| {
        let mut plan = plan(WeightId(0), rope(RopeStyle::Half, HEAD_DIM / 2, 1.0));
        let store = plan.ops.pop().expect("the last op is StoreKv");
        let rotate = plan.ops.pop().expect("the op before it is RoPE");
        let Op::StoreKv { k, v, .. } = store else { panic!("the last op is StoreKv") };
        let copy = Op::CopyHeads { from: part(v), to: part(k), width: HEAD_DIM };
        plan.ops.extend(if rotated_after { [copy, rotate] } else { [rotate, copy] });
        plan.ops.push(store);
        Rotation::from_plan(&plan, DType::F16).err()
    };
    assert_eq!(copied(true), None, "the copy has the position of the keys");
    assert_eq!(copied(false), Some(RotationError::Changed(0)), "the copy has no position");
}

#[test]
fn shifted_rows_are_not_shared() {
    let mut model = Model::new(DType::F16, rope(RopeStyle::Half, HEAD_DIM / 2, 1.0));
    let all = tokens(500);
    let (seq, _) = model.open(&all);
    let (shared, cached) = model.open(&all);
    assert_eq!(cached, 448, "full pages are shared while both are open");
    let before = model.rows(shared, Kv::Keys);
    let dropped =
        model.cache.shift(&mut model.backend, seq, 64, &model.rotation).expect("there are enough pages to drop");
    assert_eq!(model.rows(shared, Kv::Keys), before, "the rows of another sequence are unchanged");
    let mut remaining = all.clone();
    remaining.drain(dropped);
    let more = tokens(200);
    model.compute(seq, remaining.len(), &more);
    remaining.extend(more);
    // A second shift changes pages that belong to the sequence alone.
    let dropped =
        model.cache.shift(&mut model.backend, seq, 64, &model.rotation).expect("there are enough pages to drop");
    remaining.drain(dropped);
    let check = |model: &mut Model, tokens: &[u32], expected: usize, why: &str| {
        let (seq, cached) = model.cache.open(tokens);
        assert_eq!(cached, expected, "{why}");
        model.cache.discard(seq);
    };
    check(&mut model, &remaining, 64, "while it is open, only the prefix is cached");
    model.cache.close(seq);
    check(&mut model, &remaining, 64, "only the prefix is cached after it was closed");
    model.cache.close(shared);
    check(&mut model, &all, 499, "the computed conversation is still cached");
    let stats = model.cache.stats();
    assert_eq!(stats.live_pages, 0, "its own pages are free: {stats:?}");
}

#[test]
fn failed_shift_changes_nothing() {
    let half = || rope(RopeStyle::Half, HEAD_DIM / 2, 1.0);
    let mut model = Model::new(DType::F16, half());
    let (seq, _) = model.open(&tokens(127));
    let error = model.cache.shift(&mut model.backend, seq, 1, &model.rotation).expect_err("no full page to drop");
    assert!(matches!(error, ShiftError::Short { kept_tokens: 64, tokens: 127 }), "{error}");

    let mut coarse = Model::new(DType::Q8_0, half());
    let (seq, _) = coarse.open(&tokens(500));
    coarse.cache.shift(&mut coarse.backend, seq, 1, &coarse.rotation).expect("the first shift is possible");
    let before = coarse.rows(seq, Kv::Keys);
    let error = coarse
        .cache
        .shift(&mut coarse.backend, seq, 1, &coarse.rotation)
        .expect_err("a second shift would round twice");
    assert!(matches!(error, ShiftError::Rounded), "{error}");
    assert_eq!(coarse.rows(seq, Kv::Keys), before, "the keys are unchanged");

    let table = WeightId(0);
    let mut windowed = plan(table, half());
    windowed.states[0].kind = StateKind::Window(128);
    assert_eq!(
        Rotation::from_plan(&windowed, DType::F16).err(),
        Some(RotationError::Window(0)),
        "rows before the window may be missing"
    );
    windowed.states[0].kind = StateKind::Chunk(128);
    let error = Rotation::from_plan(&windowed, DType::F16).err();
    assert_eq!(error, Some(RotationError::Window(0)), "rows would get into other chunks");
    let mut added = plan(table, half());
    added.ops.insert(1, Op::AddEmbedding { x: BufferId(0), table, component: 0 });
    assert_eq!(Rotation::from_plan(&added, DType::F16).err(), Some(RotationError::Added), "positions in the stream");
    let mut changed = plan(table, half());
    let Some(Op::StoreKv { k, .. }) = changed.ops.last().cloned() else { panic!("the last op is StoreKv") };
    changed.ops.insert(3, Op::Scale { x: k, factor: 2.0 });
    assert_eq!(Rotation::from_plan(&changed, DType::F16).err(), Some(RotationError::Changed(0)), "an op after RoPE");
    changed.ops.swap(2, 3);
    assert!(Rotation::from_plan(&changed, DType::F16).is_ok(), "an op before RoPE");
}
