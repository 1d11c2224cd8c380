//! An allocator that counts: the only way to see how much memory an input makes us take.
#![expect(unsafe_code, reason = "an allocator is called through an unsafe trait")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};

/// The most that reading a file's head may take at one time, whatever is in it.
pub const MOST_BYTES: usize = 64 << 20;

/// The system's allocator, which counts the bytes that are taken, now and at most. A program names it with
/// `#[global_allocator]`; without that, [`most`] finds nothing.
#[derive(Debug)]
pub struct Counting;

static NOW: AtomicUsize = AtomicUsize::new(0);
static MOST: AtomicUsize = AtomicUsize::new(0);

// SAFETY: every call goes to the system's allocator as it came, and its answer back.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let now = NOW.fetch_add(layout.size(), Ordering::Relaxed) + layout.size();
        MOST.fetch_max(now, Ordering::Relaxed);
        // SAFETY: the caller keeps the same contract with us.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        NOW.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: the caller keeps the same contract with us.
        unsafe { System.dealloc(at, layout) }
    }
}

/// Does something, and says how many bytes it had allocated at most at one time, beyond those before. Other threads are
/// counted along.
pub fn most<T>(work: impl FnOnce() -> T) -> (T, usize) {
    let before = NOW.load(Ordering::Relaxed);
    MOST.store(before, Ordering::Relaxed);
    let done = work();
    (done, MOST.load(Ordering::Relaxed).saturating_sub(before))
}
