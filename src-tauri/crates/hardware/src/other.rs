//! Probing on systems other than Linux. There is no affinity to honour on macOS, and no control groups on either, so
//! the usable cores are the first ids, one for each physical core.

use sysinfo::{CpuRefreshKind, MemoryRefreshKind, RefreshKind, System};

use crate::{Cpu, Features, Machine, Memory};

/// Asks the system through the `sysinfo` crate.
pub(crate) fn probe() -> Machine {
    let kind =
        RefreshKind::nothing().with_cpu(CpuRefreshKind::nothing()).with_memory(MemoryRefreshKind::nothing().with_ram());
    let system = System::new_with_specifics(kind);
    let allowed = std::thread::available_parallelism().map_or(1, usize::from);
    let logical = system.cpus().len().max(1);
    let physical_cores = System::physical_core_count().unwrap_or(logical).clamp(1, logical);
    let brand = system.cpus().first().map(|cpu| cpu.brand().trim().to_owned()).unwrap_or_default();
    // Hardware threads of one core have neighbouring ids on Windows; macOS pins nothing, ids only count there.
    let threads_per_core = logical / physical_cores;
    let usable_cores = (0..physical_cores.min(allowed)).map(|core| core * threads_per_core).collect();
    let total_bytes = system.total_memory();
    Machine {
        cpu: Cpu { brand, physical_cores, logical, usable_cores, features: Features::detect() },
        memory: Memory { total_bytes, available_bytes: system.available_memory().min(total_bytes), limit_bytes: None },
    }
}
