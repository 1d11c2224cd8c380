//! The number of requests that a model accepts: those that it computes, and a limited queue.
//!
//! A request has its place from the moment at which it is accepted until its answer is complete, so that the number of accepted
//! requests is exact under any concurrency. An answer that is paused because its client does not read has no place. Otherwise such
//! clients would fill the queue for ever.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// The places of one model.
#[derive(Clone, Debug)]
pub(crate) struct Queue {
    places: usize,
    taken: Arc<AtomicUsize>,
}

impl Queue {
    /// A queue of `waiting` requests behind those that are computed at the same time.
    pub(crate) fn new(parallel: usize, waiting: usize) -> Self {
        Self { places: parallel.saturating_add(waiting), taken: Arc::default() }
    }

    /// Takes a place, if one is free.
    pub(crate) fn enter(&self) -> Option<QueuePlace> {
        let has_room = |taken: usize| (taken < self.places).then_some(taken + 1);
        self.taken.fetch_update(Ordering::AcqRel, Ordering::Relaxed, has_room).ok()?;
        Some(self.place())
    }

    /// Takes a place for a further generation of an accepted request, also beyond the limit.
    pub(crate) fn enter_again(&self) -> QueuePlace {
        self.taken.fetch_add(1, Ordering::AcqRel);
        self.place()
    }

    /// A place that was just taken.
    fn place(&self) -> QueuePlace {
        QueuePlace { taken: Arc::clone(&self.taken), since: Instant::now() }
    }
}

/// A place in a [`Queue`]. It becomes free when this is dropped.
#[derive(Debug)]
pub(crate) struct QueuePlace {
    taken: Arc<AtomicUsize>,
    since: Instant,
}

impl QueuePlace {
    /// Time since the place was taken.
    pub(crate) fn waited(&self) -> Duration {
        self.since.elapsed()
    }
}

impl Drop for QueuePlace {
    fn drop(&mut self) {
        self.taken.fetch_sub(1, Ordering::AcqRel);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queue_accepts_exact_number_of_concurrent_requests() {
        let queue = Queue::new(8, 64);
        let accepted: Vec<_> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..200).map(|_| scope.spawn(|| queue.enter())).collect();
            threads.into_iter().filter_map(|thread| thread.join().expect("no panic")).collect()
        });
        assert_eq!(accepted.len(), 72, "eight are computed, 64 wait");
        drop(accepted);
        assert!(queue.enter().is_some(), "places become free");
    }
}
