//! Fault tests: a computing thread never waits for a failing tier, and gets the reason.

use super::fake::Fault;
use super::*;
use crate::tiers::{Health, StoreError};
use crate::{Miss, TierError};

/// A restarted daemon: the SSD tier has a sequence, and RAM is empty.
fn restarted(env: &TestEnv, prompt: &[Key]) -> Tiers {
    let tiers = env.open(env.config());
    env.store(&tiers, prompt, StoreReason::Idle);
    tiers.close(SOON);
    env.open(env.config())
}

#[test]
fn failed_chunk_ends_restore_with_its_reason() {
    let check = |fault: Fault, end: RestoreEnd, found_after: usize| {
        let env = TestEnv::new();
        let prompt = keys(10, 1024);
        let tiers = restarted(&env, &prompt);
        let coverage = env.find(&tiers, &prompt);
        let second = coverage.steps(0..1024)[1].id;
        env.ssd.fail_one(second, fault);
        let restoring = tiers.restore(&coverage, 0..1024, SOON);
        assert_eq!(env.drain(restoring, &prompt), (256, vec![TierKind::Ssd], end), "{fault:?} on the second chunk");
        assert_eq!(env.find(&tiers, &prompt).tokens(), found_after, "tokens found after {fault:?}");
    };
    check(Fault::Lose, RestoreEnd::Missed(Miss::Absent), 256);
    check(Fault::Damage, RestoreEnd::Missed(Miss::Damaged("injected fault")), 256);
    check(Fault::Mix, RestoreEnd::Missed(Miss::Mismatch("the chunk has another id")), 256);
    check(Fault::Fail, RestoreEnd::Missed(Miss::Tier(TierError::Failed("injected fault".to_owned()))), 1024);
}

#[test]
fn hanging_tier_blocks_no_reader() {
    let env = TestEnv::new();
    let prompt = keys(10, 1024);
    let tiers = restarted(&env, &prompt);
    env.ssd.set_faults(|call| if call == "scan" { Fault::None } else { Fault::Hang });
    let coverage = env.find(&tiers, &prompt);
    for round in 0..3 {
        let mut restoring = tiers.restore(&coverage, 0..1024, Duration::from_millis(200));
        std::thread::sleep(Duration::from_millis(30));
        assert!(matches!(restoring.try_next(), RestorePoll::Pending), "round {round}: the tier hangs");
        env.clock.pass(Duration::from_millis(201));
        assert!(
            matches!(restoring.try_next(), RestorePoll::Ended(RestoreEnd::Deadline)),
            "round {round}: the deadline ends the restore"
        );
        assert!(
            matches!(restoring.try_next(), RestorePoll::Ended(RestoreEnd::Deadline)),
            "round {round}: the end stays the same"
        );
    }
    assert_eq!(env.find(&tiers, &prompt).tokens(), 0, "an unavailable tier is not used");
    assert_eq!(tiers.status().tiers[1].health, Health::Unavailable, "the health is reported");
    let chunk = env.model.chunks(&keys(70_000, 256)).remove(0);
    assert_eq!(offer(&tiers, chunk, StoreReason::Idle, None), Ok(StoreOutcome::Stored), "RAM still works");
    let began = std::time::Instant::now();
    drop(tiers);
    assert!(began.elapsed() < SOON, "the shutdown does not wait: {:?}", began.elapsed());
    env.ssd.release();
}

#[test]
fn full_disk_is_not_written_for_a_minute() {
    let env = TestEnv::new();
    let tiers = env.open(env.config());
    env.ssd.set_faults(|call| if call == "save" { Fault::Full } else { Fault::None });
    env.store(&tiers, &keys(1, 1024), StoreReason::Idle);
    assert!(tiers.wait_idle(SOON), "the write queue is dropped");
    let status = tiers.status();
    assert_eq!(status.tiers[1].health, Health::ReadOnly, "the health is reported");
    assert!(status.dropped.failed > 0, "dropped chunks are counted");
    env.ssd.set_faults(|_| Fault::None);
    env.store(&tiers, &keys(1, 1024), StoreReason::Idle);
    assert!(tiers.wait_idle(SOON), "the write queue is empty");
    assert_eq!(env.ssd.len(), 0, "the disk is not retried yet");
    env.clock.pass(Duration::from_secs(61));
    env.store(&tiers, &keys(1, 1024), StoreReason::Idle);
    assert!(tiers.wait_idle(SOON), "the chunks are written");
    assert_eq!(env.ssd.len(), 4, "the disk is retried after a minute");
}

#[test]
fn repeated_damage_makes_tier_read_only() {
    let env = TestEnv::new();
    let prompts: Vec<_> = (0..3).map(|prompt| keys(10_000 * prompt, 600)).collect();
    let tiers = env.open(env.config());
    prompts.iter().for_each(|prompt| env.store(&tiers, prompt, StoreReason::Idle));
    tiers.close(SOON);
    let tiers = env.open(env.config());
    let other = keys(90_000, 1024);
    let events = tiers.events();
    env.ssd.set_faults(|call| if call == "load" { Fault::Damage } else { Fault::None });
    for prompt in &prompts {
        assert_eq!(tiers.status().tiers[1].health, Health::Up, "one or two damaged chunks are tolerated");
        // Request only the first chunk, since the others are read concurrently.
        assert_eq!(env.restore(&tiers, &prompt[..200]).0, 0, "damaged chunks are not used");
    }
    assert_eq!(tiers.status().tiers[1].health, Health::Suspect, "three damaged chunks are too many");
    assert!(
        events.try_iter().any(|event| event == crate::tiers::Event::Health(TierKind::Ssd, Health::Suspect)),
        "an event is emitted"
    );
    let before = env.ssd.len();
    env.store(&tiers, &other, StoreReason::Idle);
    assert!(tiers.wait_idle(SOON), "the write queue is empty");
    assert_eq!(env.ssd.len(), before, "nothing more is written there");
}

#[test]
fn chunks_are_rejected_after_shutdown() {
    let env = TestEnv::new();
    let tiers = env.open(env.config());
    let prompt = keys(10, 600);
    env.store(&tiers, &prompt, StoreReason::Evicted);
    assert_eq!(env.ssd.len(), 0, "a chunk used once, without owner, is not written");
    tiers.shut_down(SOON);
    assert_eq!(env.ssd.len(), 3, "the shutdown writes chunks that only RAM has");
    let chunk = env.model.chunks(&prompt).remove(0);
    assert_eq!(offer(&tiers, chunk, StoreReason::Idle, None), Err(StoreError::Closed), "the tiers are shut down");
}

#[test]
fn panicking_tier_counts_as_failing() {
    let env = TestEnv::new();
    let prompt = keys(10, 1024);
    let tiers = restarted(&env, &prompt);
    env.ssd.set_faults(|call| if call == "load" { Fault::Panic } else { Fault::None });
    let (tokens, _, end) = env.restore(&tiers, &prompt);
    assert_eq!(tokens, 0, "nothing was restored");
    assert!(matches!(end, RestoreEnd::Missed(Miss::Tier(_))), "the end has the reason: {end:?}");
    env.ssd.set_faults(|_| Fault::None);
    // A concurrent load may fail later and restart the retry interval.
    let began = std::time::Instant::now();
    let come_back = || {
        env.clock.pass(Duration::from_secs(61));
        env.restore(&tiers, &prompt).0
    };
    while come_back() < 1024 {
        assert!(began.elapsed() < SOON, "the reader threads survive");
    }
}

/// Polls until a chunk arrives or the restore ends.
fn next(restoring: &mut Restore) -> RestorePoll {
    let began = std::time::Instant::now();
    loop {
        match restoring.try_next() {
            RestorePoll::Pending if began.elapsed() < SOON => std::thread::sleep(Duration::from_millis(1)),
            next => return next,
        }
    }
}

#[test]
fn chunks_before_the_deadline_are_used() {
    let env = TestEnv::new();
    let prompt = keys(10, 1024);
    let tiers = restarted(&env, &prompt);
    let coverage = env.find(&tiers, &prompt);
    env.ssd.fail_one(coverage.steps(0..1024)[2].id, Fault::Hang);
    let mut restoring = tiers.restore(&coverage, 0..1024, Duration::from_secs(1));
    for chunk in 0..2 {
        assert!(matches!(next(&mut restoring), RestorePoll::Ready(_)), "chunk {chunk} arrives");
    }
    env.clock.pass(Duration::from_secs(2));
    let third = restoring.try_next();
    assert!(
        matches!(third, RestorePoll::Ended(RestoreEnd::Deadline)),
        "the third chunk misses the deadline: {third:?}"
    );
    assert_eq!(tiers.status().tiers[1].counters.failed, 1, "the failure is counted for the tier");
    env.ssd.release();
}

#[test]
fn slow_reader_does_not_count_as_tier_failure() {
    let env = TestEnv::new();
    let prompt = keys(10, 2560);
    let tiers = restarted(&env, &prompt);
    let coverage = env.find(&tiers, &prompt);
    env.ssd.set_faults(|call| if call == "load" { Fault::Slow(Duration::from_millis(10)) } else { Fault::None });
    let restoring = tiers.restore(&coverage, 0..2560, Duration::from_secs(1));
    // Longer than the tier takes to read ahead.
    std::thread::sleep(Duration::from_millis(300));
    env.clock.pass(Duration::from_secs(5));
    let came = env.drain(restoring, &prompt);
    assert_eq!(came, (2560, vec![TierKind::Ssd; 10], RestoreEnd::Complete), "the tier never caused a wait");
    assert_eq!(tiers.status().tiers[1].counters.failed, 0, "no failure is counted");
}
