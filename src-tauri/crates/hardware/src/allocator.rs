//! Memory that the C library's allocator holds.

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
