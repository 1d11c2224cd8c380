//! Hardware of this machine as plain data: the processor with the cores that this process may use, and the memory with a
//! container's limit.
//!
//! [`Machine::probe`] never fails: missing facts stay empty (an empty brand, no limit). Tests build a [`Machine`] by hand. On Linux
//! the facts come from `/proc` and `/sys`, read through a function that tests replace with a table of texts; elsewhere from the
//! `sysinfo` crate.

mod allocator;
mod cpu;
mod gpu;
mod memory;
mod process;

#[cfg(any(target_os = "linux", test))]
mod linux;
#[cfg(not(target_os = "linux"))]
mod other;

pub use allocator::{limit_free_memory, release_free_memory};
pub use cpu::{Cpu, Features};
pub use gpu::Gpu;
pub use memory::Memory;
pub use process::Process;

/// Hardware as this process sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Machine {
    /// Processor and usable cores.
    pub cpu: Cpu,
    /// Main memory and its limit.
    pub memory: Memory,
}

impl Machine {
    /// Queries the system. On Linux this reads a few small files and two per hardware thread. Affinity and container limits are
    /// those of the moment of the call.
    #[must_use]
    pub fn probe() -> Self {
        #[cfg(target_os = "linux")]
        return linux::probe();
        #[cfg(not(target_os = "linux"))]
        return other::probe();
    }
}

impl Process {
    /// Queries the system. Returns `None` on systems other than Linux.
    #[must_use]
    pub fn probe() -> Option<Self> {
        #[cfg(target_os = "linux")]
        return linux::process();
        #[cfg(not(target_os = "linux"))]
        return None;
    }
}

/// Returns the time for which these cores, by the system's numbers, ran threads of any process since the start of the system,
/// without threads of lowered priority. Its unit is some 10 ms. Returns `None` on systems other than Linux.
#[must_use]
pub fn busy_time(cores: &[usize]) -> Option<std::time::Duration> {
    #[cfg(target_os = "linux")]
    return linux::busy_time(cores);
    #[cfg(not(target_os = "linux"))]
    {
        let _ = cores;
        None
    }
}

/// Returns the graphics processors of this machine.
#[must_use]
pub fn gpus() -> Vec<Gpu> {
    #[cfg(target_os = "linux")]
    return linux::gpus();
    #[cfg(not(target_os = "linux"))]
    return Vec::new();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn probe_finds_a_usable_core_and_memory() {
        let machine = Machine::probe();
        let Machine { cpu, memory } = &machine;
        assert!(!cpu.usable_cores.is_empty(), "at least one usable core: {machine:?}");
        assert!(cpu.usable_cores.len() <= cpu.physical_cores, "at most one per physical core: {machine:?}");
        assert!(cpu.physical_cores <= cpu.logical, "a core has at least one thread: {machine:?}");
        assert!(memory.total_bytes > 1 << 24, "this test needs more than 16 MiB to run: {machine:?}");
        assert!(memory.available_bytes <= memory.total_bytes, "available memory is at most the total: {machine:?}");
    }

    #[test]
    fn features_belong_to_this_architecture() {
        let features = Machine::probe().cpu.features;
        let x86 = [features.sse41, features.avx2, features.fma, features.f16c, features.avx512f, features.avxvnni];
        let arm = [features.neon, features.dotprod, features.i8mm];
        assert!(cfg!(target_arch = "x86_64") || !x86.contains(&true), "an x86 feature off x86: {features:?}");
        assert!(cfg!(target_arch = "aarch64") || !arm.contains(&true), "an ARM feature off ARM: {features:?}");
        assert!(!features.avx512vnni || features.avx512f, "VNNI on 512 bits implies AVX-512F: {features:?}");
    }
}
