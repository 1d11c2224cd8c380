//! Main memory as plain data.

/// Main memory, and how much of it this process can expect to get.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Memory {
    /// Memory of the whole machine.
    pub total_bytes: u64,
    /// What could be had now without swapping: the system's own estimate, and no more than what is left below the
    /// container's limit. Pages that only cache files count as free.
    pub available_bytes: u64,
    /// The container's (control group's) limit, when there is one below `total_bytes`.
    pub limit_bytes: Option<u64>,
}
