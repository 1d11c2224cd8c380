//! Two threads beside a hand, for what takes long: packing, writing, removing.
//!
//! While answers are computed the first of them does it, which gets only the time that nobody else wants: a thread of low priority that
//! has a core keeps it for milliseconds, in which a whole team of compute threads waits. The second is for when no answer is computed, or
//! when so much waits to be written that some of it would be lost. The hand itself waits meanwhile, and takes the lock as anybody does.

use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread::{Builder, Scope};

type Work<'env> = Box<dyn FnOnce() + Send + 'env>;

/// See the module.
pub(super) struct Aside<'env> {
    quiet: Option<SyncSender<Work<'env>>>,
    plain: Option<SyncSender<Work<'env>>>,
}

impl<'env> Aside<'env> {
    /// Starts both. They end when this is dropped.
    pub(super) fn start<'scope>(scope: &'scope Scope<'scope, 'env>, name: &str) -> Self {
        let start = |name: String, prepare: fn()| {
            let (order, orders) = sync_channel::<Work<'env>>(0);
            let run = move || {
                prepare();
                orders.into_iter().for_each(|work| work());
            };
            Builder::new().name(name).spawn_scoped(scope, run).ok().map(|_| order)
        };
        let quiet = start(format!("{name}-quiet"), cairn_disk::take_what_is_left);
        Self { quiet, plain: start(format!("{name}-plain"), cairn_disk::stand_back) }
    }

    /// Has this done, and waits for it. Where the system gave no thread, it is done here.
    pub(super) fn run<T: Send + 'env>(&self, quietly: bool, work: impl FnOnce() -> T + Send + 'env) -> T {
        let Some(order) = (if quietly { &self.quiet } else { &self.plain }) else { return work() };
        let (answer, answers) = sync_channel(1);
        let tell = move || {
            // The hand waits for it.
            let _ = answer.send(work());
        };
        order.send(Box::new(tell)).expect("the threads live as long as this, and what they run catches its panics");
        answers.recv().expect("as above")
    }
}
