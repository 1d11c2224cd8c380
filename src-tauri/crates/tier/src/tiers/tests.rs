//! The tiers over places that tests make: fake ones that fail as they are told, and real folders.

mod bounded;
mod budgets;
mod churn;
mod deleted;
pub(crate) mod fake;
mod faults;
mod folder;
mod people;
mod remote;
mod rows;
mod windows;

use std::sync::Arc;
use std::time::Duration;

use self::fake::{FakePlace, HandClock, Toy, keys};
use super::{Config, End, Kept, Lower, Next, Offer, Restoring, StoreWhy, Tiers};
use crate::{Chunk, ChunkHead, Coverage, Group, Groups, Key, NumericClass, Place, Prefix};

/// Longer than any test waits for what must happen.
const SOON: Duration = Duration::from_secs(10);

/// A daemon over a place that outlives it.
struct Bench {
    clock: Arc<HandClock>,
    ssd: Arc<FakePlace>,
    toy: Toy,
}

impl Bench {
    fn new() -> Self {
        Self { clock: Arc::default(), ssd: FakePlace::new(Place::Ssd), toy: Toy::new() }
    }

    fn config(&self) -> Config {
        let tier: Arc<dyn crate::Tier> = Arc::clone(&self.ssd) as _;
        Config { ssd: Some(Lower::new(tier, 64 << 20)), min_recompute: Duration::ZERO, ..Config::new(8 << 20) }
    }

    fn open(&self, config: Config) -> Tiers {
        let clock: Arc<dyn crate::Clock> = Arc::clone(&self.clock) as _;
        let tiers = Tiers::open(config, clock).expect("threads are to be had");
        assert!(tiers.settle(SOON), "an idle place is scanned at once");
        tiers
    }

    /// Stores a sequence as one that is idle.
    fn store(&self, tiers: &Tiers, keys: &[Key], why: StoreWhy) {
        for chunk in self.toy.chunks(keys) {
            offer(tiers, chunk, why, None).expect("there is room");
        }
    }

    fn find(&self, tiers: &Tiers, keys: &[Key]) -> Coverage {
        tiers.find(&self.toy.prefix(keys))
    }

    /// Restores all that is found, checks every row, and returns how many tokens came and from where.
    fn restore(&self, tiers: &Tiers, keys: &[Key]) -> (usize, Vec<Place>, End) {
        let coverage = self.find(tiers, keys);
        let restoring = tiers.restore(&coverage, 0..coverage.tokens(), SOON);
        self.drain(restoring, keys)
    }

    fn drain(&self, mut restoring: Restoring, keys: &[Key]) -> (usize, Vec<Place>, End) {
        let (mut tokens, mut places) = (0, Vec::new());
        loop {
            match restoring.try_next() {
                Next::Ready(restored) => {
                    let first = restored.head().first_position as usize;
                    let rows = restored.rows();
                    assert_eq!(restored.head().keys[..rows], keys[first..first + rows], "rows of the tokens asked for");
                    let known = [&keys[..first], &restored.head().keys].concat();
                    let expected = self.toy.rows(&known, restored.head().id.group);
                    assert_eq!(restored.payload(), &expected[..], "the rows that these tokens have");
                    if restored.head().id.group == crate::Group::Full {
                        assert_eq!(first, tokens, "chunks come in order, each once");
                        tokens += rows;
                    }
                    places.push(restored.place());
                }
                Next::Waiting => std::thread::sleep(Duration::from_millis(1)),
                Next::Ended(end) => return (tokens, places, end),
            }
        }
    }
}

fn offer(tiers: &Tiers, chunk: Chunk, why: StoreWhy, owner: Option<&str>) -> Result<Kept, super::Refused> {
    let owner = owner.map(|name| crate::Owner::new(name).expect("a short name"));
    tiers.store(Offer { chunk, why, owner, recompute: Duration::ZERO })
}

#[test]
fn what_was_stored_is_found_after_a_restart_and_comes_back_whole() {
    let bench = Bench::new();
    let prompt = keys(10, 1100);
    let tiers = bench.open(bench.config());
    bench.store(&tiers, &prompt, StoreWhy::Idle);
    assert_eq!(
        bench.restore(&tiers, &prompt),
        (1100, vec![Place::Ram; 5], End::Complete),
        "what was just stored is in RAM"
    );
    tiers.close(SOON);
    assert_eq!(bench.ssd.len(), 5, "all of it was written");

    let tiers = bench.open(bench.config());
    assert_eq!(bench.find(&tiers, &prompt).tokens(), 1100, "store, restart, probe finds everything");
    assert_eq!(bench.restore(&tiers, &prompt), (1100, vec![Place::Ssd; 5], End::Complete), "from the disk");
    assert_eq!(bench.restore(&tiers, &prompt).0, 1100, "again");
    assert_eq!(bench.restore(&tiers, &prompt).1, vec![Place::Ram; 5], "what is used twice moves up");
}

#[test]
fn a_request_that_goes_on_differently_uses_the_rows_before() {
    let bench = Bench::new();
    let stored = keys(10, 700);
    let tiers = bench.open(bench.config());
    bench.store(&tiers, &stored, StoreWhy::Idle);
    for diverges in [1, 255, 256, 257, 300, 512, 513, 650, 699] {
        let mut asked = stored.clone();
        asked.truncate(diverges);
        asked.extend(keys(50_000, 400));
        assert_eq!(bench.find(&tiers, &asked).tokens(), diverges, "diverges at {diverges}");
        assert_eq!(bench.restore(&tiers, &asked).0, diverges, "diverges at {diverges}");
    }
    assert_eq!(bench.find(&tiers, &keys(11, 700)).tokens(), 0, "nothing in common");
    assert_eq!(bench.find(&tiers, &stored[..100]).tokens(), 100, "a beginning of a chunk");
}

#[test]
fn a_window_needs_only_its_last_chunks() {
    let mut bench = Bench::new();
    bench.toy.groups = Groups { full: true, window_tokens: Some(300) };
    let prompt = keys(10, 2000);
    let check = |stored: &dyn Fn(&ChunkHead) -> bool, tokens: usize, why: &str| {
        let tiers = bench.open(bench.config());
        for chunk in bench.toy.chunks(&prompt).into_iter().filter(|chunk| stored(&chunk.head)) {
            offer(&tiers, chunk, StoreWhy::Evicted, None).expect("there is room");
        }
        assert_eq!(bench.find(&tiers, &prompt).tokens(), tokens, "{why}");
        let (restored, places, end) = bench.restore(&tiers, &prompt);
        assert_eq!((restored, end), (tokens, End::Complete), "{why}");
        let windows = places.len() - tokens.div_ceil(256);
        assert!(windows <= 3, "{why}: {windows} chunks of a window of 300 tokens");
        tiers.clear(SOON);
    };
    let window = |head: &ChunkHead| head.id.group == Group::Window;
    check(&|_| true, 2000, "all is there");
    check(&|head| !window(head) || head.first_position >= 1536, 2000, "the end of the window is there");
    check(&|head| !window(head) || (768..1792).contains(&head.first_position), 1792, "the window ends before");
    check(&|head| !window(head) || head.first_position < 768, 768, "the window is there at the beginning only");
    check(&|head| !window(head), 0, "no window, no use");
    check(&|head| window(head) || head.first_position < 1024, 1024, "the rest ends before");
    check(&|head| !window(head) || ![768, 1024].contains(&head.first_position), 2000, "a hole that nobody sees");
    check(&|head| !window(head) || ![1536].contains(&head.first_position), 1536, "a hole at the end");
}

#[test]
fn a_shorter_prefix_is_restored_where_that_is_asked_for() {
    let bench = Bench::new();
    let prompt = keys(10, 1000);
    let tiers = bench.open(bench.config());
    bench.store(&tiers, &prompt, StoreWhy::Idle);
    let coverage = bench.find(&tiers, &prompt);
    assert_eq!(coverage.longest(700), 700, "any prefix will do");
    let steps = coverage.steps(300..700);
    let part: Vec<_> = steps.iter().map(|step| (step.first_position, step.rows)).collect();
    assert_eq!(part, [(256, 256), (512, 188)], "what the caller has is not read again");
}

#[test]
fn rows_of_another_arithmetic_are_not_used_and_give_way() {
    let mut bench = Bench::new();
    let prompt = keys(10, 600);
    let tiers = bench.open(bench.config());
    bench.store(&tiers, &prompt, StoreWhy::Idle);
    assert!(tiers.settle(SOON), "it is written");
    bench.toy.class = NumericClass::new("gpu/wgpu/1").expect("short");
    assert_eq!(bench.find(&tiers, &prompt).tokens(), 0, "another arithmetic's rows are of no use");
    let any = Prefix { class: None, ..bench.toy.prefix(&prompt) };
    assert_eq!(tiers.find(&any).tokens(), 600, "but to those who take any");
    bench.store(&tiers, &prompt, StoreWhy::Idle);
    assert_eq!(bench.restore(&tiers, &prompt).0, 600, "the new rows took their place");
    assert!(tiers.settle(SOON), "it is written");
    tiers.close(SOON);
    let tiers = bench.open(bench.config());
    assert_eq!(bench.restore(&tiers, &prompt).0, 600, "below too");
}

#[test]
fn offers_that_contradict_themselves_are_refused() {
    let bench = Bench::new();
    let tiers = bench.open(bench.config());
    let check = |change: &dyn Fn(&mut ChunkHead), why: &str| {
        let chunk = bench.toy.chunks(&keys(10, 300)).remove(1);
        let mut head = ChunkHead::clone(&chunk.head);
        change(&mut head);
        let refused = offer(&tiers, Chunk { head: Arc::new(head), ..chunk }, StoreWhy::Idle, None);
        assert!(matches!(refused, Err(super::Refused::Malformed(_))), "{why}: {refused:?}");
    };
    check(&|head| head.first_position = 100, "between two chunks");
    check(&|head| head.flags.tail = false, "not whole, and not a tail");
    check(&|head| head.keys = Arc::new([]), "no tokens");
    check(&|head| head.sections = Arc::new([]), "rows without a section");
}
