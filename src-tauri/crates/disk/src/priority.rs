//! Lower priorities for background threads.

/// Lowers the priority of the calling thread (nice 19), so that other threads on its core run first. Only Linux has priorities of
/// single threads; elsewhere this does nothing. A refusal is ignored.
pub fn set_low_thread_priority() {
    #[cfg(target_os = "linux")]
    let _ = rustix::process::setpriority_process(None, 19);
}

/// Runs the calling thread only on cores that are otherwise idle (Linux: `SCHED_IDLE`, see sched(7)). Any waking thread preempts
/// it at once, which nice 19 does not guarantee. The thread may not run for long, so it must hold no lock that others need.
/// A refusal is ignored.
pub fn set_idle_thread_priority() {
    use thread_priority::{ThreadPriority, set_current_thread_priority};
    #[cfg(target_os = "linux")]
    let _ = {
        use thread_priority::unix::{
            NormalThreadSchedulePolicy, ThreadSchedulePolicy, set_thread_priority_and_policy, thread_native_id,
        };
        let idle = ThreadSchedulePolicy::Normal(NormalThreadSchedulePolicy::Idle);
        set_thread_priority_and_policy(thread_native_id(), ThreadPriority::Min, idle)
            .or_else(|_| set_current_thread_priority(ThreadPriority::Min))
    };
    #[cfg(not(target_os = "linux"))]
    let _ = set_current_thread_priority(ThreadPriority::Min);
}
