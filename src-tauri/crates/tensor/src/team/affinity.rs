//! Pinning a thread to a core: without it two threads of a team may settle on one core and wait for each other.
#![cfg_attr(target_os = "linux", expect(unsafe_code, reason = "the scheduler is reached through libc"))]

/// Pins the current thread to this core, by the system's number. Returns whether the system allowed it.
#[cfg(target_os = "linux")]
pub(super) fn pin(core: usize) -> bool {
    if core >= libc::CPU_SETSIZE as usize {
        return false;
    }
    // SAFETY: a `cpu_set_t` is an array of integers, for which all zeros is a value: the empty set.
    let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    // SAFETY: `core` was just found to be within the set's capacity.
    unsafe { libc::CPU_SET(core, &mut set) };
    // SAFETY: thread 0 means the caller, and the size is that of the set behind the pointer.
    unsafe { libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &raw const set) == 0 }
}

/// Elsewhere the system's scheduler decides.
#[cfg(not(target_os = "linux"))]
pub(super) fn pin(_core: usize) -> bool {
    false
}
