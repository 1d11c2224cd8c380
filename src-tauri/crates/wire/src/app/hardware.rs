//! `GET /app/hardware`: what this machine has, and what of it is used.

use serde::{Deserialize, Serialize};

/// The machine now. Each line of `GET /app/hardware/events` is one too, every two seconds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "the parts say what they are")]
pub struct HardwareResponse {
    pub cpu: HardwareCpu,
    pub memory: HardwareMemory,
    pub kernels: HardwareKernels,
    /// Empty where none was found, or where this system is not asked for them yet.
    pub gpus: Vec<HardwareGpu>,
    pub disks: Vec<HardwareDisk>,
}

/// The processor.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HardwareCpu {
    /// Its maker's name for it; empty where the system does not say.
    pub brand: String,
    /// `x86_64`, `aarch64`, ...
    pub architecture: String,
    /// Cores of the whole machine.
    pub physical_cores: u64,
    /// Hardware threads of the whole machine.
    pub logical_cores: u64,
    /// Cores that Cairn computes on: affinity and a container's quota count.
    pub used_cores: u64,
    /// Instruction sets that count for computing, `avx2` for instance.
    pub features: Vec<String>,
}

/// Main memory.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HardwareMemory {
    /// Of the whole machine.
    pub total_bytes: u64,
    /// A container's limit, where there is one below that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit_bytes: Option<u64>,
    /// What could be had now without swapping.
    pub available_bytes: u64,
    /// What the daemon has, mapped model files that are in memory among them; absent where the system does not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ours_bytes: Option<u64>,
    /// Of `ours_bytes`, weights and other files that are mapped: the system takes them back when it needs room.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ours_mapped_bytes: Option<u64>,
    /// Bytes of kept prefixes in RAM.
    pub kept_bytes: u64,
}

/// Variants of the compute kernels.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HardwareKernels {
    /// The name of the one that computes.
    pub in_use: String,
    /// All of this build, the best first.
    pub variants: Vec<KernelVariant>,
}

/// A variant of the compute kernels.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct KernelVariant {
    /// `avx2-fma-f16c` for instance; what the setting `engine.kernel` takes.
    pub name: String,
    /// Whether this processor can run it.
    pub usable: bool,
    /// Whether it is the one that computes.
    pub in_use: bool,
    /// What this processor lacks for it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub lacks: Vec<String>,
}

/// A graphics processor.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HardwareGpu {
    /// Its name, or its maker and number.
    pub name: String,
    /// `nvidia`, `amd`, `intel`, `apple` or another word.
    pub vendor: String,
    /// The driver that has it, with its version where that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub driver: Option<String>,
    /// Its own memory, where that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_bytes: Option<u64>,
    /// Whether this version of Cairn computes on it.
    pub used: bool,
}

/// A disk that Cairn keeps something on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HardwareDisk {
    /// What is there.
    pub holds: DiskHolds,
    /// The folder.
    pub path: String,
    /// Of the disk; absent where the system does not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub total_bytes: Option<u64>,
    /// What this user may still write.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub free_bytes: Option<u64>,
}

/// What is on a disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum DiskHolds {
    /// The library of models that is written.
    Models,
    /// A library that is only read.
    Linked,
    /// Kept prefixes.
    Cache,
    /// Chats, and what else is the user's.
    Data,
}
