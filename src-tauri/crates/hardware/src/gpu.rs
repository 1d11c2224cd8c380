//! Graphics processors, as plain data: what the system says of them without any library of their makers.
//!
//! On Linux from the kernel's Direct Rendering Manager under `/sys/class/drm` and from NVIDIA's own files under `/proc`;
//! elsewhere none are found yet.

/// A graphics processor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Gpu {
    /// Its name, or its maker and its number.
    pub name: String,
    /// `nvidia`, `amd`, `intel`, or the maker's number.
    pub vendor: String,
    /// The driver that has it, with its version where that is known.
    pub driver: Option<String>,
    /// Its own memory, where that is known.
    pub memory_bytes: Option<u64>,
}

/// The graphics processors of this machine.
#[must_use]
pub fn gpus() -> Vec<Gpu> {
    #[cfg(target_os = "linux")]
    return crate::linux::gpus();
    #[cfg(not(target_os = "linux"))]
    return Vec::new();
}
