//! Probing on Linux, from the texts in `/proc` and `/sys`.
//!
//! Everything is a pure function of [`Read`], so that tests can describe any machine; only [`probe`] names the real
//! files. Where `/proc` or `/sys` is missing, as in a bare chroot, the C library and the standard library answer.

#[cfg(target_os = "linux")]
use crate::Gpu;
use crate::{Cpu, Features, Machine, Memory, Process};

mod cgroup;
mod gpu;
mod topology;

#[cfg(test)]
mod tests;

/// Gives the text of the file at an absolute path, or nothing where it cannot be read.
type Read<'a> = &'a dyn Fn(&str) -> Option<String>;

/// Asks this machine.
#[cfg(target_os = "linux")]
pub(crate) fn probe() -> Machine {
    let read = |path: &str| std::fs::read_to_string(path).ok();
    let fallback =
        Fallback { cores: std::thread::available_parallelism().map_or(1, usize::from), memory_bytes: physical_bytes() };
    describe(&read, &fallback, Features::detect())
}

/// Asks this machine for its graphics processors.
#[cfg(target_os = "linux")]
pub(crate) fn gpus() -> Vec<Gpu> {
    gpu::gpus(&|path| std::fs::read_to_string(path).ok())
}

/// Asks this machine for what this process has of its memory.
#[cfg(target_os = "linux")]
pub(crate) fn process() -> Option<Process> {
    resident(&std::fs::read_to_string("/proc/self/status").ok()?)
}

/// Reads `/proc/self/status`, whose lines are like those of `/proc/meminfo`.
fn resident(status: &str) -> Option<Process> {
    let resident_bytes = meminfo_bytes(status, "VmRSS")?;
    Some(Process { resident_bytes, mapped_bytes: meminfo_bytes(status, "RssFile").unwrap_or(0) })
}

/// What is known without any file.
struct Fallback {
    /// Hardware threads this process may use.
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
    // A quota of 1.5 pays for one busy thread: a second would be stopped for half of every period, and a team of
    // threads that work in step goes at the pace of the slowest.
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

/// The value of one line of `/proc/meminfo`, such as `MemTotal:  16316412 kB`.
fn meminfo_bytes(info: &str, name: &str) -> Option<u64> {
    let rest = info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
    rest.split_whitespace().next()?.parse::<u64>().ok()?.checked_mul(1024)
}

/// The processor's name out of `/proc/cpuinfo`. ARM kernels give no name there, only who made the core and which one.
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

/// Physical memory as the C library reports it; 0 when it does not.
#[cfg(target_os = "linux")]
#[expect(unsafe_code, reason = "sysconf has no safe binding in the standard library")]
fn physical_bytes() -> u64 {
    // SAFETY: `sysconf` takes a plain number, touches no memory of ours and may be called from any thread (POSIX).
    let pages = unsafe { libc::sysconf(libc::_SC_PHYS_PAGES) };
    // SAFETY: as above.
    let page_bytes = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    u64::try_from(pages).unwrap_or(0).saturating_mul(u64::try_from(page_bytes).unwrap_or(0))
}
