//! Waiting: an event counter that is cheap to advance, and a meeting of a fixed number of threads built on it.
//!
//! A waiter spins for about 4000 pauses (some 60 to 200 microseconds), because the next op of a plan is usually
//! microseconds away; then it sleeps. It does not yield in between: a thread of low priority that gets the core by a yield
//! keeps it until the next tick, a few milliseconds later, while one that was sleeping is let in as soon as it wakes. Where
//! there are fewer cores than threads, it yields a while instead of spinning, so that whoever it waits for gets a core.
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

    /// Counts one up and wakes everybody who waits.
    pub(super) fn advance(&self) {
        self.count.fetch_add(1, Ordering::SeqCst);
        if self.sleepers.load(Ordering::SeqCst) > 0 {
            // Taking the lock makes sure that a sleeper that has seen the old count has reached its condition variable.
            drop(self.lock.lock().unwrap_or_else(PoisonError::into_inner));
            self.wake.notify_all();
        }
    }
}

/// Where `count` threads meet, again and again.
#[derive(Debug)]
pub(super) struct Meeting {
    count: usize,
    arrived: AtomicUsize,
    complete: Event,
}

impl Meeting {
    /// A meeting of `count` threads.
    pub(super) fn new(count: usize, spin: bool) -> Self {
        Self { count, arrived: AtomicUsize::new(0), complete: Event::new(spin) }
    }

    /// Threads that meet.
    pub(super) fn count(&self) -> usize {
        self.count
    }

    /// Arrives and goes on. Says whether that completed the meeting.
    pub(super) fn arrive(&self) -> bool {
        let last = self.arrived.fetch_add(1, Ordering::AcqRel) + 1 == self.count;
        if last {
            self.arrived.store(0, Ordering::Relaxed);
            self.complete.advance();
        }
        last
    }

    /// Arrives and waits for the others; false when the meeting was called off instead, which `off` tells.
    pub(super) fn meet(&self, off: impl Fn() -> bool) -> bool {
        let seen = self.complete.now();
        // Looked at after `seen`: calling off sets the flag first and advances the event then, so one of the two shows.
        if off() {
            return false;
        }
        if !self.arrive() {
            self.complete.wait(seen);
        }
        !off()
    }

    /// Wakes those who wait although the meeting is not complete.
    pub(super) fn release(&self) {
        self.complete.advance();
    }

    /// Forgets who has arrived at a meeting that was called off. Nobody may be waiting.
    pub(super) fn reset(&self) {
        self.arrived.store(0, Ordering::Relaxed);
    }
}
