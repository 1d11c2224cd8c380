//! Merged, failed and repeated requests.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;

use super::*;

const NEVER: Duration = Duration::from_secs(60 * 60);

#[test]
fn requests_within_the_delay_share_one_run() {
    let upkeep = Upkeep::with_delays(NEVER, NEVER);
    let runs = Arc::new(AtomicUsize::new(0));
    for _ in 0..100 {
        let runs = Arc::clone(&runs);
        upkeep.request(move || {
            runs.fetch_add(1, Ordering::Relaxed);
            true
        });
    }
    assert_eq!(runs.load(Ordering::Relaxed), 0, "the work has not begun");
    upkeep.finish();
    assert_eq!(runs.load(Ordering::Relaxed), 1, "one run for all requests, before the end of the daemon");
}

#[test]
fn request_during_the_work_is_served_after_it() {
    let upkeep = Upkeep::with_delays(Duration::ZERO, NEVER);
    let is_active = Arc::new(Mutex::new(()));
    let (began, begins) = mpsc::channel();
    let (resume, resumed) = mpsc::channel::<()>();
    let active = Arc::clone(&is_active);
    upkeep.request(move || {
        let _active = active.lock();
        began.send(()).expect("the test waits");
        resumed.recv().expect("the test resumes the work");
        true
    });
    begins.recv().expect("the work begins after its delay");
    let (done, second) = mpsc::channel();
    upkeep.request(move || {
        done.send(is_active.try_lock().is_some()).expect("the test waits");
        true
    });
    resume.send(()).expect("the work waits");
    assert!(second.recv().expect("the second run"), "the second run begins after the end of the first one");
    upkeep.finish();
}

#[test]
fn request_after_a_panic_is_run() {
    let upkeep = Upkeep::with_delays(Duration::ZERO, NEVER);
    let (began, begins) = mpsc::channel();
    upkeep.request(move || {
        began.send(()).expect("the test waits");
        panic!("expected by the test");
    });
    begins.recv().expect("the first run");
    let (done, second) = mpsc::channel();
    upkeep.request(move || {
        done.send(()).expect("the test waits");
        true
    });
    second.recv().expect("the second run");
}

/// Requests work that fails in its first runs. Returns the numbers of its runs.
fn fail(upkeep: &Arc<Upkeep>, failures: usize) -> mpsc::Receiver<usize> {
    let (ran, runs) = mpsc::channel();
    let mut count = 0;
    upkeep.request(move || {
        count += 1;
        // The receiver may have been dropped; that is not an error.
        let _ = ran.send(count);
        count > failures
    });
    runs
}

#[test]
fn failed_work_is_repeated_until_it_succeeds() {
    let upkeep = Upkeep::with_delays(Duration::ZERO, Duration::ZERO);
    let runs = fail(&upkeep, 2);
    assert_eq!(runs.iter().collect::<Vec<_>>(), [1, 2, 3], "the work is dropped when it succeeds");
}

#[test]
fn failed_work_is_repeated_once_at_the_end() {
    let upkeep = Upkeep::with_delays(Duration::ZERO, NEVER);
    let runs = fail(&upkeep, usize::MAX);
    assert_eq!(runs.recv(), Ok(1), "the first run");
    // An end that begins during the first run would not repeat it.
    while upkeep.state.lock().failed.is_none() {
        std::thread::yield_now();
    }
    upkeep.finish();
    assert_eq!(runs.iter().collect::<Vec<_>>(), [2], "one more run");
}

#[test]
fn request_replaces_failed_work_and_does_not_wait_for_its_retry() {
    let upkeep = Upkeep::with_delays(Duration::ZERO, NEVER);
    let first = fail(&upkeep, usize::MAX);
    assert_eq!(first.recv(), Ok(1), "the first run");
    let second = fail(&upkeep, 0);
    assert_eq!(second.iter().collect::<Vec<_>>(), [1], "the request is served");
    assert!(first.recv().is_err(), "the failed work is dropped");
    upkeep.finish();
}
