//! The few threads that call a place which may hang. Nobody waits for them longer than a deadline, and nobody ever joins them.
//!
//! A call that hangs keeps its thread until the place lets it go. What waits behind it is given up by its callers and skipped by
//! whoever comes free, so that a place that is back finds an empty queue.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::tier::TierError;

/// Calls that may wait for a thread.
const QUEUE: usize = 32;

type Job = Box<dyn FnOnce() + Send>;

/// See the module. Dropping it lets the threads end when they are free.
pub(super) struct Crew {
    jobs: SyncSender<Job>,
}

impl Crew {
    pub(super) fn new(threads: usize) -> std::io::Result<Self> {
        let (jobs, receiver) = sync_channel::<Job>(QUEUE);
        let receiver = Arc::new(Mutex::new(receiver));
        for number in 0..threads {
            let receiver = Arc::clone(&receiver);
            let work = move || {
                loop {
                    let job = receiver.lock().unwrap_or_else(PoisonError::into_inner).recv();
                    let Ok(job) = job else { return };
                    // A panic drops what would have told its caller, who thereby learns of it.
                    let _ = std::panic::catch_unwind(std::panic::AssertUnwindSafe(job));
                }
            };
            std::thread::Builder::new().name(format!("tier-remote-{number}")).spawn(work)?;
        }
        Ok(Self { jobs })
    }

    /// Has a thread make a call.
    ///
    /// # Errors
    /// Where too many wait already.
    pub(super) fn begin<T: Send + 'static>(
        &self,
        within: Duration,
        call: impl FnOnce() -> Result<T, TierError> + Send + 'static,
    ) -> Result<Pending<T>, TierError> {
        let (tell, told) = sync_channel(1);
        let given_up = Arc::new(AtomicBool::new(false));
        let skip = Arc::clone(&given_up);
        let job = Box::new(move || {
            if !skip.load(Ordering::Relaxed) {
                // Nobody listens where the caller gave up meanwhile.
                let _ = tell.send(call());
            }
        });
        let busy = |_| TierError::Away("the remote place keeps all threads waiting".to_owned());
        self.jobs.try_send(job).map_err(busy)?;
        Ok(Pending { told, given_up, began: Instant::now(), within })
    }
}

/// A call under way. Dropping it gives it up.
pub(super) struct Pending<T> {
    told: Receiver<Result<T, TierError>>,
    given_up: Arc<AtomicBool>,
    began: Instant,
    within: Duration,
}

impl<T> Pending<T> {
    /// What the call gave, if that came in time.
    pub(super) fn wait(self) -> Result<T, TierError> {
        match self.told.recv_timeout(self.within.saturating_sub(self.began.elapsed())) {
            Ok(result) => result,
            Err(RecvTimeoutError::Timeout) => Err(TierError::Away(format!("no answer within {:?}", self.within))),
            Err(RecvTimeoutError::Disconnected) => Err(TierError::Failed("a call to the remote place panicked".into())),
        }
    }
}

impl<T> Drop for Pending<T> {
    fn drop(&mut self) {
        self.given_up.store(true, Ordering::Relaxed);
    }
}
