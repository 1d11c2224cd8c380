//! Everything at once, over a place that fails, is slow, loses and mixes up: never a wrong row, never over budget, never stuck.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;

use super::fake::{Dice, Fault, WallClock};
use super::*;
use crate::tiers::{FLUSH, PlaceStatus};

const THREADS: u64 = 4;
const TURNS: u64 = 1500;
/// How long enough may take to happen.
const PATIENCE: Duration = Duration::from_secs(300);
const RAM_BYTES: u64 = 80 << 10;
const SSD_BYTES: u64 = 600 << 10;

/// Sequences that share prefixes of odd lengths.
fn sequences() -> Vec<Vec<Key>> {
    let mut dice = Dice(3);
    let mut all = vec![Vec::new()];
    for depth in 0..4 {
        let mut longer = Vec::new();
        for before in &all {
            for branch in 0..3 {
                let first = 1000 * (1 + depth * 3 + branch) + 100_000 * (before.len() as u32 % 7);
                longer.push([before.clone(), keys(first, 60 + dice.below(400) as usize)].concat());
            }
        }
        all = longer;
    }
    all
}

#[test]
fn no_wrong_row_no_full_place_and_no_deadlock_whatever_fails() {
    let bench = Bench::new();
    let dice = std::sync::Mutex::new(Dice(11));
    let calm = Arc::new(AtomicBool::new(false));
    let quiet = Arc::clone(&calm);
    bench.ssd.set_faults(move |call| {
        if quiet.load(Ordering::Relaxed) {
            return Fault::None;
        }
        match (call, dice.lock().unwrap().below(150)) {
            ("load", 0) => Fault::Lose,
            ("load", 1) => Fault::Mix,
            ("load", 2) => Fault::Fail,
            ("load" | "save", 3) => Fault::Slow(Duration::from_millis(40)),
            ("save", 4) => Fault::Full,
            ("remove", 5) => Fault::Fail,
            _ => Fault::None,
        }
    });
    let clock: Arc<FastClock> = Arc::new(FastClock(Instant::now()));
    let mut config = bench.config();
    config.ram_bytes = RAM_BYTES;
    config.queue_bytes = RAM_BYTES / 4;
    let tier: Arc<dyn crate::Tier> = Arc::clone(&bench.ssd) as _;
    config.ssd = Some(Lower { rescan: Some(Duration::from_secs(20)), ..Lower::new(tier, SSD_BYTES) });
    let tiers = Tiers::open(config, clock).expect("threads are to be had");
    let sequences = sequences();
    let restored = AtomicU64::new(0);
    let over = AtomicU64::new(0);
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let (tiers, sequences, bench, restored, over) = (&tiers, &sequences, &bench, &restored, &over);
            scope.spawn(move || {
                let mut dice = Dice(100 + thread);
                let (began, mut turns, mut tried) = (Instant::now(), 0, false);
                while turns < TURNS || !(tried || began.elapsed() > PATIENCE) {
                    turns += 1;
                    if turns > TURNS {
                        // Where the machine is busy, threads that read and write get a turn only when others leave them one.
                        std::thread::sleep(Duration::from_millis(2));
                    }
                    let sequence = &sequences[dice.below(sequences.len() as u64) as usize];
                    restored.fetch_add(turn(tiers, bench, sequence, &mut dice), Ordering::Relaxed);
                    let places = tiers.status().places;
                    for place in &places {
                        over.fetch_max(place.used_bytes.saturating_sub(place.budget_bytes), Ordering::Relaxed);
                    }
                    tried = are_tried(&places);
                }
            });
        }
    });
    assert_eq!(over.load(Ordering::Relaxed), 0, "no place is ever told to hold more than its budget");
    let most = bench.ssd.most_bytes.load(Ordering::Relaxed);
    assert!(most <= SSD_BYTES, "the place never held more than its budget: {most}");
    let places = tiers.status().places;
    assert!(are_tried(&places), "the test is about restores: {places:#?}");
    assert!(restored.load(Ordering::Relaxed) > 0, "something came back");
    calm.store(true, Ordering::Relaxed);
    // By the test's clock, more than all rests and the next scan.
    std::thread::sleep(Duration::from_millis(150));
    assert!(tiers.settle(SOON), "all calls end");
    let ssd = tiers.status().places.remove(1);
    assert_eq!(ssd.used_bytes, bench.ssd.bytes(), "what is told is what is there: {ssd:?}");
    assert_eq!(ssd.chunks, bench.ssd.len(), "what is told is what is there");
    let began = Instant::now();
    drop(tiers);
    assert!(began.elapsed() < FLUSH + Duration::from_millis(500), "the end takes {:?}", began.elapsed());
}

/// Whether enough has come back from each place, and left it.
fn are_tried(places: &[PlaceStatus]) -> bool {
    let enough = |(place, least): (&PlaceStatus, u64)| place.flow.hit_tokens > least && place.flow.evicted_chunks > 0;
    places.iter().zip([100_000, 10_000]).all(enough)
}

/// A clock on which a minute passes in a fraction of a second, so that rests end within the test.
struct FastClock(Instant);

impl crate::Clock for FastClock {
    fn now(&self) -> Duration {
        WallClock(self.0).now() * 1000
    }

    fn unix_s(&self) -> u64 {
        WallClock(self.0).unix_s()
    }
}

/// Does something, and returns how many tokens came back.
fn turn(tiers: &Tiers, bench: &Bench, sequence: &[Key], dice: &mut Dice) -> u64 {
    let owner = ["ann", "bob", "cy"][dice.below(3) as usize];
    match dice.below(100) {
        0..40 => {
            let whys = [StoreWhy::Idle, StoreWhy::Reused, StoreWhy::Evicted, StoreWhy::Unload];
            let why = whys[dice.below(4) as usize];
            let owner = (dice.below(2) == 0).then_some(owner);
            for chunk in bench.toy.chunks(sequence) {
                if offer(tiers, chunk, why, owner).is_err() {
                    break;
                }
            }
            0
        }
        40..85 => {
            let mut asked = sequence[..1 + dice.below(sequence.len() as u64) as usize].to_vec();
            asked.extend(keys(900_000, dice.below(300) as usize));
            let coverage = bench.find(tiers, &asked);
            let end = coverage.longest(1 + dice.below(asked.len() as u64) as usize);
            // In the test's time: 20 ms.
            let restoring = tiers.restore(&coverage, 0..end, Duration::from_secs(20));
            if dice.below(4) == 0 {
                return 0;
            }
            let (tokens, _, ended) = bench.drain(restoring, &asked);
            assert!(tokens == end || ended != End::Complete, "complete means {end} tokens, not {tokens}");
            tokens as u64
        }
        85..90 => {
            tiers.touch(&bench.find(tiers, sequence));
            0
        }
        90..94 => {
            if let Some(context) = tiers.contexts(20).into_iter().nth(dice.below(20) as usize) {
                let _ = tiers.pin(&context.last, dice.below(3) == 0);
            }
            0
        }
        94..96 => {
            if let Some(context) = tiers.contexts(20).into_iter().nth(dice.below(20) as usize) {
                tiers.forget(&context.last, Duration::from_millis(5));
            }
            0
        }
        96..98 => {
            tiers.forget_owner(&crate::Owner::new(owner).expect("short"), Duration::from_millis(5));
            0
        }
        98 if dice.below(8) == 0 => {
            tiers.clear(Duration::from_millis(50));
            0
        }
        _ => {
            drop(tiers.trace(&bench.toy.prefix(sequence)));
            0
        }
    }
}
