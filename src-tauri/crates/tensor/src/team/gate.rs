//! Waiting: an event counter that is cheap to advance, and a meeting of a fixed number of threads built on it.
//!
//! A waiter spins for about 2000 pauses (some 30 to 100 microseconds), because the next op of a plan is usually
//! microseconds away; then it yields a while, so that whoever it waits for gets a core when there are too few; then it
//! sleeps. Nothing spins unbounded.

use std::hint;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex, PoisonError};
use std::thread;

/// Pauses before a waiter starts to yield.
const SPINS: u32 = 2000;
/// Yields before a waiter goes to sleep.
const YIELDS: u32 = 50;

/// A counter that threads wait on.
#[derive(Debug)]
#[repr(align(128))]
pub(super) struct Event {
    count: AtomicU32,
    sleepers: AtomicU32,
    spins: u32,
    lock: Mutex<()>,
    wake: Condvar,
}

impl Event {
    /// The count of a new event.
    pub(super) const FIRST: u32 = 0;

    /// An event whose waiters spin first, or yield at once.
    pub(super) fn new(spin: bool) -> Self {
        let (count, sleepers) = (AtomicU32::new(Self::FIRST), AtomicU32::new(0));
        Self { count, sleepers, spins: if spin { SPINS } else { 0 }, lock: Mutex::new(()), wake: Condvar::new() }
    }

    /// The present count.
    pub(super) fn now(&self) -> u32 {
        self.count.load(Ordering::Acquire)
    }

    /// Returns once the count is no longer `seen`.
    pub(super) fn wait(&self, seen: u32) {
        for _ in 0..self.spins {
            if self.now() != seen {
                return;
            }
            hint::spin_loop();
        }
        for _ in 0..YIELDS {
            if self.now() != seen {
                return;
            }
            thread::yield_now();
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
