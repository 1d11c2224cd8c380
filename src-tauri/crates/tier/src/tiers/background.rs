//! Helper threads of a tier's writer thread, one for each priority, for long operations: compressing, writing,
//! removing.
//!
//! A thread cannot raise its own priority again without a privilege, and a thread with idle priority may get no CPU time
//! on a busy machine. So each priority has a thread of its own. The writer thread waits for a result with a timeout, and
//! may then start the same work on a thread with a higher priority. The writer thread itself has normal priority, also
//! while it holds the lock.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::{Builder, Scope};
use std::time::Duration;

type Work<'env> = Box<dyn FnOnce() + Send + 'env>;

/// Priority of an operation, lowest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Priority {
    /// Only idle CPU time: a thread that occupies a core for milliseconds would delay the whole compute team.
    Idle,
    /// Other threads run first, but this one gets a small share of a busy core.
    Low,
    /// The priority of all threads.
    Normal,
}

impl Priority {
    const ALL: [(Self, &str, fn()); 3] = [
        (Self::Idle, "idle", cairn_disk::set_idle_thread_priority),
        (Self::Low, "low", cairn_disk::set_low_thread_priority),
        (Self::Normal, "normal", || ()),
    ];
}

/// The helper threads of a tier's writer thread.
pub(super) struct BackgroundWorker<'env> {
    helpers: Vec<Worker<'env>>,
}

struct Worker<'env> {
    priority: Priority,
    jobs: SyncSender<Work<'env>>,
    is_busy: Arc<AtomicBool>,
}

/// An operation that was started, and its result.
pub(super) struct Running<T>(Receiver<T>);

impl<T> Running<T> {
    /// Waits for the result, at most for `within`.
    pub(super) fn wait_for(&self, within: Duration) -> Option<T> {
        self.0.recv_timeout(within).ok()
    }

    /// Waits for the result.
    pub(super) fn wait(self) -> T {
        self.0.recv().expect("a helper thread catches panics and sends a result")
    }
}

impl<'env> BackgroundWorker<'env> {
    /// Starts the threads. After this value is dropped, each thread completes its current operation and ends.
    pub(super) fn start<'scope>(scope: &'scope Scope<'scope, 'env>, name: &str) -> Self {
        let helper = |(priority, suffix, prepare): (Priority, &str, fn())| {
            let (jobs, received) = sync_channel::<Work<'env>>(1);
            let run = move || {
                prepare();
                received.into_iter().for_each(|work| work());
            };
            let thread = Builder::new().name(format!("{name}-{suffix}")).spawn_scoped(scope, run);
            thread.ok().map(|_| Worker { priority, jobs, is_busy: Arc::default() })
        };
        Self { helpers: Priority::ALL.into_iter().filter_map(helper).collect() }
    }

    /// Starts `work`, which must catch panics, on the free thread with the lowest priority that is at least `priority`.
    /// A thread is also busy while it continues abandoned work. If no thread is free, `work` runs on the calling thread.
    pub(super) fn begin<T: Send + 'env>(
        &self,
        priority: Priority,
        work: impl FnOnce() -> T + Send + 'env,
    ) -> Running<T> {
        let (sender, receiver) = sync_channel(1);
        let is_free = |worker: &&Worker<'env>| worker.priority >= priority && !worker.is_busy.load(Ordering::Acquire);
        let Some(helper) = self.helpers.iter().find(is_free) else {
            // The channel has room for the result.
            let _ = sender.send(work());
            return Running(receiver);
        };
        let is_busy = Arc::clone(&helper.is_busy);
        is_busy.store(true, Ordering::Release);
        let job = move || {
            let result = work();
            // Before the result is sent, so that the writer thread finds this thread free when it receives the result.
            is_busy.store(false, Ordering::Release);
            // The writer thread may have dropped the receiver.
            let _ = sender.send(result);
        };
        helper.jobs.send(Box::new(job)).expect("a helper thread lives as long as this value and its queue is empty");
        Running(receiver)
    }
}
