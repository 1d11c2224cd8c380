//! Waiting: an event counter that is cheap to advance, and a barrier built on it.
//!
//! A waiter spins for about 4000 pauses (some 60 to 200 microseconds), because the next op of a plan is usually
//! microseconds away; then it sleeps. It does not yield in between: a thread of low priority that gets the core by a
//! yield keeps it until the next tick, a few milliseconds later, while a sleeping thread gets a core as soon as it
//! wakes. With fewer cores than threads, it yields a while instead of spinning, so that the other thread gets a core.
//!
//! The lock is std's: its condition variable allocates nothing, so a step takes no memory when a thread first sleeps.
//! Nothing spins unbounded.

use std::hint;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex, PoisonError};
use std::thread;

/// Pauses before a waiter goes to sleep, where every thread has a core.
const SPINS: u32 = 4000;
/// Yields before it does, where not.
const YIELDS: u32 = 50;

/// A counter that threads wait on.
#[derive(Debug)]
#[repr(align(128))]
pub(super) struct Event {
    count: AtomicU32,
    sleepers: AtomicU32,
    spin: bool,
    lock: Mutex<()>,
    wake: Condvar,
}

impl Event {
    /// The count of a new event.
    pub(super) const FIRST: u32 = 0;

    /// An event whose waiters spin first, or yield.
    pub(super) fn new(spin: bool) -> Self {
        let (count, sleepers) = (AtomicU32::new(Self::FIRST), AtomicU32::new(0));
        Self { count, sleepers, spin, lock: Mutex::new(()), wake: Condvar::new() }
    }

    /// The present count.
    pub(super) fn now(&self) -> u32 {
        self.count.load(Ordering::Acquire)
    }

    /// Returns once the count is no longer `seen`.
    pub(super) fn wait(&self, seen: u32) {
        for _ in 0..if self.spin { SPINS } else { YIELDS } {
            if self.now() != seen {
                return;
            }
            if self.spin {
                hint::spin_loop();
            } else {
                thread::yield_now();
            }
        }
        // Either this increment comes before the advancing thread's look at `sleepers`, which then wakes us, or its new
        // count comes before our look at `count`, which then keeps us awake. Both sides are SeqCst for that reason.
        self.sleepers.fetch_add(1, Ordering::SeqCst);
        let mut guard = self.lock.lock().unwrap_or_else(PoisonError::into_inner);
        while self.count.load(Ordering::SeqCst) == seen {
            guard = self.wake.wait(guard).unwrap_or_else(PoisonError::into_inner);
        }
        drop(guard);
        self.sleepers.fetch_sub(1, Ordering::SeqCst);
    }

    /// Counts one up and wakes all waiters.
    pub(super) fn advance(&self) {
        self.count.fetch_add(1, Ordering::SeqCst);
        if self.sleepers.load(Ordering::SeqCst) > 0 {
            // Taking the lock makes sure that a sleeper that has seen the old count has reached its condition variable.
            drop(self.lock.lock().unwrap_or_else(PoisonError::into_inner));
            self.wake.notify_all();
        }
    }
}

/// Reusable barrier of `count` threads.
#[derive(Debug)]
pub(super) struct Barrier {
    count: AtomicUsize,
    arrived: AtomicUsize,
    complete: Event,
}

impl Barrier {
    /// A barrier of `count` threads.
    pub(super) fn new(count: usize, spin: bool) -> Self {
        Self { count: AtomicUsize::new(count), arrived: AtomicUsize::new(0), complete: Event::new(spin) }
    }

    /// Threads that the barrier waits for.
    pub(super) fn count(&self) -> usize {
        self.count.load(Ordering::Relaxed)
    }

    /// Changes the number of threads. No thread may be waiting. The event that starts the
    /// next region publishes the number.
    pub(super) fn set_count(&self, count: usize) {
        self.count.store(count, Ordering::Relaxed);
    }

    /// Arrives without waiting. Returns whether all threads have arrived.
    pub(super) fn arrive(&self) -> bool {
        let last = self.arrived.fetch_add(1, Ordering::AcqRel) + 1 == self.count();
        if last {
            self.arrived.store(0, Ordering::Relaxed);
            self.complete.advance();
        }
        last
    }

    /// Arrives and waits for the others. False if the wait was aborted; `off` returns whether it was.
    pub(super) fn wait(&self, off: impl Fn() -> bool) -> bool {
        let seen = self.complete.now();
        // Checked after `seen`: an abort sets the flag first and advances the event then, so one of the two shows.
        if off() {
            return false;
        }
        if !self.arrive() {
            self.complete.wait(seen);
        }
        !off()
    }

    /// Wakes all waiters before all threads have arrived.
    pub(super) fn release(&self) {
        self.complete.advance();
    }

    /// Forgets the arrivals of an aborted wait. No thread may be waiting.
    pub(super) fn reset(&self) {
        self.arrived.store(0, Ordering::Relaxed);
    }
}
