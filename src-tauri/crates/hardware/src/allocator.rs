//! Memory that the C library's allocator holds.

/// Allocations of at least this size are mapped, and returned to the system when they are freed.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
const MAPPED_BYTES: libc::c_int = 1 << 20;

/// Limits the free memory that the allocator holds. Without it, the GNU C library raises its threshold for mapped allocations up to
/// 32 MiB whenever one is freed, and each of its arenas then holds up to 64 MiB at its end, which [`release_free_memory`] cannot
/// release. On other systems this does nothing. Must be called before other threads allocate much.
#[cfg_attr(
    all(target_os = "linux", target_env = "gnu"),
    expect(unsafe_code, reason = "mallopt has no safe binding in the standard library")
)]
pub fn limit_free_memory() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    {
        // SAFETY: mallopt(3) only sets a parameter of the allocator, under its lock. Any value is valid; if it is refused, the
        // allocator holds more memory.
        let _ = unsafe { libc::mallopt(libc::M_MMAP_THRESHOLD, MAPPED_BYTES) };
    }
}

/// Returns free memory of the allocator to the system. The GNU C library keeps what threads have freed, up to 64 MiB for each of
/// several arenas. On other systems this does nothing. Takes milliseconds.
#[cfg_attr(
    all(target_os = "linux", target_env = "gnu"),
    expect(unsafe_code, reason = "malloc_trim has no safe binding in the standard library")
)]
pub fn release_free_memory() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    {
        // SAFETY: malloc_trim(3) may be called by any thread at any time, and frees only memory that is not allocated. The result,
        // whether memory was released, does not matter.
        let _ = unsafe { libc::malloc_trim(0) };
    }
}

#[cfg(all(test, target_os = "linux", target_env = "gnu"))]
mod tests {
    use std::sync::Barrier;

    use super::*;

    /// Returns the anonymous memory of this process.
    fn anonymous_bytes() -> u64 {
        let status = std::fs::read_to_string("/proc/self/status").expect("the process runs");
        let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:")).expect("the kernel reports it");
        line.split_whitespace().next().and_then(|kib| kib.parse::<u64>().ok()).expect("a number") << 10
    }

    #[test]
    fn freed_memory_of_many_threads_returns_to_the_system() {
        const THREADS: usize = 8;
        limit_free_memory();
        let before = anonymous_bytes();
        let barrier = Barrier::new(THREADS + 1);
        let grown = std::thread::scope(|scope| {
            for _ in 0..THREADS {
                scope.spawn(|| {
                    // The first size raises the allocator's threshold, the others are below it.
                    for mebibytes in [31, 24, 16] {
                        drop(std::hint::black_box(vec![1_u8; mebibytes << 20]));
                    }
                    barrier.wait();
                    barrier.wait();
                });
            }
            barrier.wait();
            release_free_memory();
            let grown = anonymous_bytes().saturating_sub(before);
            barrier.wait();
            grown
        });
        assert!(grown < 48 << 20, "{} MiB of freed memory are still resident", grown >> 20);
    }
}
