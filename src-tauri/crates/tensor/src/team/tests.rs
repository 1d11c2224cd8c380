//! Regions, barriers, sleep and panic, with as many threads as cores and with more.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use super::Team;
use super::share::Shared;

/// A team that is not pinned, since tests run beside each other.
fn team(threads: usize) -> Team {
    Team::new(threads, &[]).expect("a test may start threads")
}

/// Runs `regions` regions of `steps` steps. In each step every thread raises its own counter and then, behind a
/// barrier, checks all of them.
fn check(threads: usize, regions: usize, steps: usize) {
    let team = team(threads);
    let counters: Vec<AtomicUsize> = (0..threads).map(|_| AtomicUsize::new(0)).collect();
    for region in 0..regions {
        team.run(|worker| {
            assert_eq!(worker.threads(), threads, "every thread knows the team's size");
            for step in 0..steps {
                counters[worker.index()].fetch_add(1, Ordering::Relaxed);
                worker.barrier();
                for (index, counter) in counters.iter().enumerate() {
                    let seen = counter.load(Ordering::Relaxed);
                    assert_eq!(seen, region * steps + step + 1, "thread {index} of {threads} has come to the barrier");
                }
                worker.barrier();
            }
        });
        let sum: usize = counters.iter().map(|counter| counter.load(Ordering::Relaxed)).sum();
        assert_eq!(sum, threads * steps * (region + 1), "a region ends when all of its threads have");
    }
}

#[test]
fn barrier_waits_for_all_threads() {
    for threads in 1..=4 {
        check(threads, 50, 20);
    }
}

#[test]
fn team_completes_thousands_of_short_regions() {
    for threads in 1..=3 {
        check(threads, 2000, 0);
    }
}

/// Regions with all and with fewer threads follow each other, and threads that pause may be asleep.
#[test]
fn regions_with_fewer_threads_run_on_the_first_ones() {
    for threads in 1..=4 {
        let team = team(threads);
        let mut expected = vec![0; threads];
        let calls: Vec<AtomicUsize> = (0..threads).map(|_| AtomicUsize::new(0)).collect();
        for region in 0..400 {
            let active = 1 + region * 7 % threads;
            team.run_region(team.turn.lock(), active, &|worker| {
                assert_eq!(worker.threads(), active, "every thread knows the number of threads");
                calls[worker.index()].fetch_add(1, Ordering::Relaxed);
                worker.barrier();
                let sum: usize = calls[..active].iter().map(|calls| calls.load(Ordering::Relaxed)).sum();
                assert_eq!(
                    sum,
                    expected[..active].iter().sum::<usize>() + active,
                    "the barrier is for {active} threads"
                );
                worker.barrier();
            });
            expected[..active].iter_mut().for_each(|calls| *calls += 1);
            if region % 100 == 0 {
                thread::sleep(Duration::from_millis(10));
            }
        }
        let calls: Vec<_> = calls.iter().map(|calls| calls.load(Ordering::Relaxed)).collect();
        assert_eq!(calls, expected, "only the first threads are called");
    }
}

/// Other threads use the whole core of this team's second thread.
#[cfg(target_os = "linux")]
#[test]
fn short_steps_use_fewer_threads_while_other_threads_use_the_cores() {
    let cores = cairn_hardware::Machine::probe().cpu.usable_cores;
    let [first, second, ..] = cores[..] else { return };
    let team = Team::new(2, &[first, second]).expect("a test may start threads");
    let ended = AtomicBool::new(false);
    let (mut used, mut limited) = (0, false);
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                assert!(super::affinity::pin(second), "a thread may use its own cores");
                while !ended.load(Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
            });
        }
        let until = std::time::Instant::now() + Duration::from_secs(60);
        while !limited && std::time::Instant::now() < until {
            let threads = AtomicUsize::new(0);
            team.run_short(|worker| {
                threads.fetch_add(1, Ordering::Relaxed);
                assert!(worker.threads() <= 2);
            });
            used += 1;
            limited = threads.into_inner() == 1;
        }
        ended.store(true, Ordering::Relaxed);
    });
    assert!(limited, "one thread has a core for itself, but {used} steps had two threads");
}

#[test]
fn try_run_returns_false_while_another_region_runs() {
    for threads in 1..=3 {
        let team = team(threads);
        let calls = AtomicUsize::new(0);
        team.run(|worker| {
            let is_refused = thread::scope(|scope| {
                let refused = scope.spawn(|| !team.try_run(|_| _ = calls.fetch_add(1, Ordering::Relaxed)));
                refused.join().expect("no panic")
            });
            assert!(is_refused, "thread {} of {threads} is in the region", worker.index());
        });
        assert_eq!(calls.load(Ordering::Relaxed), 0, "no thread was called");
        assert!(team.try_run(|_| _ = calls.fetch_add(1, Ordering::Relaxed)), "the region has ended");
        assert_eq!(calls.load(Ordering::Relaxed), threads, "every thread was called");
    }
}

#[test]
fn sleeping_team_is_woken_by_a_region() {
    let team = team(3);
    let calls = AtomicUsize::new(0);
    for _ in 0..3 {
        team.run(|worker| {
            // The others exhaust their spins and yields at the barrier and go to sleep there.
            if worker.index() == 1 {
                thread::sleep(Duration::from_millis(20));
            }
            worker.barrier();
            calls.fetch_add(1, Ordering::Relaxed);
        });
        // All workers go to sleep between regions.
        thread::sleep(Duration::from_millis(20));
    }
    assert_eq!(calls.load(Ordering::Relaxed), 9, "every thread woke for every region");
}

#[test]
fn panic_reaches_the_caller_and_leaves_the_team_usable() {
    for threads in 1..=4 {
        let team = team(threads);
        for culprit in 0..threads {
            let passed = AtomicUsize::new(0);
            let region = catch_unwind(AssertUnwindSafe(|| {
                team.run(|worker| {
                    worker.barrier();
                    if worker.index() == culprit {
                        panic!("thread {culprit} fails on purpose");
                    }
                    worker.barrier();
                    passed.fetch_add(1, Ordering::Relaxed);
                });
            }));
            let payload = region.expect_err("the panic is handed on");
            let text = payload.downcast_ref::<String>().expect("with its own text");
            assert_eq!(*text, format!("thread {culprit} fails on purpose"), "and not that of a released thread");
            assert_eq!(passed.load(Ordering::Relaxed), 0, "no thread passes a barrier that another did not reach");
            let after = AtomicUsize::new(0);
            team.run(|worker| {
                worker.barrier();
                after.fetch_add(1, Ordering::Relaxed);
            });
            assert_eq!(after.load(Ordering::Relaxed), threads, "the next region is whole");
        }
    }
}

#[test]
fn regions_of_several_callers_run_one_after_another() {
    let team = Arc::new(team(2));
    let inside = AtomicUsize::new(0);
    thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                for _ in 0..100 {
                    team.run(|worker| {
                        inside.fetch_add(1, Ordering::Relaxed);
                        worker.barrier();
                        assert_eq!(inside.load(Ordering::Relaxed), 2, "no two regions run at once");
                        worker.barrier();
                        inside.fetch_sub(1, Ordering::Relaxed);
                    });
                }
            });
        }
    });
}

#[test]
fn pinned_team_runs_or_reports_that_it_is_not_pinned() {
    let pinned = thread::spawn(|| {
        let team = Team::new(2, &[0, 1 << 20]).expect("a core that does not exist is no error");
        let calls = AtomicUsize::new(0);
        let pinned = team.pin_caller();
        team.run(|_| {
            calls.fetch_add(1, Ordering::Relaxed);
        });
        assert_eq!(calls.load(Ordering::Relaxed), 2, "pinned or not, both threads run");
        pinned
    });
    let pinned = pinned.join().expect("the team runs");
    assert!(!pinned || cfg!(target_os = "linux"), "only Linux pins here");
}

#[test]
fn disjoint_parts_are_written_concurrently_and_read_after_a_barrier() {
    let team = team(3);
    let shared = Shared::<f32>::zeroed(1, 300, 3).expect("1200 bytes can be had");
    team.run(|worker| {
        let own = worker.index() * 100..worker.index() * 100 + 100;
        shared.write(worker, own).fill(worker.index() as f32 + 1.0);
        worker.barrier();
        let sum: f32 = shared.read(worker, 0..300).iter().sum();
        assert_eq!(sum, 600.0, "every part is seen behind the barrier");
    });
    let mut out = [0.0; 2];
    shared.copy_to(99..101, &mut out);
    assert_eq!(out, [1.0, 2.0], "and outside of the region");
}

#[test]
fn overlapping_claim_panics() {
    let team = team(2);
    for (first, second, writes, refused) in [
        (0..10, 9..20, [true, true], true),
        (0..10, 9..20, [false, true], true),
        (0..10, 9..20, [true, false], true),
        (0..10, 9..20, [false, false], false),
        (0..10, 10..20, [true, true], false),
        (0..10, 5..5, [true, true], false),
    ] {
        let shared = Shared::<u8>::zeroed(1, 20, 2).expect("20 bytes can be had");
        let outcome = catch_unwind(AssertUnwindSafe(|| {
            team.run(|worker| {
                let take = |range: &std::ops::Range<usize>, write| {
                    if write {
                        (Some(shared.write(worker, range.clone())), None)
                    } else {
                        (None, Some(shared.read(worker, range.clone())))
                    }
                };
                let held = (worker.index() == 0).then(|| take(&first, writes[0]));
                worker.barrier();
                let other = (worker.index() == 1).then(|| take(&second, writes[1]));
                worker.barrier();
                drop((held, other));
            });
        }));
        assert_eq!(outcome.is_err(), refused, "{first:?} and {second:?}, writing: {writes:?}");
    }
}

#[test]
fn disjoint_columns_are_written_concurrently() {
    let team = team(2);
    let shared = Shared::<f32>::zeroed(3, 4, 2).expect("48 bytes can be had");
    for (split, refused) in [([0..2, 2..4], false), ([0..3, 2..4], true)] {
        let outcome = catch_unwind(AssertUnwindSafe(|| {
            team.run(|worker| {
                let mut columns = shared.write_columns(worker, split[worker.index()].clone());
                (0..3).for_each(|row| columns.row(row).fill((10 * worker.index() + row) as f32));
                worker.barrier();
            });
        }));
        assert_eq!(outcome.is_err(), refused, "columns {split:?}");
        if !refused {
            let mut out = [0.0; 12];
            shared.copy_to(0..12, &mut out);
            assert_eq!(out, [0., 0., 10., 10., 1., 1., 11., 11., 2., 2., 12., 12.], "columns lie in rows");
        }
    }
}

#[test]
fn more_outside_readers_than_claims_wait_for_each_other() {
    let mut shared = Shared::<f32>::zeroed(2, 1 << 12, 1).expect("16 KiB can be had");
    shared.all_mut().fill(3.0);
    thread::scope(|scope| {
        for _ in 0..24 {
            scope.spawn(|| {
                let mut out = vec![0.0; 1 << 12];
                for _ in 0..200 {
                    shared.copy_to(0..1 << 12, &mut out);
                }
                assert!(out.iter().all(|element| *element == 3.0), "all elements are copied");
            });
        }
    });
}

#[test]
fn memory_is_aligned_and_zeroed_and_fails_without_an_abort() {
    let mut shared = Shared::<f32>::zeroed(1, 17, 1).expect("68 bytes can be had");
    let elements = shared.all_mut();
    assert_eq!(elements.as_ptr() as usize % 64, 0, "the first element is at a cache line");
    assert!(elements.iter().all(|element| *element == 0.0), "memory comes zeroed");
    let refused = Shared::<f32>::zeroed(2, usize::MAX / 4, 1).err().map(|refused| refused.0);
    assert!(refused > Some(1 << 40), "memory that no system has is refused: {refused:?}");
}
