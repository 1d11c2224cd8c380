//! What this machine has, as plain data: its processor, with the cores this process may really use, and its memory,
//! with the limit a container puts on it.
//!
//! [`Machine::probe`] asks once and never fails: what the system does not tell stays unknown (an empty brand, no
//! limit). Whoever needs another answer, a test above all, builds a [`Machine`] by hand, so nothing here knows who
//! asks. On Linux the facts come from `/proc` and `/sys`, read through a function that tests replace by a table of
//! texts; elsewhere from the `sysinfo` crate.

mod cpu;
mod gpu;
mod memory;
mod process;

#[cfg(any(target_os = "linux", test))]
mod linux;
#[cfg(not(target_os = "linux"))]
mod other;

pub use cpu::{Cpu, Features};
pub use gpu::{Gpu, gpus};
pub use memory::Memory;
pub use process::Process;

/// The machine as this process sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Machine {
    /// The processor and the cores that may be used.
    pub cpu: Cpu,
    /// Main memory and its limit.
    pub memory: Memory,
}

impl Machine {
    /// Asks the system, on Linux by reading a few small files and two for each hardware thread. Affinity and container
    /// limits are those of this moment.
    #[must_use]
    pub fn probe() -> Self {
        #[cfg(target_os = "linux")]
        return linux::probe();
        #[cfg(not(target_os = "linux"))]
        return other::probe();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_machine_has_a_core_to_use_and_memory() {
        let machine = Machine::probe();
        let Machine { cpu, memory } = &machine;
        assert!(!cpu.usable_cores.is_empty(), "a running process has a core: {machine:?}");
        assert!(cpu.usable_cores.len() <= cpu.physical_cores, "at most one per physical core: {machine:?}");
        assert!(cpu.physical_cores <= cpu.logical, "a core has at least one thread: {machine:?}");
        assert!(memory.total_bytes > 1 << 24, "this test needs more than 16 MiB to run: {machine:?}");
        assert!(memory.available_bytes <= memory.total_bytes, "what is free is part of the whole: {machine:?}");
    }

    #[test]
    fn the_features_are_those_of_this_architecture() {
        let features = Machine::probe().cpu.features;
        let x86 = [features.sse41, features.avx2, features.fma, features.f16c, features.avx512f, features.avxvnni];
        let arm = [features.neon, features.dotprod, features.i8mm];
        assert!(cfg!(target_arch = "x86_64") || !x86.contains(&true), "an x86 feature off x86: {features:?}");
        assert!(cfg!(target_arch = "aarch64") || !arm.contains(&true), "an ARM feature off ARM: {features:?}");
        assert!(!features.avx512vnni || features.avx512f, "VNNI on 512 bits stands on AVX-512F: {features:?}");
    }
}
