//! Memory of this process.

/// Memory of this process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Process {
    /// Resident bytes.
    pub resident_bytes: u64,
    /// Part of `resident_bytes` in mapped files, which the system can evict.
    pub mapped_bytes: u64,
}
