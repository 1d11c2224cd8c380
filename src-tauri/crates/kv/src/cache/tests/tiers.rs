//! The cache with tiers: rows are restored after eviction and after a reload, and always belong to the right history.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use cairn_gguf::DType;
use cairn_tier::{
    Clock, Config, CostModel, Fingerprint, Namespace, NumericClass, Owner, RowTypes, Tiers, WeightsDigest,
};

use super::*;
use crate::{ModelTiers, RecomputeReason, RecomputedTokens, RestorePoll};

/// A clock that tests advance.
#[derive(Default)]
struct MockClock(AtomicU64);

impl Clock for MockClock {
    fn now(&self) -> Duration {
        Duration::from_secs(self.0.load(Ordering::Relaxed))
    }

    fn unix_s(&self) -> u64 {
        1_700_000_000 + self.0.load(Ordering::Relaxed)
    }
}

/// A model that can be reloaded, over tiers that stay open.
pub(super) struct ModelWorld {
    pub(super) world: World,
    budget_pages: u64,
    layers: Layers,
    pub(super) tiers: Arc<Tiers>,
    clock: Arc<MockClock>,
    namespace: &'static str,
    class: &'static str,
    /// Estimated time to compute a token.
    token_time: Duration,
}

/// Limit with which each step copies one section of a page.
const STEP_BYTES: usize = 1;

impl ModelWorld {
    fn new(budget_pages: u64, ram_bytes: u64) -> Self {
        Self::with_layers(budget_pages, ram_bytes, Layers::default())
    }

    pub(super) fn with_layers(budget_pages: u64, ram_bytes: u64, layers: Layers) -> Self {
        let clock = Arc::new(MockClock::default());
        let config = Config { use_cost_model: false, ..Config::new(ram_bytes) };
        let tiers = Tiers::open(config, Arc::clone(&clock) as Arc<dyn Clock>).expect("threads start");
        let mut model = Self {
            world: World::with_layers(budget_pages, layers),
            budget_pages,
            layers,
            tiers: Arc::new(tiers),
            clock,
            namespace: "me",
            class: "slots//0",
            // Less than two seconds for every prompt of these tests.
            token_time: Duration::from_millis(1),
        };
        model.reload();
        model
    }

    /// Unloads the model and loads it again.
    pub(super) fn reload(&mut self) {
        while !self.world.open.is_empty() {
            self.world.close(0);
        }
        self.world.cache.flush_all(&self.world.backend, || false);
        self.world = World::with_layers(self.budget_pages, self.layers);
        let model = ModelTiers {
            tiers: Arc::clone(&self.tiers),
            namespace: Namespace::new(b"secret", self.namespace),
            fingerprint: Fingerprint::new(WeightsDigest([1; 32]), []),
            class: NumericClass::new(self.class).expect("the name is short"),
            rows: RowTypes { keys: DType::F16, values: DType::F16 },
            groups: crate::groups(&self.layers.layout()),
        };
        self.world.cache.attach_tiers(model, CostModel::new(self.token_time));
    }

    /// Opens a sequence, restores what is stored, and computes the rest. Returns the number of restored tokens.
    pub(super) fn prompt(&mut self, tokens: &[u32]) -> usize {
        let World { backend, cache, .. } = &mut self.world;
        let (seq, _) = cache.open(tokens);
        let mut restored_tokens = 0;
        if let Some(mut restore) = cache.begin_restore(seq, tokens).restore {
            loop {
                match cache.poll_restore(backend, seq, tokens, &mut restore) {
                    RestorePoll::Tokens(tokens, _) => restored_tokens += tokens,
                    RestorePoll::Pending => std::thread::yield_now(),
                    RestorePoll::LayoutMismatch => panic!("all chunks have the layout of one model"),
                    RestorePoll::Ended(_) | RestorePoll::NoPages(_) => break,
                }
            }
        }
        let have = cache.len(seq);
        self.world.open.push((seq, tokens[..have].to_vec()));
        self.world.append(self.world.open.len() - 1, &tokens[have..]);
        self.world.check();
        restored_tokens
    }

    /// Advances the clock and flushes all that is due.
    fn flush_after(&mut self, seconds: u64) {
        self.clock.0.fetch_add(seconds, Ordering::Relaxed);
        while self.world.cache.flush_some(&self.world.backend, usize::MAX) {}
    }

    /// Advances the clock by `seconds` and makes `steps` small flush steps.
    fn flush_steps_after(&mut self, seconds: u64, steps: usize) {
        self.clock.0.fetch_add(seconds, Ordering::Relaxed);
        for _ in 0..steps {
            self.world.cache.flush_some(&self.world.backend, STEP_BYTES);
        }
    }

    /// Number of a prompt's tokens that the tiers store.
    fn stored(&self, prompt: &[u32]) -> usize {
        let keys = prompt.iter().copied().map(Key::token).collect();
        let tiers = self.world.cache.tiers.as_ref().expect("the cache has tiers");
        self.tiers.lookup(&tiers.model.prefix(keys)).tokens()
    }
}

#[test]
fn reloaded_model_restores_its_rows() {
    let mut model = ModelWorld::new(64, 1 << 20);
    assert_eq!(model.prompt(&tokens(0..1000)), 0, "empty tiers");
    model.reload();
    assert_eq!(model.prompt(&tokens(0..1000)), 999, "all but the last token");
    model.reload();
    assert_eq!(model.prompt(&tokens(0..2000)), 1000, "the tail chunk too");
}

#[test]
fn prompt_diverging_within_chunk_restores_rows_before() {
    let mut model = ModelWorld::new(64, 1 << 20);
    model.prompt(&tokens(0..1000));
    model.reload();
    let other: Vec<u32> = (0..700).chain(5000..5300).collect();
    assert_eq!(model.prompt(&other), 700, "two chunks, and 188 rows of the third");
}

#[test]
fn another_namespace_restores_nothing() {
    let mut model = ModelWorld::new(64, 1 << 20);
    model.prompt(&tokens(0..1000));
    model.namespace = "you";
    model.reload();
    assert_eq!(model.prompt(&tokens(0..1000)), 0, "chunks of another namespace");
}

#[test]
fn evicted_pages_are_flushed_first() {
    let mut model = ModelWorld::new(20, 1 << 20);
    model.prompt(&tokens(0..1000));
    model.world.close(0);
    model.prompt(&tokens(10_000..11_000));
    model.world.close(0);
    assert!(model.world.cache.stats().evicted_pages > 0, "20 pages hold one of the two");
    let restored_tokens = model.prompt(&tokens(0..1000));
    assert!(restored_tokens >= 512, "evicted pages are restored: {restored_tokens}");
}

#[test]
fn idle_prefixes_are_flushed_after_30_s() {
    let mut model = ModelWorld::new(64, 1 << 20);
    model.prompt(&tokens(0..600));
    model.world.close(0);
    model.flush_after(29);
    assert_eq!(model.stored(&tokens(0..600)), 0, "not flushed after 29 s");
    model.flush_after(1);
    assert_eq!(model.stored(&tokens(0..600)), 600, "flushed after 30 s");
}

#[test]
fn prefix_that_takes_long_to_compute_is_flushed_soon() {
    let mut model = ModelWorld::new(64, 1 << 20);
    // The tiers keep the measurements of the first model.
    let config = Config { use_cost_model: false, ..Config::new(1 << 20) };
    model.tiers = Arc::new(Tiers::open(config, Arc::clone(&model.clock) as Arc<dyn Clock>).expect("threads start"));
    model.token_time = Duration::from_millis(4);
    model.reload();
    model.prompt(&tokens(0..600));
    model.prompt(&tokens(5000..5300));
    model.world.close(0);
    model.world.close(0);
    model.flush_after(1);
    assert_eq!(
        model.stored(&tokens(0..600)),
        600,
        "the whole prompt takes more than two seconds, its first chunk less"
    );
    assert_eq!(model.stored(&tokens(5000..5300)), 0, "a short prompt is flushed after 30 s");
}

#[test]
fn prefix_with_an_owner_is_flushed_soon() {
    let mut model = ModelWorld::new(64, 1 << 20);
    let scope = CacheScope { owner: Some(Owner::new("chat:1").expect("short")), ..CacheScope::default() };
    let World { cache, .. } = &mut model.world;
    let (seq, _) = cache.open_scoped(&tokens(0..300), &scope);
    model.world.open.push((seq, Vec::new()));
    model.world.append(0, &tokens(0..300));
    model.world.close(0);
    model.flush_after(1);
    assert_eq!(model.stored(&tokens(0..300)), 300, "the chunks of a chat");
}

/// The tiers learn of a second use even if it ended before the rows were copied.
#[test]
fn second_use_before_the_flush_counts_as_reuse() {
    let mut model = ModelWorld::new(64, 1 << 20);
    for _ in 0..2 {
        model.prompt(&tokens(0..600));
        model.world.close(0);
    }
    model.flush_after(0);
    assert_eq!(model.stored(&tokens(0..600)), 600, "flushed at once");
    let hits: Vec<u32> = model.tiers.stored_prefixes(9).iter().map(|prefix| prefix.hits).collect();
    assert_eq!(hits, [1], "the second use is a hit");
}

#[test]
fn chunks_are_copied_in_steps_while_others_compute() {
    let mut model = ModelWorld::new(64, 1 << 20);
    model.prompt(&tokens(0..600));
    model.world.close(0);
    model.prompt(&tokens(9000..9100));
    model.flush_steps_after(30, 1);
    assert_eq!(model.stored(&tokens(0..600)), 0, "computing the chunk id is a step");
    let mut steps = 1;
    while model.stored(&tokens(0..600)) < 600 && steps < 100 {
        model.flush_steps_after(0, 1);
        steps += 1;
        let index = model.world.open.len() - 1;
        model.world.append(index, &[steps]);
        model.world.check();
    }
    // Two full chunks of eight pieces, a tail of two pages, and three ids.
    assert_eq!(steps, 2 * 8 + 4 + 3, "each step copies one piece");
    model.reload();
    assert_eq!(model.prompt(&tokens(0..601)), 600, "the restored rows are those that were computed");
}

/// Calls `interrupt` while the prompt's only chunk is being copied. Returns the stored tokens after it, and after more time.
fn interrupted(interrupt: impl FnOnce(&mut ModelWorld)) -> [usize; 2] {
    let mut model = ModelWorld::new(20, 1 << 20);
    model.prompt(&tokens(0..256));
    model.world.close(0);
    model.flush_steps_after(30, 4);
    assert_eq!(model.stored(&tokens(0..256)), 0, "half of the chunk is copied");
    interrupt(&mut model);
    let then = model.stored(&tokens(0..256));
    model.flush_after(30);
    let stored = [then, model.stored(&tokens(0..256))];
    model.prompt(&tokens(0..300));
    stored
}

#[test]
fn interrupted_chunk_copy_is_completed_or_dropped() {
    assert_eq!(interrupted(|_| {}), [0, 256], "the copy continues later");
    let evicted = interrupted(|model| {
        model.prompt(&tokens(5000..6200));
        model.world.close(0);
    });
    assert_eq!(evicted[0], 256, "the rest is copied before its pages are reused");
    assert_eq!(interrupted(|model| model.world.cache.clear()), [0, 0], "cleared pages are not stored");
    let unloaded = interrupted(ModelWorld::reload);
    assert_eq!(unloaded[0], 256, "the rest is copied when the model unloads");
    let continued = interrupted(|model| {
        model.prompt(&tokens(0..700));
        model.world.close(0);
    });
    assert_eq!(continued, [0, 256], "its pages do not change when sequences continue from them");
}

#[test]
fn partial_last_chunk_can_be_extended_while_it_is_copied() {
    let mut model = ModelWorld::new(20, 1 << 20);
    model.prompt(&tokens(0..300));
    model.world.close(0);
    // The first chunk and its id, the tail's id, and one of its two pieces.
    model.flush_steps_after(30, 1 + 8 + 1 + 1);
    assert_eq!(model.stored(&tokens(0..300)), 256, "half of the tail is copied");
    model.prompt(&tokens(0..500));
    model.world.close(0);
    model.flush_after(30);
    model.reload();
    assert_eq!(model.prompt(&tokens(0..501)), 500, "all tokens are stored");
}

#[test]
fn rows_are_restored_only_if_faster_than_computing() {
    let check = |token: Duration, use_cost_model: bool, expected: (usize, RecomputedTokens), why: &str| {
        let mut model = ModelWorld::new(64, 1 << 20);
        let config = Config { use_cost_model, ..Config::new(1 << 20) };
        let tiers = Tiers::open(config, Arc::clone(&model.clock) as Arc<dyn Clock>).expect("threads start");
        model.tiers = Arc::new(tiers);
        model.token_time = token;
        model.reload();
        model.prompt(&tokens(0..200));
        model.reload();
        let prompt = tokens(0..300);
        let (seq, _) = model.world.cache.open(&prompt);
        let lookup = model.world.cache.begin_restore(seq, &prompt);
        let end = lookup.restore.map_or(0, |restore| restore.choice().end);
        assert_eq!((end, lookup.recomputed), expected, "{why}");
    };
    let miss = RecomputedTokens::new(RecomputeReason::Miss, 99);
    let mut cheaper = miss;
    cheaper += RecomputedTokens::new(RecomputeReason::Cheaper, 200);
    check(Duration::from_millis(10), true, (200, miss), "slow to compute");
    check(Duration::from_nanos(1), true, (0, cheaper), "fast to compute");
    check(Duration::from_nanos(1), false, (200, miss), "fast to compute, without weighing");
}

#[test]
fn rows_of_another_arithmetic_count_as_incompatible() {
    let mut model = ModelWorld::new(64, 1 << 20);
    model.prompt(&tokens(0..600));
    model.class = "slots//1";
    model.reload();
    let prompt = tokens(0..600);
    let (seq, _) = model.world.cache.open(&prompt);
    let lookup = model.world.cache.begin_restore(seq, &prompt);
    assert!(lookup.restore.is_none(), "rows of another arithmetic are not restored");
    assert_eq!(lookup.recomputed, RecomputedTokens::new(RecomputeReason::Incompatible, 599), "the recompute reason");
}

#[test]
fn ended_restores_have_recompute_reasons() {
    let missed = |miss| RestorePoll::Ended(cairn_tier::RestoreEnd::Missed(miss));
    for (ended, reason) in [
        (RestorePoll::Ended(cairn_tier::RestoreEnd::Complete), None),
        (RestorePoll::Ended(cairn_tier::RestoreEnd::Deadline), Some(RecomputeReason::Deadline)),
        (missed(cairn_tier::Miss::Absent), Some(RecomputeReason::Miss)),
        (missed(cairn_tier::Miss::Damaged("torn")), Some(RecomputeReason::Corrupt)),
        (missed(cairn_tier::Miss::Mismatch("another")), Some(RecomputeReason::Incompatible)),
        (RestorePoll::LayoutMismatch, Some(RecomputeReason::Incompatible)),
    ] {
        assert_eq!(ended.recompute_reason(), reason, "{ended:?}");
    }
}

#[derive(Clone, Debug)]
enum Action {
    Step(Step),
    FlushAfter(u64),
    FlushStepsAfter(u64, usize),
    Reload,
    Clear,
}

fn action() -> impl Strategy<Value = Action> {
    prop_oneof![
        12 => step().prop_map(Action::Step),
        2 => (1u64..40).prop_map(Action::FlushAfter),
        4 => (1u64..40, 1usize..12).prop_map(|(seconds, steps)| Action::FlushStepsAfter(seconds, steps)),
        1 => Just(Action::Reload),
        1 => Just(Action::Clear),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn random_operations_with_tiers_keep_sequence_rows_correct(
        budget_pages in 4u64..40,
        ram_chunks in 1u64..20,
        window in prop_oneof![Just(None), (1usize..400).prop_map(Some)],
        is_chunk in any::<bool>(),
        recurrent in any::<bool>(),
        actions in proptest::collection::vec(action(), 1..80),
    ) {
        let layers = Layers { window, is_chunk, recurrent, state_chunks: 0 };
        let ram_bytes = ram_chunks * 4 * layers.layout().page_bytes as u64;
        let mut model = ModelWorld::with_layers(budget_pages, ram_bytes, layers);
        for action in actions {
            let open = model.world.open.len();
            match action {
                Action::Step(Step::Open { chat, len }) if open < 8 => {
                    // Long enough for several chunks.
                    let prompt: Vec<u32> = (0..len * 4).map(|i| chat_token(chat, i / 4)).collect();
                    model.prompt(&prompt);
                }
                Action::Step(Step::Append { index, branch, len }) if index < open => {
                    let more: Vec<u32> = (0..len as u32).map(|i| 10_000 * branch + i).collect();
                    model.world.append(index, &more);
                }
                Action::Step(Step::Truncate { index, percent }) if index < open => {
                    let (seq, content) = &mut model.world.open[index];
                    let remaining = model.world.cache.truncate(*seq, content.len() * percent / 100);
                    content.truncate(remaining);
                }
                Action::Step(Step::Fork { index }) if index < open && open < 8 => {
                    let (seq, content) = model.world.open[index].clone();
                    model.world.open.push((model.world.cache.fork(seq), content));
                }
                Action::Step(Step::Close { index }) if index < open => model.world.close(index),
                Action::Step(Step::Discard { index }) if index < open => {
                    let (seq, _) = model.world.open.swap_remove(index);
                    model.world.cache.discard(seq);
                }
                Action::FlushAfter(seconds) => model.flush_after(seconds),
                Action::FlushStepsAfter(seconds, steps) => model.flush_steps_after(seconds, steps),
                Action::Reload => model.reload(),
                Action::Clear => model.world.cache.clear(),
                Action::Step(_) => {}
            }
            model.world.check();
        }
    }
}
