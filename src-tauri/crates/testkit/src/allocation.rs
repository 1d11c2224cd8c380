//! An allocator that counts: the only way to see how much memory an input makes us take.
//!
//! Each thread counts for itself, so that tests beside each other do not disturb one another.
#![expect(unsafe_code, reason = "an allocator is called through an unsafe trait")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

/// The system's allocator, which counts the bytes that each thread takes, now and at most. A program names it with
/// `#[global_allocator]`; without that, [`most`] finds nothing.
#[derive(Debug)]
pub struct Counting;

thread_local! {
    /// Below zero where a thread frees what another one took.
    static NOW: Cell<isize> = const { Cell::new(0) };
    static MOST: Cell<isize> = const { Cell::new(0) };
}

// SAFETY: every call goes to the system's allocator as it came, and its answer back; counting allocates nothing.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        NOW.set(NOW.get() + layout.size() as isize);
        MOST.set(MOST.get().max(NOW.get()));
        // SAFETY: the caller keeps the same contract with us.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        NOW.set(NOW.get() - layout.size() as isize);
        // SAFETY: the caller keeps the same contract with us.
        unsafe { System.dealloc(at, layout) }
    }
}

/// Does something, and says how many bytes its thread had allocated at most at one time, beyond those before.
pub fn most<T>(work: impl FnOnce() -> T) -> (T, usize) {
    let before = NOW.get();
    MOST.set(before);
    let done = work();
    (done, (MOST.get() - before) as usize)
}
