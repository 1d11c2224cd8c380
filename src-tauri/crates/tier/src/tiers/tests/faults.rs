//! A place that fails: who computes never waits for it, and learns why nothing comes.

use super::fake::Fault;
use super::*;
use crate::tiers::{Health, Refused};
use crate::{Miss, TierError};

/// A daemon whose place has a sequence, and RAM nothing.
fn restarted(bench: &Bench, prompt: &[Key]) -> Tiers {
    let tiers = bench.open(bench.config());
    bench.store(&tiers, prompt, StoreWhy::Idle);
    tiers.close(SOON);
    bench.open(bench.config())
}

#[test]
fn a_hole_ends_a_restore_with_its_reason() {
    let check = |fault: Fault, end: End, found_after: usize| {
        let bench = Bench::new();
        let prompt = keys(10, 1024);
        let tiers = restarted(&bench, &prompt);
        let coverage = bench.find(&tiers, &prompt);
        let second = coverage.steps(0..1024)[1].id;
        bench.ssd.fail_one(second, fault);
        let restoring = tiers.restore(&coverage, 0..1024, SOON);
        assert_eq!(bench.drain(restoring, &prompt), (256, vec![Place::Ssd], end), "{fault:?} on the second chunk");
        assert_eq!(bench.find(&tiers, &prompt).tokens(), found_after, "what is known after {fault:?}");
    };
    check(Fault::Lose, End::Missed(Miss::Absent), 256);
    check(Fault::Damage, End::Missed(Miss::Damaged("told to")), 256);
    check(Fault::Mix, End::Missed(Miss::Other("it is another chunk")), 256);
    check(Fault::Fail, End::Missed(Miss::Tier(TierError::Failed("told to".to_owned()))), 1024);
}

#[test]
fn a_place_that_hangs_holds_nobody_up() {
    let bench = Bench::new();
    let prompt = keys(10, 1024);
    let tiers = restarted(&bench, &prompt);
    bench.ssd.set_faults(|call| if call == "scan" { Fault::None } else { Fault::Hang });
    let coverage = bench.find(&tiers, &prompt);
    for round in 0..3 {
        let mut restoring = tiers.restore(&coverage, 0..1024, Duration::from_millis(200));
        std::thread::sleep(Duration::from_millis(30));
        assert!(matches!(restoring.try_next(), Next::Waiting), "round {round}: it hangs");
        bench.clock.pass(Duration::from_millis(201));
        assert!(matches!(restoring.try_next(), Next::Ended(End::Deadline)), "round {round}: the deadline ends it");
        assert!(matches!(restoring.try_next(), Next::Ended(End::Deadline)), "round {round}: and stays its end");
    }
    assert_eq!(bench.find(&tiers, &prompt).tokens(), 0, "a place that does not answer is not asked");
    assert_eq!(tiers.status().places[1].health, Health::Away, "and that is told");
    let chunk = bench.toy.chunks(&keys(70_000, 256)).remove(0);
    assert_eq!(offer(&tiers, chunk, StoreWhy::Idle, None), Ok(Kept::New), "RAM works on");
    let began = std::time::Instant::now();
    drop(tiers);
    assert!(began.elapsed() < SOON, "the end waits for nobody: {:?}", began.elapsed());
    bench.ssd.release();
}

#[test]
fn a_full_disk_is_left_alone_for_a_minute() {
    let bench = Bench::new();
    let tiers = bench.open(bench.config());
    bench.ssd.set_faults(|call| if call == "save" { Fault::Full } else { Fault::None });
    bench.store(&tiers, &keys(1, 1024), StoreWhy::Idle);
    assert!(tiers.settle(SOON), "the queue is given up");
    let status = tiers.status();
    assert_eq!(status.places[1].health, Health::ReadOnly, "it says so");
    assert!(status.dropped.failed > 0, "and counts what was not written");
    bench.ssd.set_faults(|_| Fault::None);
    bench.store(&tiers, &keys(1, 1024), StoreWhy::Idle);
    assert!(tiers.settle(SOON), "nothing waits");
    assert_eq!(bench.ssd.len(), 0, "not yet");
    bench.clock.pass(Duration::from_secs(61));
    bench.store(&tiers, &keys(1, 1024), StoreWhy::Idle);
    assert!(tiers.settle(SOON), "it is written");
    assert_eq!(bench.ssd.len(), 4, "after a minute it is tried again");
}

#[test]
fn damage_upon_damage_makes_a_place_read_only() {
    let bench = Bench::new();
    let prompts: Vec<_> = (0..3).map(|prompt| keys(10_000 * prompt, 600)).collect();
    let tiers = bench.open(bench.config());
    prompts.iter().for_each(|prompt| bench.store(&tiers, prompt, StoreWhy::Idle));
    tiers.close(SOON);
    let tiers = bench.open(bench.config());
    let other = keys(90_000, 1024);
    let events = tiers.events();
    bench.ssd.set_faults(|call| if call == "load" { Fault::Damage } else { Fault::None });
    for prompt in &prompts {
        assert_eq!(tiers.status().places[1].health, Health::Up, "one or two are chance");
        // Only the first chunk is asked for, since others are read at the same time.
        assert_eq!(bench.restore(&tiers, &prompt[..200]).0, 0, "what is damaged is not used");
    }
    assert_eq!(tiers.status().places[1].health, Health::Suspect, "three are too many");
    assert!(
        events.try_iter().any(|event| event == crate::tiers::Event::Health(Place::Ssd, Health::Suspect)),
        "people are told"
    );
    let before = bench.ssd.len();
    bench.store(&tiers, &other, StoreWhy::Idle);
    assert!(tiers.settle(SOON), "nothing waits");
    assert_eq!(bench.ssd.len(), before, "nothing more is written there");
}

#[test]
fn after_the_end_nothing_is_taken() {
    let bench = Bench::new();
    let tiers = bench.open(bench.config());
    let prompt = keys(10, 600);
    bench.store(&tiers, &prompt, StoreWhy::Evicted);
    assert_eq!(bench.ssd.len(), 0, "used once, and nobody's: not written");
    tiers.shut_down(SOON);
    assert_eq!(bench.ssd.len(), 3, "the end writes what is only in RAM");
    let chunk = bench.toy.chunks(&prompt).remove(0);
    assert_eq!(offer(&tiers, chunk, StoreWhy::Idle, None), Err(Refused::Closed), "too late");
}

#[test]
fn a_place_that_panics_is_a_place_that_fails() {
    let bench = Bench::new();
    let prompt = keys(10, 1024);
    let tiers = restarted(&bench, &prompt);
    bench.ssd.set_faults(|call| if call == "load" { Fault::Panic } else { Fault::None });
    let (tokens, _, end) = bench.restore(&tiers, &prompt);
    assert_eq!(tokens, 0, "nothing came");
    assert!(matches!(end, End::Missed(Miss::Tier(_))), "and that is its end: {end:?}");
    bench.ssd.set_faults(|_| Fault::None);
    // A load that was under way beside the first may fail late, and the place's minute begins anew.
    let began = std::time::Instant::now();
    let come_back = || {
        bench.clock.pass(Duration::from_secs(61));
        bench.restore(&tiers, &prompt).0
    };
    while come_back() < 1024 {
        assert!(began.elapsed() < SOON, "its threads live on");
    }
}

/// Polls until something has come, or the restore has ended.
fn next(restoring: &mut Restoring) -> Next {
    let began = std::time::Instant::now();
    loop {
        match restoring.try_next() {
            Next::Waiting if began.elapsed() < SOON => std::thread::sleep(Duration::from_millis(1)),
            next => return next,
        }
    }
}

#[test]
fn what_came_before_the_deadline_is_used() {
    let bench = Bench::new();
    let prompt = keys(10, 1024);
    let tiers = restarted(&bench, &prompt);
    let coverage = bench.find(&tiers, &prompt);
    bench.ssd.fail_one(coverage.steps(0..1024)[2].id, Fault::Hang);
    let mut restoring = tiers.restore(&coverage, 0..1024, Duration::from_secs(1));
    for chunk in 0..2 {
        assert!(matches!(next(&mut restoring), Next::Ready(_)), "chunk {chunk} comes");
    }
    bench.clock.pass(Duration::from_secs(2));
    let third = restoring.try_next();
    assert!(matches!(third, Next::Ended(End::Deadline)), "the third does not, and the fourth is not asked: {third:?}");
    assert_eq!(tiers.status().places[1].flow.failed, 1, "the place is to blame");
    bench.ssd.release();
}

#[test]
fn a_reader_who_is_slow_is_not_the_places_fault() {
    let bench = Bench::new();
    let prompt = keys(10, 2560);
    let tiers = restarted(&bench, &prompt);
    let coverage = bench.find(&tiers, &prompt);
    bench.ssd.set_faults(|call| if call == "load" { Fault::Slow(Duration::from_millis(10)) } else { Fault::None });
    let restoring = tiers.restore(&coverage, 0..2560, Duration::from_secs(1));
    // Longer than the place takes for the few chunks that it may read ahead.
    std::thread::sleep(Duration::from_millis(300));
    bench.clock.pass(Duration::from_secs(5));
    let came = bench.drain(restoring, &prompt);
    assert_eq!(came, (2560, vec![Place::Ssd; 10], End::Complete), "the place was never waited for that long");
    assert_eq!(tiers.status().places[1].flow.failed, 0, "nobody is to blame");
}
