//! Main memory as plain data.

/// Main memory and the part that is available to this process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Memory {
    /// Memory of the whole machine.
    pub total_bytes: u64,
    /// Memory that can be allocated without swapping: the system's estimate, at most the rest of the container's limit. Cached
    /// file pages count as free.
    pub available_bytes: u64,
    /// Limit of the container (control group), if it is below `total_bytes`.
    pub limit_bytes: Option<u64>,
}

impl Memory {
    /// Memory that this process can use at most: all of it, or the container's limit.
    #[must_use]
    pub fn usable_bytes(&self) -> u64 {
        self.limit_bytes.unwrap_or(u64::MAX).min(self.total_bytes)
    }
}
