//! `GET /app/hardware`: hardware of the machine, and its use by Cairn.

use serde::{Deserialize, Serialize};

use super::KernelRate;

/// Current state of the machine. `GET /app/hardware/events` sends one per line, every two seconds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "the types of the fields have the documentation")]
pub struct HardwareResponse {
    pub cpu: HardwareCpu,
    pub memory: HardwareMemory,
    pub kernels: HardwareKernels,
    /// Empty if none was found, or if this system is not supported yet.
    pub gpus: Vec<HardwareGpu>,
    pub disks: Vec<HardwareDisk>,
}

/// The processor.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HardwareCpu {
    /// Brand name; empty if the system does not report it.
    pub brand: String,
    /// `x86_64`, `aarch64`, ...
    pub architecture: String,
    /// Cores of the whole machine.
    pub physical_cores: u64,
    /// Hardware threads of the whole machine.
    pub logical_cores: u64,
    /// Cores that Cairn uses, within affinity and a container's quota.
    pub used_cores: u64,
    /// Instruction sets that the kernels can use, for example `avx2`.
    pub features: Vec<String>,
}

/// Main memory.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HardwareMemory {
    /// Bytes of the whole machine.
    pub total_bytes: u64,
    /// A container's limit, if it is lower.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit_bytes: Option<u64>,
    /// Bytes available without swapping.
    pub available_bytes: u64,
    /// Bytes of the daemon, including resident mapped model files; absent if the system does not report them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ours_bytes: Option<u64>,
    /// Bytes of `ours_bytes` that are mapped files. The system can reclaim them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ours_mapped_bytes: Option<u64>,
    /// Bytes of the RAM tier.
    pub kept_bytes: u64,
}

/// Variants of the compute kernels.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct HardwareKernels {
    /// Name of the variant in use.
    pub in_use: String,
    /// All variants of this build, best first.
    pub variants: Vec<KernelVariant>,
    /// Whether they are being measured.
    pub measuring: bool,
}

/// A variant of the compute kernels.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct KernelVariant {
    /// Name, for example `avx2-fma-f16c`, as in the setting `engine.kernel`.
    pub name: String,
    /// Whether this processor can run it.
    pub usable: bool,
    /// Whether the engine uses it.
    pub in_use: bool,
    /// Features that this processor lacks.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub lacks: Vec<String>,
    /// Measured rates by type of weights; empty before the first measurement.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rates: Vec<KernelRate>,
}

/// A graphics processor.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HardwareGpu {
    /// Name, or vendor and number.
    pub name: String,
    /// `nvidia`, `amd`, `intel`, `apple` or another word.
    pub vendor: String,
    /// Driver, with its version if known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub driver: Option<String>,
    /// Dedicated memory, if known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_bytes: Option<u64>,
    /// Whether this version of Cairn computes on this processor.
    pub used: bool,
}

/// A disk with a folder of Cairn.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HardwareDisk {
    /// Use of the folder.
    pub holds: DiskHolds,
    /// The folder.
    pub path: String,
    /// Bytes of the disk; absent if the system does not report them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub total_bytes: Option<u64>,
    /// Bytes that this user may still write.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub free_bytes: Option<u64>,
}

/// Use of a folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum DiskHolds {
    /// Cairn's own library.
    Models,
    /// A read-only library.
    Linked,
    /// The SSD tier.
    Cache,
    /// Chats and other data of the user.
    Data,
}
