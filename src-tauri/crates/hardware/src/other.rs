//! Probe for macOS and Windows. Affinity is ignored and there are no control groups, so the usable cores are the first ids, one per
//! physical core.

use sysinfo::{CpuRefreshKind, MemoryRefreshKind, RefreshKind, System};

use crate::{Cpu, Features, Machine, Memory};

/// Queries the system through the `sysinfo` crate.
pub(crate) fn probe() -> Machine {
    let kind =
        RefreshKind::nothing().with_cpu(CpuRefreshKind::nothing()).with_memory(MemoryRefreshKind::nothing().with_ram());
    let system = System::new_with_specifics(kind);
    let allowed = std::thread::available_parallelism().map_or(1, usize::from);
    let logical = system.cpus().len().max(1);
    let physical_cores = System::physical_core_count().unwrap_or(logical).clamp(1, logical);
    let brand = system.cpus().first().map(|cpu| cpu.brand().trim().to_owned()).unwrap_or_default();
    // On Windows the hardware threads of a core have consecutive ids. macOS has no pinning, so only the count matters.
    let threads_per_core = logical / physical_cores;
    let usable_cores = (0..physical_cores.min(allowed)).map(|core| core * threads_per_core).collect();
    let total_bytes = system.total_memory();
    Machine {
        cpu: Cpu { brand, physical_cores, logical, usable_cores, features: Features::detect() },
        memory: Memory { total_bytes, available_bytes: system.available_memory().min(total_bytes), limit_bytes: None },
    }
}
