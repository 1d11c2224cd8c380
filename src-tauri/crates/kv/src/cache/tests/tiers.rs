//! The cache with tiers beneath it: what was computed is found again after pages were evicted and models unloaded, and never
//! belongs to another history.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use cairn_gguf::DType;
use cairn_tier::{Clock, Config, Costs, Fingerprint, Namespace, NumericClass, RowTypes, Tiers, WeightsDigest};

use super::*;
use crate::{Because, Keeping, Recalled, Recomputed};

/// A clock that tests turn.
#[derive(Default)]
struct Hands(AtomicU64);

impl Clock for Hands {
    fn now(&self) -> Duration {
        Duration::from_secs(self.0.load(Ordering::Relaxed))
    }

    fn unix_s(&self) -> u64 {
        1_700_000_000 + self.0.load(Ordering::Relaxed)
    }
}

/// A model that comes and goes over tiers that stay.
pub(super) struct Place {
    pub(super) world: World,
    budget_pages: u64,
    window: Option<usize>,
    pub(super) tiers: Arc<Tiers>,
    clock: Arc<Hands>,
    namespace: &'static str,
    class: &'static str,
    /// What computing a token is taken to cost.
    token: Duration,
}

/// A page's section, so that each step copies one.
const STEP_BYTES: usize = 1;

impl Place {
    fn new(budget_pages: u64, ram_bytes: u64) -> Self {
        Self::with_window(budget_pages, ram_bytes, None)
    }

    pub(super) fn with_window(budget_pages: u64, ram_bytes: u64, window: Option<usize>) -> Self {
        let clock = Arc::new(Hands::default());
        let config = Config { weigh: false, ..Config::new(ram_bytes) };
        let tiers = Tiers::open(config, Arc::clone(&clock) as Arc<dyn Clock>).expect("threads start");
        let mut place = Self {
            world: World::with_window(budget_pages, window),
            budget_pages,
            window,
            tiers: Arc::new(tiers),
            clock,
            namespace: "me",
            class: "slots//0",
            token: Duration::from_millis(10),
        };
        place.reload();
        place
    }

    /// The model is unloaded, and loaded again.
    pub(super) fn reload(&mut self) {
        while !self.world.open.is_empty() {
            self.world.close(0);
        }
        self.world.cache.keep_all(&self.world.backend, || false);
        self.world = World::with_window(self.budget_pages, self.window);
        let keeping = Keeping {
            tiers: Arc::clone(&self.tiers),
            namespace: Namespace::new(b"secret", self.namespace),
            fingerprint: Fingerprint::new(WeightsDigest([1; 32]), []),
            class: NumericClass::new(self.class).expect("the name is short"),
            rows: RowTypes { keys: DType::F16, values: DType::F16 },
            groups: crate::groups(&layout(self.window)),
        };
        self.world.cache.keep_in(keeping, Costs::new(self.token));
    }

    /// Opens a sequence, brings back what is kept, and computes the rest. Returns the tokens that came from the tiers.
    pub(super) fn prompt(&mut self, tokens: &[u32]) -> usize {
        let World { backend, cache, .. } = &mut self.world;
        let (seq, _) = cache.open(tokens);
        let mut recalled = 0;
        if let Some(mut recall) = cache.recall(seq, tokens).recall {
            loop {
                match cache.absorb(backend, seq, tokens, &mut recall) {
                    Recalled::Tokens(tokens, _) => recalled += tokens,
                    Recalled::Waiting => std::thread::yield_now(),
                    Recalled::Misfit => panic!("all chunks here are of one model"),
                    Recalled::Ended(_) | Recalled::NoPages(_) => break,
                }
            }
        }
        let have = cache.len(seq);
        self.world.open.push((seq, tokens[..have].to_vec()));
        self.world.append(self.world.open.len() - 1, &tokens[have..]);
        self.world.check();
        recalled
    }

    /// Time passes, and what is due is kept.
    fn rest(&mut self, seconds: u64) {
        self.clock.0.fetch_add(seconds, Ordering::Relaxed);
        while self.world.cache.keep_some(&self.world.backend, usize::MAX) {}
    }

    /// Time passes, and of what is due a little is copied, so many times.
    fn rest_busily(&mut self, seconds: u64, steps: usize) {
        self.clock.0.fetch_add(seconds, Ordering::Relaxed);
        for _ in 0..steps {
            self.world.cache.keep_some(&self.world.backend, STEP_BYTES);
        }
    }

    /// How much of a prompt the tiers have.
    fn kept(&self, prompt: &[u32]) -> usize {
        let keys = prompt.iter().copied().map(Key::token).collect();
        let keeper = self.world.cache.keeper.as_ref().expect("it keeps");
        self.tiers.find(&keeper.keeping.prefix(keys)).tokens()
    }
}

#[test]
fn an_unloaded_model_finds_what_it_had_computed() {
    let mut place = Place::new(64, 1 << 20);
    assert_eq!(place.prompt(&tokens(0..1000)), 0, "nothing is known yet");
    place.reload();
    assert_eq!(place.prompt(&tokens(0..1000)), 999, "all but the last token, which must be computed");
    place.reload();
    assert_eq!(place.prompt(&tokens(0..2000)), 1000, "the tail of a conversation too");
}

#[test]
fn a_prompt_that_differs_within_a_chunk_finds_the_rows_before() {
    let mut place = Place::new(64, 1 << 20);
    place.prompt(&tokens(0..1000));
    place.reload();
    let other: Vec<u32> = (0..700).chain(5000..5300).collect();
    assert_eq!(place.prompt(&other), 700, "two chunks, and 188 rows of the third");
}

#[test]
fn another_namespace_finds_nothing() {
    let mut place = Place::new(64, 1 << 20);
    place.prompt(&tokens(0..1000));
    place.namespace = "you";
    place.reload();
    assert_eq!(place.prompt(&tokens(0..1000)), 0, "what somebody else said is not found");
}

#[test]
fn evicted_pages_are_kept_first() {
    let mut place = Place::new(20, 1 << 20);
    place.prompt(&tokens(0..1000));
    place.world.close(0);
    place.prompt(&tokens(10_000..11_000));
    place.world.close(0);
    assert!(place.world.cache.stats().evicted_pages > 0, "20 pages hold one of the two");
    let recalled = place.prompt(&tokens(0..1000));
    assert!(recalled >= 512, "what was evicted came back: {recalled}");
}

#[test]
fn idle_conversations_are_kept_while_their_pages_stay() {
    let mut place = Place::new(64, 1 << 20);
    place.prompt(&tokens(0..600));
    place.world.close(0);
    place.rest(29);
    assert_eq!(place.kept(&tokens(0..600)), 0, "29 s are not idle");
    place.rest(1);
    assert_eq!(place.kept(&tokens(0..600)), 600, "30 s are");
}

#[test]
fn a_chunk_is_copied_a_little_at_a_time_while_others_compute() {
    let mut place = Place::new(64, 1 << 20);
    place.prompt(&tokens(0..600));
    place.world.close(0);
    place.prompt(&tokens(9000..9100));
    place.rest_busily(30, 1);
    assert_eq!(place.kept(&tokens(0..600)), 0, "naming it is a step");
    let mut steps = 1;
    while place.kept(&tokens(0..600)) < 600 && steps < 100 {
        place.rest_busily(0, 1);
        steps += 1;
        let index = place.world.open.len() - 1;
        place.world.append(index, &[steps]);
        place.world.check();
    }
    // Two whole chunks of eight pieces, a tail of two pages, and three names.
    assert_eq!(steps, 2 * 8 + 4 + 3, "each step copies one piece");
    place.reload();
    assert_eq!(place.prompt(&tokens(0..601)), 600, "and what comes back is what was computed");
}

/// Begins to copy the prompt's only chunk, lets `interrupt` have its way, and tells what is kept then, and after more time.
fn interrupted(interrupt: impl FnOnce(&mut Place)) -> [usize; 2] {
    let mut place = Place::new(20, 1 << 20);
    place.prompt(&tokens(0..256));
    place.world.close(0);
    place.rest_busily(30, 4);
    assert_eq!(place.kept(&tokens(0..256)), 0, "it is half copied");
    interrupt(&mut place);
    let then = place.kept(&tokens(0..256));
    place.rest(30);
    let kept = [then, place.kept(&tokens(0..256))];
    place.prompt(&tokens(0..300));
    kept
}

#[test]
fn a_copy_that_is_interrupted_is_whole_or_not_at_all() {
    assert_eq!(interrupted(|_| {}), [0, 256], "it goes on later");
    let evicted = interrupted(|place| {
        place.prompt(&tokens(5000..6200));
        place.world.close(0);
    });
    assert_eq!(evicted[0], 256, "the rest is copied before its pages are used for something else");
    assert_eq!(interrupted(|place| place.world.cache.clear()), [0, 0], "what is forgotten is not kept");
    let unloaded = interrupted(Place::reload);
    assert_eq!(unloaded[0], 256, "the rest is copied when the model goes");
    let continued = interrupted(|place| {
        place.prompt(&tokens(0..700));
        place.world.close(0);
    });
    assert_eq!(continued, [0, 256], "its pages stay as they are when others go on from them");
}

#[test]
fn a_tail_that_is_being_copied_may_be_continued() {
    let mut place = Place::new(20, 1 << 20);
    place.prompt(&tokens(0..300));
    place.world.close(0);
    // The first chunk and its name, the tail's name, and one of its two pieces.
    place.rest_busily(30, 1 + 8 + 1 + 1);
    assert_eq!(place.kept(&tokens(0..300)), 256, "the tail is half copied");
    place.prompt(&tokens(0..500));
    place.world.close(0);
    place.rest(30);
    place.reload();
    assert_eq!(place.prompt(&tokens(0..501)), 500, "all of it is kept");
}

#[test]
fn only_what_is_quicker_to_bring_back_comes_back() {
    let check = |token: Duration, weigh: bool, expected: (usize, Recomputed), why: &str| {
        let mut place = Place::new(64, 1 << 20);
        let config = Config { weigh, ..Config::new(1 << 20) };
        let tiers = Tiers::open(config, Arc::clone(&place.clock) as Arc<dyn Clock>).expect("threads start");
        place.tiers = Arc::new(tiers);
        place.token = token;
        place.reload();
        place.prompt(&tokens(0..200));
        place.reload();
        let prompt = tokens(0..300);
        let (seq, _) = place.world.cache.open(&prompt);
        let lookup = place.world.cache.recall(seq, &prompt);
        let end = lookup.recall.map_or(0, |recall| recall.choice().end);
        assert_eq!((end, lookup.recomputed), expected, "{why}");
    };
    let miss = Recomputed::of(Because::Miss, 99);
    let mut cheaper = miss;
    cheaper += Recomputed::of(Because::Cheaper, 200);
    check(Duration::from_millis(10), true, (200, miss), "computing is slow");
    check(Duration::from_nanos(1), true, (0, cheaper), "computing is quick");
    check(Duration::from_nanos(1), false, (200, miss), "computing is quick, and nobody asks");
}

#[test]
fn rows_of_another_arithmetic_are_told_from_those_that_are_not_kept() {
    let mut place = Place::new(64, 1 << 20);
    place.prompt(&tokens(0..600));
    place.class = "slots//1";
    place.reload();
    let prompt = tokens(0..600);
    let (seq, _) = place.world.cache.open(&prompt);
    let lookup = place.world.cache.recall(seq, &prompt);
    assert!(lookup.recall.is_none(), "another arithmetic's rows do not come back");
    assert_eq!(lookup.recomputed, Recomputed::of(Because::Incompatible, 599), "and it is said why");
}

#[test]
fn an_end_says_why_the_rest_is_computed() {
    let missed = |miss| Recalled::Ended(cairn_tier::End::Missed(miss));
    for (ended, because) in [
        (Recalled::Ended(cairn_tier::End::Complete), None),
        (Recalled::Ended(cairn_tier::End::Deadline), Some(Because::Deadline)),
        (missed(cairn_tier::Miss::Absent), Some(Because::Miss)),
        (missed(cairn_tier::Miss::Damaged("torn")), Some(Because::Corrupt)),
        (missed(cairn_tier::Miss::Other("another")), Some(Because::Incompatible)),
        (Recalled::Misfit, Some(Because::Incompatible)),
    ] {
        assert_eq!(ended.because(), because, "{ended:?}");
    }
}

#[derive(Clone, Debug)]
enum Act {
    Step(Step),
    Rest(u64),
    Busy(u64, usize),
    Reload,
    Drop,
}

fn act() -> impl Strategy<Value = Act> {
    prop_oneof![
        12 => step().prop_map(Act::Step),
        2 => (1u64..40).prop_map(Act::Rest),
        4 => (1u64..40, 1usize..12).prop_map(|(seconds, steps)| Act::Busy(seconds, steps)),
        1 => Just(Act::Reload),
        1 => Just(Act::Drop),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_sequence_reads_its_own_history_over_tiers(
        budget_pages in 4u64..40,
        ram_chunks in 1u64..20,
        window in prop_oneof![Just(None), (1usize..400).prop_map(Some)],
        acts in proptest::collection::vec(act(), 1..80),
    ) {
        let ram_bytes = ram_chunks * 4 * layout(window).page_bytes as u64;
        let mut place = Place::with_window(budget_pages, ram_bytes, window);
        for act in acts {
            let open = place.world.open.len();
            match act {
                Act::Step(Step::Open { chat, len }) if open < 8 => {
                    // Longer than in the pool's own test, so that there are chunks.
                    let prompt: Vec<u32> = (0..len * 4).map(|i| chat_token(chat, i / 4)).collect();
                    place.prompt(&prompt);
                }
                Act::Step(Step::Append { index, branch, len }) if index < open => {
                    let more: Vec<u32> = (0..len as u32).map(|i| 10_000 * branch + i).collect();
                    place.world.append(index, &more);
                }
                Act::Step(Step::Truncate { index, percent }) if index < open => {
                    let (seq, content) = &mut place.world.open[index];
                    let left = place.world.cache.truncate(*seq, content.len() * percent / 100);
                    content.truncate(left);
                }
                Act::Step(Step::Fork { index }) if index < open && open < 8 => {
                    let (seq, content) = place.world.open[index].clone();
                    place.world.open.push((place.world.cache.fork(seq), content));
                }
                Act::Step(Step::Close { index }) if index < open => place.world.close(index),
                Act::Step(Step::Discard { index }) if index < open => {
                    let (seq, _) = place.world.open.swap_remove(index);
                    place.world.cache.discard(seq);
                }
                Act::Rest(seconds) => place.rest(seconds),
                Act::Busy(seconds, steps) => place.rest_busily(seconds, steps),
                Act::Reload => place.reload(),
                Act::Drop => place.world.cache.clear(),
                Act::Step(_) => {}
            }
            place.world.check();
        }
    }
}
