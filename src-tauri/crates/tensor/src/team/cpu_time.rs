//! CPU time of the threads of a team.
#![cfg_attr(target_os = "linux", expect(unsafe_code, reason = "the clock of a thread is reached through libc"))]

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// CPU time of several threads. On systems other than Linux it stays 0.
#[derive(Debug, Default)]
pub(super) struct CpuTime {
    nanoseconds: AtomicU64,
}

thread_local! {
    /// CPU time of this thread that was added already.
    static ADDED: Cell<Duration> = const { Cell::new(Duration::ZERO) };
}

impl CpuTime {
    /// Adds the CPU time of the calling thread since its last call. Takes some 200 ns.
    pub(super) fn add_thread(&self) {
        let now = thread_cpu_time();
        let new = now.saturating_sub(ADDED.replace(now));
        self.nanoseconds.fetch_add(new.as_nanos() as u64, Ordering::Relaxed);
    }

    pub(super) fn total(&self) -> Duration {
        Duration::from_nanos(self.nanoseconds.load(Ordering::Relaxed))
    }
}

#[cfg(target_os = "linux")]
fn thread_cpu_time() -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the pointer is to a `timespec` of this frame, and the clock exists since Linux 2.6.12.
    let result = unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time) };
    if result != 0 {
        return Duration::ZERO;
    }
    Duration::new(u64::try_from(time.tv_sec).unwrap_or(0), u32::try_from(time.tv_nsec).unwrap_or(0))
}

#[cfg(not(target_os = "linux"))]
fn thread_cpu_time() -> Duration {
    Duration::ZERO
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn cpu_time_grows_while_a_thread_computes_and_not_while_it_sleeps() {
        let time = CpuTime::default();
        time.add_thread();
        let start = time.total();
        std::thread::sleep(Duration::from_millis(50));
        time.add_thread();
        let slept = time.total() - start;
        assert!(slept < Duration::from_millis(25), "a sleeping thread uses no CPU time: {slept:?}");
        while time.total() - start < Duration::from_millis(30) {
            std::hint::black_box((0..10_000).sum::<u64>());
            time.add_thread();
        }
    }
}
