//! Graphics processors as plain data, detected without vendor libraries.
//!
//! On Linux from the kernel's Direct Rendering Manager under `/sys/class/drm` and from NVIDIA's files under `/proc`. Other systems
//! are not supported yet.

/// Graphics processor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Gpu {
    /// Model name, or vendor name and device id.
    pub name: String,
    /// `nvidia`, `amd` or `intel`.
    pub vendor: String,
    /// Driver, with its version if available.
    pub driver: Option<String>,
    /// Dedicated memory, if the driver reports it.
    pub memory_bytes: Option<u64>,
}
