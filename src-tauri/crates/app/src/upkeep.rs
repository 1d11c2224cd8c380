//! Background thread that erases what was deleted and writes backups, of chats and of collections.
//!
//! An erasure rewrites the whole database. The thread therefore waits for [`DELAY`] after a request. One run then serves all requests
//! of that time. Work that failed is repeated after [`RETRY_DELAY`], until it succeeds or the daemon shuts down.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

use parking_lot::{Condvar, Mutex, MutexGuard};

/// Delay between a request and its run.
const DELAY: Duration = Duration::from_secs(2);
/// Delay after a failed run.
const RETRY_DELAY: Duration = Duration::from_secs(60);

/// Work of a request. Returns whether it succeeded.
type Work = Box<dyn FnMut() -> bool + Send>;

/// Background thread that merges requests: each run executes only the latest one.
pub(crate) struct Upkeep {
    delay: Duration,
    retry_delay: Duration,
    state: Mutex<State>,
    /// Notified at a request and when the daemon shuts down.
    changed: Condvar,
}

#[derive(Default)]
struct State {
    requested: Option<Work>,
    /// Work that failed, until it is repeated or replaced by a request.
    failed: Option<Work>,
    /// The running thread. `None` if there is nothing to do.
    thread: Option<JoinHandle<()>>,
    ending: bool,
}

impl Upkeep {
    pub(crate) fn new() -> Arc<Self> {
        Self::with_delays(DELAY, RETRY_DELAY)
    }

    pub(crate) fn with_delays(delay: Duration, retry_delay: Duration) -> Arc<Self> {
        Arc::new(Self { delay, retry_delay, state: Mutex::default(), changed: Condvar::new() })
    }

    /// Requests work, which returns whether it succeeded. It replaces requested work that has not begun.
    pub(crate) fn request(self: &Arc<Self>, work: impl FnMut() -> bool + Send + 'static) {
        let mut state = self.state.lock();
        state.requested = Some(Box::new(work));
        if state.thread.is_some() {
            self.changed.notify_all();
            return;
        }
        let upkeep = Arc::clone(self);
        match Builder::new().name("upkeep".to_owned()).spawn(move || upkeep.run()) {
            Ok(thread) => state.thread = Some(thread),
            Err(error) => tracing::warn!(%error, "deleted data is not erased yet: cannot start a thread"),
        }
    }

    /// Does the requested or failed work now and waits for its end. Work that fails now is not repeated.
    pub(crate) fn finish(&self) {
        let thread = {
            let mut state = self.state.lock();
            state.ending = true;
            state.thread.take()
        };
        self.changed.notify_all();
        let _ = thread.map(JoinHandle::join);
    }

    fn run(&self) {
        let mut state = self.state.lock();
        loop {
            if state.failed.is_some() {
                let waits = |state: &mut State| !state.ending && state.requested.is_none();
                self.changed.wait_while_for(&mut state, waits, self.retry_delay);
            }
            if state.requested.is_some() {
                self.changed.wait_while_for(&mut state, |state| !state.ending, self.delay);
            }
            let failed = state.failed.take();
            let Some(mut work) = state.requested.take().or(failed) else { break };
            // A panic was logged. It must not end later work.
            let run = || catch_unwind(AssertUnwindSafe(&mut work)).unwrap_or(false);
            let is_done = MutexGuard::unlocked(&mut state, run);
            if !is_done && !state.ending {
                state.failed = Some(work);
            }
        }
        // A request that comes now starts another thread.
        state.thread = None;
    }
}

#[cfg(test)]
mod tests;
