//! Stress test with all operations and faults at once: no wrong row, no exceeded budget, no deadlock.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;

use cairn_testkit::random::Random;

use super::fake::{Fault, WallClock};
use super::*;
use crate::tiers::{FLUSH, TierStatus};

const THREADS: u64 = 4;
const TURNS: u64 = 1500;
/// Time limit for the required number of restores and evictions.
const PATIENCE: Duration = Duration::from_secs(300);
const RAM_BYTES: u64 = 80 << 10;
const SSD_BYTES: u64 = 600 << 10;

/// Sequences that share prefixes of odd lengths.
fn sequences() -> Vec<Vec<Key>> {
    let mut random = Random::new(3);
    let mut all = vec![Vec::new()];
    for depth in 0..4 {
        let mut longer = Vec::new();
        for before in &all {
            for branch in 0..3 {
                let first = 1000 * (1 + depth * 3 + branch) + 100_000 * (before.len() as u32 % 7);
                longer.push([before.clone(), keys(first, 60 + random.below(400) as usize)].concat());
            }
        }
        all = longer;
    }
    all
}

#[test]
fn concurrent_operations_with_faults_keep_rows_and_budgets() {
    let env = TestEnv::new();
    let random = parking_lot::Mutex::new(Random::new(11));
    let calm = Arc::new(AtomicBool::new(false));
    let quiet = Arc::clone(&calm);
    env.ssd.set_faults(move |call| {
        if quiet.load(Ordering::Relaxed) {
            return Fault::None;
        }
        match (call, random.lock().below(150)) {
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
    let mut config = env.config();
    config.ram_bytes = RAM_BYTES;
    config.queue_bytes = RAM_BYTES / 4;
    let tier: Arc<dyn crate::Tier> = Arc::clone(&env.ssd) as _;
    config.ssd = Some(LowerTier { rescan_interval: Some(Duration::from_secs(20)), ..LowerTier::new(tier, SSD_BYTES) });
    let tiers = Tiers::open(config, clock).expect("threads can be created");
    let sequences = sequences();
    let restored = AtomicU64::new(0);
    let over = AtomicU64::new(0);
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let (tiers, sequences, env, restored, over) = (&tiers, &sequences, &env, &restored, &over);
            scope.spawn(move || {
                let mut random = Random::new(100 + thread);
                let (began, mut turns, mut tried) = (Instant::now(), 0, false);
                while turns < TURNS || !(tried || began.elapsed() > PATIENCE) {
                    turns += 1;
                    if turns > TURNS {
                        // On a busy machine the reader and writer threads need a pause to run.
                        std::thread::sleep(Duration::from_millis(2));
                    }
                    let sequence = &sequences[random.below(sequences.len() as u64) as usize];
                    restored.fetch_add(turn(tiers, env, sequence, &mut random), Ordering::Relaxed);
                    let places = tiers.status().tiers;
                    for tier in &places {
                        over.fetch_max(tier.used_bytes.saturating_sub(tier.budget_bytes), Ordering::Relaxed);
                    }
                    tried = are_tried(&places);
                }
            });
        }
    });
    assert_eq!(over.load(Ordering::Relaxed), 0, "no reported size exceeds its budget");
    let most = env.ssd.most_bytes.load(Ordering::Relaxed);
    assert!(most <= SSD_BYTES, "the tier never exceeded its budget: {most}");
    let places = tiers.status().tiers;
    assert!(are_tried(&places), "enough was restored and evicted: {places:#?}");
    assert!(restored.load(Ordering::Relaxed) > 0, "some tokens were restored");
    calm.store(true, Ordering::Relaxed);
    // In the test's time, longer than all retry intervals and the scan interval.
    std::thread::sleep(Duration::from_millis(150));
    assert!(tiers.wait_idle(SOON), "all calls end");
    // The writer continues with chunks that are due. Between two of them, the report is right.
    let deadline = Instant::now() + SOON;
    loop {
        let ssd = tiers.status().tiers.remove(1);
        if (ssd.used_bytes, ssd.chunks) == (env.ssd.bytes(), env.ssd.len()) {
            break;
        }
        assert!(Instant::now() < deadline, "{} bytes, {} chunks: {ssd:?}", env.ssd.bytes(), env.ssd.len());
        std::thread::sleep(Duration::from_millis(1));
    }
    let began = Instant::now();
    drop(tiers);
    assert!(began.elapsed() < FLUSH + Duration::from_millis(500), "the shutdown took {:?}", began.elapsed());
}

/// Returns whether enough was restored and evicted in each tier.
fn are_tried(places: &[TierStatus]) -> bool {
    let enough =
        |(tier, least): (&TierStatus, u64)| tier.counters.hit_tokens > least && tier.counters.evicted_chunks > 0;
    places.iter().zip([100_000, 10_000]).all(enough)
}

/// A clock that runs 1000 times as fast, so that retry intervals end within the test.
struct FastClock(Instant);

impl crate::Clock for FastClock {
    fn now(&self) -> Duration {
        WallClock(self.0).now() * 1000
    }

    fn unix_s(&self) -> u64 {
        WallClock(self.0).unix_s()
    }
}

/// Performs a random operation and returns the number of restored tokens.
fn turn(tiers: &Tiers, env: &TestEnv, sequence: &[Key], random: &mut Random) -> u64 {
    let owner = ["ann", "bob", "cy"][random.below(3) as usize];
    match random.below(100) {
        0..40 => {
            let reasons = [StoreReason::Idle, StoreReason::Reused, StoreReason::Evicted, StoreReason::Unload];
            let why = reasons[random.below(4) as usize];
            let owner = (random.below(2) == 0).then_some(owner);
            for chunk in env.model.chunks(sequence) {
                if offer(tiers, chunk, why, owner).is_err() {
                    break;
                }
            }
            0
        }
        40..85 => {
            let mut requested = sequence[..1 + random.below(sequence.len() as u64) as usize].to_vec();
            requested.extend(keys(900_000, random.below(300) as usize));
            let coverage = env.find(tiers, &requested);
            let end = coverage.longest_prefix(1 + random.below(requested.len() as u64) as usize);
            // 20 ms in the test's time.
            let restoring = tiers.restore(&coverage, 0..end, Duration::from_secs(20));
            if random.below(4) == 0 {
                return 0;
            }
            let (tokens, _, ended) = env.drain(restoring, &requested);
            assert!(
                tokens == end || ended != RestoreEnd::Complete,
                "a complete restore has {end} tokens, not {tokens}"
            );
            tokens as u64
        }
        85..90 => {
            tiers.touch(&env.find(tiers, sequence));
            0
        }
        90..94 => {
            if let Some(context) = tiers.stored_prefixes(20).into_iter().nth(random.below(20) as usize) {
                let _ = tiers.set_pinned(&context.last, random.below(3) == 0);
            }
            0
        }
        94..96 => {
            if let Some(context) = tiers.stored_prefixes(20).into_iter().nth(random.below(20) as usize) {
                tiers.forget(&context.last, Duration::from_millis(5));
            }
            0
        }
        96..98 => {
            tiers.forget_owner(&crate::Owner::new(owner).expect("the name is short"), Duration::from_millis(5));
            0
        }
        98 if random.below(8) == 0 => {
            tiers.clear(Duration::from_millis(50));
            0
        }
        _ => {
            drop(tiers.trace(&env.model.prefix(sequence)));
            0
        }
    }
}
