//! Chunks that are written to the SSD soon after their use, so that they survive a crash, also on a busy machine.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use super::fake::Fault;
use super::*;
use crate::{LONG_RECOMPUTE, Owner};

/// Daily allowance of these tests.
const ALLOWANCE: u64 = 1 << 20;

impl TestEnv {
    /// Tiers that write only chunks that must survive a crash.
    fn open_sparing(&self) -> Tiers {
        self.open(Config { early_write_bytes: Some(ALLOWANCE), ..self.config() })
    }

    /// Waits until the SSD tier has this number of chunks. Fails after [`SOON`].
    fn await_chunks(&self, tiers: &Tiers, count: usize, why: &str) {
        let began = Instant::now();
        while tiers.status().tiers[1].chunks != count {
            assert!(began.elapsed() < SOON, "{why}: {} of {count} chunks", tiers.status().tiers[1].chunks);
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    /// Advances the clock until the writer looks for due chunks again, and waits for their writes.
    fn sweep(&self, tiers: &Tiers) {
        self.clock.pass(Duration::from_secs(2));
        tiers.check_clock();
        assert!(tiers.wait_idle(SOON), "all due chunks are written");
    }
}

/// Stores a sequence with chunks that take `recompute` each.
fn store_each(env: &TestEnv, tiers: &Tiers, keys: &[Key], reason: StoreReason, recompute: Duration) {
    for chunk in env.model.chunks(keys) {
        tiers.store(StoreRequest { chunk, reason, owner: None, recompute }).expect("the chunk is stored");
    }
}

#[test]
fn chunk_reused_before_ram_had_it_is_written() {
    let env = TestEnv::new();
    let tiers = env.open_sparing();
    env.store(&tiers, &keys(1, 1024), StoreReason::Reused);
    env.await_chunks(&tiers, 4, "the second use came before the first copy");
    env.store(&tiers, &keys(50_000, 1024), StoreReason::Idle);
    env.sweep(&tiers);
    assert_eq!(env.ssd.len(), 4, "a cheap prompt that was sent once is not written");
}

#[test]
fn prefix_that_takes_long_to_compute_is_written_after_its_first_use() {
    let env = TestEnv::new();
    let tiers = env.open_sparing();
    store_each(&env, &tiers, &keys(1, 1100), StoreReason::Idle, LONG_RECOMPUTE / 4);
    env.await_chunks(&tiers, 5, "the prefix takes long from its fourth chunk on");
    store_each(&env, &tiers, &keys(50_000, 700), StoreReason::Idle, LONG_RECOMPUTE / 4);
    env.sweep(&tiers);
    assert_eq!(env.ssd.len(), 5, "three chunks take less");
    store_each(&env, &tiers, &keys(90_000, 20), StoreReason::Idle, LONG_RECOMPUTE);
    env.await_chunks(&tiers, 6, "a short prompt of a slow model");
}

#[test]
fn prompts_sent_once_use_only_half_of_the_allowance() {
    let env = TestEnv::new();
    let tiers = env.open_sparing();
    let written = || env.ssd.written_bytes.load(Ordering::SeqCst);
    let send = |prompts: std::ops::Range<u32>, reason| {
        for prompt in prompts {
            store_each(&env, &tiers, &keys(1 + 1000 * prompt, 512), reason, LONG_RECOMPUTE);
            assert!(tiers.wait_idle(SOON), "all due chunks are written");
        }
        env.sweep(&tiers);
    };
    send(0..100, StoreReason::Idle);
    let once = written();
    assert!((ALLOWANCE * 4 / 10..=ALLOWANCE * 6 / 10).contains(&once), "{once} bytes for prompts that were sent once");
    send(100..200, StoreReason::Reused);
    let all = written();
    assert!((ALLOWANCE * 9 / 10..=ALLOWANCE * 11 / 10).contains(&all), "{all} bytes in all");
}

#[test]
fn chunk_with_a_later_owner_is_written() {
    let env = TestEnv::new();
    let tiers = env.open_sparing();
    env.store(&tiers, &keys(1, 700), StoreReason::Idle);
    env.sweep(&tiers);
    assert_eq!(env.ssd.len(), 0, "a cheap prompt that was sent once is not written");
    let last = tiers.stored_prefixes(1)[0].last;
    assert!(tiers.add_owner(&last, &Owner::new("chat:1").expect("the name is short")), "the chunk is stored");
    env.sweep(&tiers);
    env.await_chunks(&tiers, 3, "the chunks have an owner");
}

#[test]
fn chunk_whose_write_failed_is_written_later() {
    let env = TestEnv::new();
    let tiers = env.open_sparing();
    env.ssd.set_faults(|call| if call == "save" { Fault::Full } else { Fault::None });
    env.store(&tiers, &keys(1, 1024), StoreReason::Reused);
    assert!(tiers.wait_idle(SOON), "the write queue is dropped");
    env.ssd.set_faults(|_| Fault::None);
    env.clock.pass(Duration::from_secs(61));
    env.sweep(&tiers);
    env.await_chunks(&tiers, 4, "the chunks are due, though no use follows");
}

/// A thread with low priority that gets no CPU time looks like a save without progress.
#[test]
fn stalled_write_is_repeated_with_normal_priority() {
    for is_deleted in [false, true] {
        let env = TestEnv::new();
        let tiers = env.open_sparing();
        let _answer = tiers.begin_generation();
        let is_first = AtomicBool::new(true);
        env.ssd.set_faults(move |call| {
            if call == "save" && is_first.swap(false, Ordering::SeqCst) { Fault::Hang } else { Fault::None }
        });
        env.store(&tiers, &keys(1, 1024), StoreReason::Reused);
        let began = Instant::now();
        while tiers.status().tiers[1].chunks < 4 {
            assert!(began.elapsed() < SOON, "the first write does not block the others");
            env.clock.pass(Duration::from_secs(1));
            tiers.check_clock();
            std::thread::sleep(Duration::from_millis(5));
        }
        if is_deleted {
            assert_eq!(tiers.clear(SOON).pending, 0, "all chunks are removed");
        }
        let chunks = env.ssd.len();
        env.ssd.release();
        while env.ssd.abandoned.load(Ordering::SeqCst) == 0 {
            assert!(began.elapsed() < SOON, "the stalled write ends");
            std::thread::sleep(Duration::from_millis(1));
        }
        assert_eq!(env.ssd.len(), chunks, "it publishes nothing");
    }
}
