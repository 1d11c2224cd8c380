//! The cache with tiers beneath it: what was computed is found again after pages were evicted and models unloaded, and never
//! belongs to another history.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use cairn_gguf::DType;
use cairn_tier::{Clock, Config, Costs, Fingerprint, Namespace, NumericClass, RowTypes, Tiers, WeightsDigest};

use super::*;
use crate::{Keeping, Recalled};

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
struct Place {
    world: World,
    budget_pages: u64,
    tiers: Arc<Tiers>,
    clock: Arc<Hands>,
    namespace: &'static str,
}

impl Place {
    fn new(budget_pages: u64, ram_bytes: u64) -> Self {
        let clock = Arc::new(Hands::default());
        let config = Config { weigh: false, ..Config::new(ram_bytes) };
        let tiers = Tiers::open(config, Arc::clone(&clock) as Arc<dyn Clock>).expect("threads start");
        let mut place =
            Self { world: World::new(budget_pages), budget_pages, tiers: Arc::new(tiers), clock, namespace: "me" };
        place.reload();
        place
    }

    /// The model is unloaded, and loaded again.
    fn reload(&mut self) {
        while !self.world.open.is_empty() {
            self.world.close(0);
        }
        self.world.cache.keep_all(&self.world.backend, || false);
        self.world = World::new(self.budget_pages);
        let keeping = Keeping {
            tiers: Arc::clone(&self.tiers),
            namespace: Namespace::new(b"secret", self.namespace),
            fingerprint: Fingerprint::new(WeightsDigest([1; 32]), []),
            class: NumericClass::new("slots//0").expect("the name is short"),
            rows: RowTypes { keys: DType::F16, values: DType::F16 },
        };
        self.world.cache.keep_in(keeping, Costs::new(Duration::from_millis(10)));
    }

    /// Opens a sequence, brings back what is kept, and computes the rest. Returns the tokens that came from the tiers.
    fn prompt(&mut self, tokens: &[u32]) -> usize {
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
        while self.world.cache.keep_one(&self.world.backend) {}
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
    let keeping = |place: &Place| {
        let keys = tokens(0..600).into_iter().map(Key::token).collect();
        let prefix = place.world.cache.keeper.as_ref().expect("it keeps").keeping.prefix(keys);
        place.tiers.find(&prefix).tokens()
    };
    assert_eq!(keeping(&place), 0, "29 s are not idle");
    place.rest(1);
    assert_eq!(keeping(&place), 600, "30 s are");
}

#[derive(Clone, Debug)]
enum Act {
    Step(Step),
    Rest(u64),
    Reload,
    Drop,
}

fn act() -> impl Strategy<Value = Act> {
    prop_oneof![
        12 => step().prop_map(Act::Step),
        2 => (1u64..40).prop_map(Act::Rest),
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
        acts in proptest::collection::vec(act(), 1..80),
    ) {
        let mut place = Place::new(budget_pages, ram_chunks * 4 * layout().page_bytes as u64);
        for act in acts {
            let open = place.world.open.len();
            match act {
                Act::Step(Step::Open { chat, len }) if open < 8 => {
                    // Longer than in the pool's own test, so that there are chunks.
                    let prompt: Vec<u32> = (0..len * 4).map(|i| chat_token(chat, i)).collect();
                    place.prompt(&prompt);
                }
                Act::Step(Step::Append { index, branch, len }) if index < open => {
                    let more: Vec<u32> = (0..len as u32).map(|i| 10_000 * branch + i).collect();
                    place.world.append(index, &more);
                }
                Act::Step(Step::Truncate { index, percent }) if index < open => {
                    let (seq, content) = &mut place.world.open[index];
                    content.truncate(content.len() * percent / 100);
                    place.world.cache.truncate(*seq, content.len());
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
                Act::Reload => place.reload(),
                Act::Drop => place.world.cache.clear(),
                Act::Step(_) => {}
            }
            place.world.check();
        }
    }
}
