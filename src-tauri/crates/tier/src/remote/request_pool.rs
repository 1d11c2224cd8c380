//! Threads for calls that may hang. A caller waits only until its deadline. The threads are never joined.
//!
//! A hanging call occupies its thread until it returns. Queued calls whose callers gave up are skipped, so the queue
//! is empty when the server recovers.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use crate::tier::TierError;

/// Maximum number of queued calls.
const QUEUE: usize = 32;

type Job = Box<dyn FnOnce() + Send>;

/// Thread pool for calls that may hang. After drop, threads end when they are idle.
pub(super) struct RequestPool {
    jobs: SyncSender<Job>,
}

impl RequestPool {
    pub(super) fn new(threads: usize) -> std::io::Result<Self> {
        let (jobs, receiver) = sync_channel::<Job>(QUEUE);
        let receiver = Arc::new(Mutex::new(receiver));
        for number in 0..threads {
            let receiver = Arc::clone(&receiver);
            let work = move || {
                loop {
                    let job = receiver.lock().recv();
                    let Ok(job) = job else { return };
                    // A panic drops the result's sender, which notifies the caller.
                    let _ = std::panic::catch_unwind(std::panic::AssertUnwindSafe(job));
                }
            };
            std::thread::Builder::new().name(format!("tier-remote-{number}")).spawn(work)?;
        }
        Ok(Self { jobs })
    }

    /// Queues a call.
    ///
    /// # Errors
    /// If the queue is full.
    pub(super) fn begin<T: Send + 'static>(
        &self,
        within: Duration,
        call: impl FnOnce() -> Result<T, TierError> + Send + 'static,
    ) -> Result<PendingRequest<T>, TierError> {
        let (sender, result) = sync_channel(1);
        let is_abandoned = Arc::new(AtomicBool::new(false));
        let skip = Arc::clone(&is_abandoned);
        let job = Box::new(move || {
            if !skip.load(Ordering::Relaxed) {
                // The receiver is gone if the caller gave up.
                let _ = sender.send(call());
            }
        });
        let busy = |_| TierError::Unavailable("all threads of the remote tier are busy".to_owned());
        self.jobs.try_send(job).map_err(busy)?;
        Ok(PendingRequest { result, is_abandoned, began: Instant::now(), within })
    }
}

/// A running call. Dropping it abandons the call.
pub(super) struct PendingRequest<T> {
    result: Receiver<Result<T, TierError>>,
    is_abandoned: Arc<AtomicBool>,
    began: Instant,
    within: Duration,
}

impl<T> PendingRequest<T> {
    /// Waits for the result until the deadline.
    pub(super) fn wait(self) -> Result<T, TierError> {
        match self.result.recv_timeout(self.within.saturating_sub(self.began.elapsed())) {
            Ok(result) => result,
            Err(RecvTimeoutError::Timeout) => {
                Err(TierError::Unavailable(format!("no response within {:?}", self.within)))
            }
            Err(RecvTimeoutError::Disconnected) => Err(TierError::Failed("a call to the remote tier panicked".into())),
        }
    }
}

impl<T> Drop for PendingRequest<T> {
    fn drop(&mut self) {
        self.is_abandoned.store(true, Ordering::Relaxed);
    }
}
