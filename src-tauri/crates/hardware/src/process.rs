//! What this process has of the machine, as plain data.

/// Memory of this process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Process {
    /// Bytes of it that are in memory.
    pub resident_bytes: u64,
    /// Of these, bytes of mapped files, which the system drops when it needs room.
    pub mapped_bytes: u64,
}

impl Process {
    /// Asks the system; none where this is not known how.
    #[must_use]
    pub fn probe() -> Option<Self> {
        #[cfg(target_os = "linux")]
        return crate::linux::process();
        #[cfg(not(target_os = "linux"))]
        return None;
    }
}
