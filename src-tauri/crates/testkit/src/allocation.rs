//! A counting allocator, which measures the memory that the processing of an input takes.
//!
//! Each thread has its own counters, so parallel tests do not affect each other.
#![expect(unsafe_code, reason = "an allocator is called through an unsafe trait")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

/// The system's allocator with counters of the current and the peak bytes of each thread. A program must register it
/// with `#[global_allocator]`; else [`peak_bytes`] returns 0.
#[derive(Debug)]
pub struct CountingAllocator;

thread_local! {
    /// Negative if a thread frees memory of another one.
    static CURRENT: Cell<isize> = const { Cell::new(0) };
    static PEAK: Cell<isize> = const { Cell::new(0) };
}

// SAFETY: every call is passed to the system's allocator unchanged; counting does not allocate.
unsafe impl GlobalAlloc for CountingAllocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        CURRENT.set(CURRENT.get() + layout.size() as isize);
        PEAK.set(PEAK.get().max(CURRENT.get()));
        // SAFETY: the caller fulfils the same contract.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        CURRENT.set(CURRENT.get() - layout.size() as isize);
        // SAFETY: the caller fulfils the same contract.
        unsafe { System.dealloc(at, layout) }
    }
}

/// Runs `work` and returns its result and the peak of bytes that its thread allocated in addition to those before.
pub fn peak_bytes<T>(work: impl FnOnce() -> T) -> (T, usize) {
    let before = CURRENT.get();
    PEAK.set(before);
    let result = work();
    (result, (PEAK.get() - before) as usize)
}
