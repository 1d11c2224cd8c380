//! Background thread that erases deleted chats and writes backups.
//!
//! An erasure rewrites the whole database. The thread therefore waits for [`DELAY`] after a request. One run then serves all requests
//! of that time.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

use parking_lot::{Condvar, Mutex, MutexGuard};

/// Delay between a request and its run.
const DELAY: Duration = Duration::from_secs(2);

/// Background thread that merges requests: each run executes only the latest one.
pub(super) struct Upkeep {
    delay: Duration,
    state: Mutex<State>,
    /// Notified when the daemon shuts down.
    ended: Condvar,
}

#[derive(Default)]
struct State {
    requested: Option<Box<dyn FnOnce() + Send>>,
    /// The running thread. `None` if there is nothing to do.
    thread: Option<JoinHandle<()>>,
    ending: bool,
}

impl Upkeep {
    pub(super) fn new() -> Arc<Self> {
        Self::with_delay(DELAY)
    }

    fn with_delay(delay: Duration) -> Arc<Self> {
        Arc::new(Self { delay, state: Mutex::default(), ended: Condvar::new() })
    }

    /// Requests work. It replaces requested work that has not begun.
    pub(super) fn request(self: &Arc<Self>, work: impl FnOnce() + Send + 'static) {
        let mut state = self.state.lock();
        state.requested = Some(Box::new(work));
        if state.thread.is_some() {
            return;
        }
        let upkeep = Arc::clone(self);
        match Builder::new().name("chats-upkeep".to_owned()).spawn(move || upkeep.run()) {
            Ok(thread) => state.thread = Some(thread),
            Err(error) => tracing::warn!(%error, "deleted chats are not erased yet: cannot start a thread"),
        }
    }

    /// Does the requested work now and waits for its end.
    pub(super) fn finish(&self) {
        let thread = {
            let mut state = self.state.lock();
            state.ending = true;
            state.thread.take()
        };
        self.ended.notify_all();
        let _ = thread.map(JoinHandle::join);
    }

    fn run(&self) {
        let mut state = self.state.lock();
        while state.requested.is_some() {
            self.ended.wait_while_for(&mut state, |state| !state.ending, self.delay);
            if let Some(work) = state.requested.take() {
                // A panic was logged. It must not end later work.
                let _ = MutexGuard::unlocked(&mut state, || catch_unwind(AssertUnwindSafe(work)));
            }
        }
        // A request that comes now starts another thread.
        state.thread = None;
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::mpsc;

    use super::*;

    const NEVER: Duration = Duration::from_secs(60 * 60);

    #[test]
    fn requests_within_the_delay_share_one_run() {
        let upkeep = Upkeep::with_delay(NEVER);
        let runs = Arc::new(AtomicUsize::new(0));
        for _ in 0..100 {
            let runs = Arc::clone(&runs);
            upkeep.request(move || _ = runs.fetch_add(1, Ordering::Relaxed));
        }
        assert_eq!(runs.load(Ordering::Relaxed), 0, "the work has not begun");
        upkeep.finish();
        assert_eq!(runs.load(Ordering::Relaxed), 1, "one run for all requests, before the end of the daemon");
    }

    #[test]
    fn request_during_the_work_is_served_after_it() {
        let upkeep = Upkeep::with_delay(Duration::ZERO);
        let (began, begins) = mpsc::channel();
        let (resume, resumed) = mpsc::channel::<()>();
        upkeep.request(move || {
            began.send(()).expect("the test waits");
            resumed.recv().expect("the test resumes the work");
        });
        begins.recv().expect("the work begins after its delay");
        let (done, second) = mpsc::channel();
        upkeep.request(move || done.send(()).expect("the test waits"));
        assert!(second.try_recv().is_err(), "one run at a time");
        resume.send(()).expect("the work waits");
        second.recv().expect("the second run");
        upkeep.finish();
    }

    #[test]
    fn request_after_a_panic_is_run() {
        let upkeep = Upkeep::with_delay(Duration::ZERO);
        let (began, begins) = mpsc::channel();
        upkeep.request(move || {
            began.send(()).expect("the test waits");
            panic!("expected by the test");
        });
        begins.recv().expect("the first run");
        let (done, second) = mpsc::channel();
        upkeep.request(move || done.send(()).expect("the test waits"));
        second.recv().expect("the second run");
    }
}
