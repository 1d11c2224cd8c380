//! The logits of a prompt do not depend on how it is computed: for every family and page type, bit for bit.
//!
//! So a restored prefix equals a recomputed one. A row's logits are independent of the batches of its prompt, of other
//! requests in the batch, of the number of threads, and of the pages: pages can be copied to other pages of another
//! pool. For layers with a window or chunks, only the pages inside the window or the chunk are copied.

use std::ops::Range;
use std::sync::Arc;

use cairn_gguf::DType;
use cairn_hardware::Machine;
use cairn_kernels::{KV_TYPES, Variant};
use cairn_tensor::{
    Backend, Batch, BufferId, Cpu, Kv, Limits, PAGE_TOKENS, PageId, PageLayout, PlanId, RecurrentId, Row, Slice,
    StateId, StateKind, Team,
};
use cairn_testkit::{ModelSpec, Types, families, tiny};

use super::file;
use crate::runs::SnapshotTurns;
use crate::{ModelFile, load};

/// Tokens of the prompt: three attention spans, the last one incomplete, and an incomplete last page.
const PROMPT: usize = 580;
/// Tokens whose pages are moved. They end within a page.
const MOVED: usize = 300;
/// Maximum length of the other sequences.
const BESIDE: usize = 640;

/// A model on the fast backend.
struct Engine {
    backend: Cpu,
    plan: PlanId,
    logits: BufferId,
    layout: PageLayout,
    states: Vec<StateKind>,
    layers: usize,
    snapshots: SnapshotTurns,
    vocab: usize,
}

impl Engine {
    fn new(file: &ModelFile, variant: &'static Variant, kv_type: DType, threads: usize) -> Self {
        let team = Team::new(threads, &[]).expect("a test may start threads");
        let mut backend = Cpu::new(variant, Arc::new(team)).with_kv_type(kv_type);
        let model = load(file, 4096, &mut backend).expect("testkit writes whole models");
        let logits = model.plan.logits.expect("every family has logits");
        let (layout, states) = (model.plan.page_layout(kv_type), model.plan.states.iter().map(|s| s.kind).collect());
        let (limits, layers) = (Limits { rows: PROMPT + 6, logit_rows: PROMPT }, model.plan.layers());
        let plan = backend.prepare(model.plan, limits).expect("the plan fits its weights");
        backend.grow_pages(3 * BESIDE / PAGE_TOKENS).expect("a few pages can be had");
        backend.grow_snapshots(SnapshotTurns::count(3)).expect("a few snapshots can be had");
        let snapshots = SnapshotTurns::default();
        Self { backend, plan, logits, layout, states, layers, snapshots, vocab: model.hparams.vocab }
    }

    /// Returns the bits of the logits of some tokens of the prompt. With `beside`, the batch has a row of another
    /// sequence before them and five rows of a third sequence after them.
    fn run(&mut self, slots: Range<usize>, nth: usize, beside: bool) -> Vec<u32> {
        let mut rows = Vec::new();
        let mut push = |seq: u32, slots: Range<usize>, want_logits: bool| {
            rows.extend(slots.map(|slot| Row::text(seq, token(seq, slot), slot as u32, want_logits)));
        };
        let count = slots.len();
        if beside {
            push(0, nth..nth + 1, false);
        }
        push(1, slots, true);
        if beside {
            push(2, (5 * nth).min(BESIDE)..(5 * nth + 5).min(BESIDE), false);
        }
        let mut batch = Batch { rows, tables: (0..3).map(table).collect(), ..Batch::default() };
        self.snapshots.link(&mut batch, |_| true);
        self.backend.run(self.plan, &batch).expect("the batch is within the limits");
        let mut logits = vec![0.0; count * self.vocab];
        self.backend.read(self.plan, self.logits, 0..count, &mut logits);
        logits.into_iter().map(f32::to_bits).collect()
    }

    /// The same for a part of the prompt in batches of `cut` tokens.
    fn pieces(&mut self, slots: Range<usize>, cut: usize, beside: bool) -> Vec<u32> {
        let starts = slots.clone().step_by(cut).enumerate();
        starts.flat_map(|(nth, start)| self.run(start..(start + cut).min(slots.end), nth, beside)).collect()
    }

    /// The same for the whole prompt in parts of `cut` tokens, which go through one layer in each run.
    fn slices(&mut self, cut: usize) -> Vec<u32> {
        let (mut found, mut beside) = (Vec::new(), 0..BESIDE);
        for start in (0..PROMPT).step_by(cut) {
            let slots = start..(start + cut).min(PROMPT);
            for layer in 0..self.layers {
                let is_last = layer + 1 == self.layers;
                let row = |seq: u32, slot: usize, want_logits: bool| {
                    Row::text(seq - 1, token(seq, slot), slot as u32, want_logits)
                };
                let mut rows: Vec<Row> = slots.clone().map(|slot| row(1, slot, is_last)).collect();
                rows.extend(beside.next().map(|slot| row(2, slot, !is_last)));
                let slice = Some(Slice { rows: slots.len(), layers: layer..layer + 1 });
                let mut batch = Batch { rows, tables: vec![table(1), table(2)], slice, ..Batch::default() };
                self.snapshots.link(&mut batch, |seq| seq > 0 || is_last);
                self.backend.run(self.plan, &batch).expect("the batch is within the limits");
            }
            let mut logits = vec![0.0; slots.len() * self.vocab];
            self.backend.read(self.plan, self.logits, 0..slots.len(), &mut logits);
            found.extend(logits.into_iter().map(f32::to_bits));
        }
        found
    }
}

/// Returns the pages of a sequence, interleaved with those of other sequences, descending.
fn table(seq: u32) -> Vec<PageId> {
    (0..(BESIDE / PAGE_TOKENS) as u32).rev().map(|page| PageId(page * 3 + seq)).collect()
}

fn token(seq: u32, slot: usize) -> u32 {
    (slot as u32 * 31 + seq * 77) % 509
}

/// Returns the first token whose logits differ.
fn difference(a: &[u32], b: &[u32], vocab: usize) -> Option<usize> {
    assert_eq!(a.len(), b.len(), "as many logits");
    a.iter().zip(b).position(|(a, b)| a != b).map(|at| at / vocab)
}

fn check(spec: &ModelSpec, variant: &'static Variant, kv_type: DType, cuts: &[(usize, usize, bool)]) {
    let what = format!("{}, {}, pages of {kv_type}", spec.family.name, variant.name);
    let file = file(&cairn_testkit::write(spec));
    let mut engine = Engine::new(&file, variant, kv_type, 1);
    let whole = engine.run(0..PROMPT, 0, false);
    assert!(whole.iter().all(|logit| f32::from_bits(*logit).is_finite()), "{what}: logits are numbers");
    let distinct = whole.iter().collect::<std::collections::HashSet<_>>().len();
    assert!(distinct > whole.len() / 4, "{what}: logits must vary, else equality is trivial: {distinct}");
    for &(cut, threads, beside) in cuts {
        let found = Engine::new(&file, variant, kv_type, threads).pieces(0..PROMPT, cut, beside);
        let wrong = difference(&found, &whole, engine.vocab);
        assert_eq!(wrong, None, "{what}: first token with other bits by {cut} on {threads} threads, beside: {beside}");
        if cut < 64 {
            continue;
        }
        let found = Engine::new(&file, variant, kv_type, threads).slices(cut);
        let wrong = difference(&found, &whole, engine.vocab);
        assert_eq!(wrong, None, "{what}: first token with other bits in slices of {cut} on {threads} threads");
    }

    // The prompt's pages are moved, and all other pages contain NaN.
    let mut other = Engine::new(&file, variant, kv_type, 2);
    let pages = (3 * BESIDE / PAGE_TOKENS) as u32;
    for page in (0..pages).map(PageId) {
        other.backend.write_page(page, &vec![0xff; engine.layout.page_bytes]);
    }
    let moved: Vec<PageId> = table(1).iter().map(|page| PageId((page.0 + 4) % pages)).collect();
    for (nth, (&from, &to)) in table(1).iter().zip(&moved).enumerate().take(MOVED.div_ceil(PAGE_TOKENS)) {
        assert_ne!(from, to, "pages move");
        for (state, kind) in engine.states.iter().enumerate() {
            let reached = match kind {
                StateKind::Full | StateKind::Causal | StateKind::Around(_) | StateKind::Region => true,
                StateKind::Chunk(tokens) => (nth + 1) * PAGE_TOKENS > MOVED - MOVED % *tokens as usize,
                StateKind::Window(window) => (nth + 1) * PAGE_TOKENS + *window as usize > MOVED + 1,
            };
            for kv in Kv::ALL.into_iter().filter(|_| reached) {
                let state = StateId(state as u32);
                let mut bytes = vec![0; engine.layout.section(state, kv).len()];
                engine.backend.read_section(from, state, kv, &mut bytes);
                other.backend.write_section(to, state, kv, &bytes);
            }
        }
    }
    move_snapshot(&file, variant, kv_type, &mut other);
    let rows: Vec<Row> = (MOVED..PROMPT).map(|slot| Row::text(0, token(1, slot), slot as u32, true)).collect();
    let mut found = Vec::new();
    for rows in rows.chunks(100) {
        let mut batch = Batch { rows: rows.to_vec(), tables: vec![moved.clone()], ..Batch::default() };
        other.snapshots.link(&mut batch, |_| true);
        other.backend.run(other.plan, &batch).expect("the batch is within the limits");
        let mut logits = vec![0.0; rows.len() * other.vocab];
        other.backend.read(other.plan, other.logits, 0..rows.len(), &mut logits);
        found.extend(logits.into_iter().map(f32::to_bits));
    }
    let wrong = difference(&found, &whole[MOVED * engine.vocab..], engine.vocab);
    assert_eq!(wrong, None, "{what}: first token with other bits after the pages moved");
}

/// Lets the first sequence of an engine continue from the recurrent states after the moved tokens.
fn move_snapshot(file: &ModelFile, variant: &'static Variant, kv_type: DType, to: &mut Engine) {
    let mut from = Engine::new(file, variant, kv_type, 1);
    from.run(0..MOVED, 0, false);
    let last = from.snapshots.last(1).expect("rows of the sequence were run");
    let id = to.snapshots.begin_at_first(0);
    for (state, section) in from.layout.snapshot.sections.iter().enumerate() {
        let state = RecurrentId(state as u32);
        let mut bytes = vec![0; section.len()];
        from.backend.read_snapshot(last, state, &mut bytes);
        to.backend.write_snapshot(id, state, &bytes);
    }
}

/// Architectures with the plan of another one.
const TWINS: [&str; 5] = ["ernie4_5", "exaone", "qwen2vl", "qwen3vl", "qwen3vlmoe"];

/// Returns small models with the most common mix of types, one for each plan.
fn specs() -> impl Iterator<Item = ModelSpec> {
    let families = families::ALL.iter().filter(|family| !TWINS.contains(&family.name));
    families.map(|family| ModelSpec { types: Types::Q4KM, ..tiny(family) })
}

#[test]
fn every_family_is_independent_of_batching() {
    let variants = cairn_kernels::usable(&Machine::probe().cpu.features);
    for spec in specs() {
        let cuts = [(1, 1, false), (7, 2, true), (64, 1, true), (512, 2, false), (PROMPT, 2, true)];
        check(&spec, variants[0], DType::F16, &cuts);
    }
    // Its last layers attend to rows of earlier ones.
    let shared = ModelSpec { types: Types::Q4KM, layers: 4, ..tiny(&families::GEMMA4_SMALL) };
    check(&shared, variants[0], DType::Q8_0, &[(1, 2, true), (64, 1, true), (512, 2, true)]);
    let experts = ModelSpec { types: Types::Q4KM, ..tiny(&families::GEMMA4_EXPERTS) };
    check(&experts, variants[0], DType::F16, &[(7, 2, true), (512, 2, true)]);
}

#[test]
fn every_page_type_is_independent_of_batching() {
    let variants = cairn_kernels::usable(&Machine::probe().cpu.features);
    // Families store keys and values alike, so each has one of the types.
    for (spec, kv_type) in specs().zip(KV_TYPES.into_iter().cycle()) {
        check(&spec, variants[0], kv_type, &[(7, 2, true), (512, 2, true)]);
    }
}

#[test]
fn every_variant_is_independent_of_batching() {
    for variant in cairn_kernels::usable(&Machine::probe().cpu.features) {
        // One with windows and caps, one with experts and sinks.
        for family in [&families::GEMMA2, &families::GPT_OSS] {
            let spec = ModelSpec { layers: 2, types: Types::Q4KM, ..tiny(family) };
            check(&spec, variant, DType::Q8_0, &[(64, 2, true)]);
        }
    }
}
