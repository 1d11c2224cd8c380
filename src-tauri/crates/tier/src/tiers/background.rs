//! Two helper threads of a tier's writer thread, for long operations: compressing, writing, removing.
//!
//! The low-priority thread works while answers are generated, and gets only idle CPU time: a thread that occupies a
//! core for milliseconds would delay the whole compute team. The other thread works when no answer is generated, or
//! when the write queue is nearly full. The writer thread itself waits meanwhile, and takes the lock with normal
//! priority.

use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread::{Builder, Scope};

type Work<'env> = Box<dyn FnOnce() + Send + 'env>;

/// The two helper threads of a tier's writer thread: one with low priority (`quiet`), one with normal priority
/// (`plain`).
pub(super) struct BackgroundWorker<'env> {
    quiet: Option<SyncSender<Work<'env>>>,
    plain: Option<SyncSender<Work<'env>>>,
}

impl<'env> BackgroundWorker<'env> {
    /// Starts both threads. They end on drop.
    pub(super) fn start<'scope>(scope: &'scope Scope<'scope, 'env>, name: &str) -> Self {
        let start = |name: String, prepare: fn()| {
            let (order, orders) = sync_channel::<Work<'env>>(0);
            let run = move || {
                prepare();
                orders.into_iter().for_each(|work| work());
            };
            Builder::new().name(name).spawn_scoped(scope, run).ok().map(|_| order)
        };
        let quiet = start(format!("{name}-quiet"), cairn_disk::set_idle_thread_priority);
        Self { quiet, plain: start(format!("{name}-plain"), cairn_disk::set_low_thread_priority) }
    }

    /// Runs `work` on a thread and waits for its result. If no thread could be created, runs it here.
    pub(super) fn run<T: Send + 'env>(&self, with_low_priority: bool, work: impl FnOnce() -> T + Send + 'env) -> T {
        let Some(order) = (if with_low_priority { &self.quiet } else { &self.plain }) else { return work() };
        let (answer, answers) = sync_channel(1);
        let tell = move || {
            // The caller waits for the result.
            let _ = answer.send(work());
        };
        order.send(Box::new(tell)).expect("the threads live as long as this, and their work catches panics");
        answers.recv().expect("the thread sends a result")
    }
}
