//! Probe for Linux, from files in `/proc` and `/sys`.
//!
//! All functions read files through [`Read`], so that tests can describe any machine. Without `/proc` or `/sys`, as in a bare
//! chroot, the values come from the C library and the standard library.

#[cfg(target_os = "linux")]
use crate::Gpu;
use crate::{Cpu, Features, Machine, Memory, Process};

mod cgroup;
mod core_time;
mod gpu;
mod topology;

#[cfg(test)]
mod tests;

/// Returns the text of the file at an absolute path, or `None` if it cannot be read.
type Read<'a> = &'a dyn Fn(&str) -> Option<String>;

/// Probes this machine.
#[cfg(target_os = "linux")]
pub(crate) fn probe() -> Machine {
    let read = |path: &str| std::fs::read_to_string(path).ok();
    let fallback =
        Fallback { cores: std::thread::available_parallelism().map_or(1, usize::from), memory_bytes: physical_bytes() };
    describe(&read, &fallback, Features::detect())
}

/// Returns the graphics processors of this machine.
#[cfg(target_os = "linux")]
pub(crate) fn gpus() -> Vec<Gpu> {
    gpu::gpus(&|path| std::fs::read_to_string(path).ok())
}

/// Returns the memory use of this process.
#[cfg(target_os = "linux")]
pub(crate) fn process() -> Option<Process> {
    resident(&std::fs::read_to_string("/proc/self/status").ok()?)
}

/// Returns the time for which these cores ran threads of any process.
#[cfg(target_os = "linux")]
pub(crate) fn busy_time(cores: &[usize]) -> Option<std::time::Duration> {
    core_time::busy(&|path| std::fs::read_to_string(path).ok(), cores, ticks_per_s())
}

/// Parses `/proc/self/status`, whose lines have the format of `/proc/meminfo`.
fn resident(status: &str) -> Option<Process> {
    let resident_bytes = meminfo_bytes(status, "VmRSS")?;
    Some(Process { resident_bytes, mapped_bytes: meminfo_bytes(status, "RssFile").unwrap_or(0) })
}

/// Values that need no file.
struct Fallback {
    /// Hardware threads that this process may use.
    cores: usize,
    /// Memory of the whole machine.
    memory_bytes: u64,
}

fn describe(read: Read<'_>, fallback: &Fallback, features: Features) -> Machine {
    let limits = cgroup::limits(read);
    Machine { cpu: cpu(read, fallback, &limits, features), memory: memory(read, fallback, &limits) }
}

fn cpu(read: Read<'_>, fallback: &Fallback, limits: &cgroup::Limits, features: Features) -> Cpu {
    let allowed = topology::allowed(read).unwrap_or_else(|| (0..fallback.cores).collect());
    let online = topology::online(read).unwrap_or_else(|| allowed.clone());
    let mut usable_cores = topology::one_per_core(read, &allowed);
    // A quota of 1.5 is enough for one busy thread: a second one would be throttled for half of every period, and the compute
    // threads run in step, at the pace of the slowest.
    if let Some(quota) = limits.cpu_quota_cores {
        usable_cores.truncate((quota as usize).max(1));
    }
    Cpu {
        brand: brand(&read("/proc/cpuinfo").unwrap_or_default()),
        physical_cores: topology::one_per_core(read, &online).len(),
        logical: online.len(),
        usable_cores,
        features,
    }
}

fn memory(read: Read<'_>, fallback: &Fallback, limits: &cgroup::Limits) -> Memory {
    let info = read("/proc/meminfo").unwrap_or_default();
    let total_bytes = meminfo_bytes(&info, "MemTotal").unwrap_or(fallback.memory_bytes);
    let free_bytes = meminfo_bytes(&info, "MemAvailable").or_else(|| meminfo_bytes(&info, "MemFree"));
    let mut available_bytes = free_bytes.unwrap_or(total_bytes).min(total_bytes);
    if let Some(left) = limits.memory_left_bytes {
        available_bytes = available_bytes.min(left);
    }
    Memory { total_bytes, available_bytes, limit_bytes: limits.memory_bytes.filter(|limit| *limit < total_bytes) }
}

/// Returns the value of a line of `/proc/meminfo`, such as `MemTotal:  16316412 kB`.
fn meminfo_bytes(info: &str, name: &str) -> Option<u64> {
    let rest = info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
    rest.split_whitespace().next()?.parse::<u64>().ok()?.checked_mul(1024)
}

/// Returns the processor's name from `/proc/cpuinfo`. ARM kernels report only the implementer and the part number.
fn brand(cpuinfo: &str) -> String {
    let field = |name: &str| {
        cpuinfo.lines().find_map(|line| {
            let (key, value) = line.split_once(':')?;
            (key.trim() == name && !value.trim().is_empty()).then(|| value.trim())
        })
    };
    match (field("model name"), field("CPU implementer"), field("CPU part")) {
        (Some(name), _, _) => name.to_owned(),
        (None, Some(maker), Some(part)) => format!("ARM implementer {maker} part {part}"),
        _ => String::new(),
    }
}

/// Returns the physical memory from the C library, or 0 on failure.
#[cfg(target_os = "linux")]
#[expect(unsafe_code, reason = "sysconf has no safe binding in the standard library")]
fn physical_bytes() -> u64 {
    // SAFETY: `sysconf` takes a plain number, accesses no memory of the process and is thread-safe (POSIX).
    let pages = unsafe { libc::sysconf(libc::_SC_PHYS_PAGES) };
    // SAFETY: as above.
    let page_bytes = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    u64::try_from(pages).unwrap_or(0).saturating_mul(u64::try_from(page_bytes).unwrap_or(0))
}

/// Returns the unit of times in `/proc/stat`.
#[cfg(target_os = "linux")]
#[expect(unsafe_code, reason = "sysconf has no safe binding in the standard library")]
fn ticks_per_s() -> u64 {
    // SAFETY: `sysconf` takes a plain number, accesses no memory of the process and is thread-safe (POSIX).
    u64::try_from(unsafe { libc::sysconf(libc::_SC_CLK_TCK) }).unwrap_or(100)
}
