//! Memory, open files and threads of a process, and limits of its memory.

use std::fmt;
use std::fs;
use std::path::PathBuf;

/// Growth that is acceptable: allocators keep some freed memory, and pools keep some threads and connections.
const MOST_GROWN: Size = Size { memory_bytes: 64 << 20, files: 16, threads: 16 };

/// Resources that a process uses.
#[derive(Debug, Clone, Copy)]
pub(super) struct Size {
    /// Anonymous memory. Mapped model files are not counted.
    memory_bytes: u64,
    files: u64,
    threads: u64,
}

impl Size {
    pub(super) fn of(pid: u32) -> Self {
        let status = fs::read_to_string(format!("/proc/{pid}/status")).expect("the daemon runs");
        let number = |key: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(key)).expect("the kernel reports it");
            line.split_whitespace().nth(0).and_then(|number| number.parse::<u64>().ok()).expect("a number")
        };
        let files = fs::read_dir(format!("/proc/{pid}/fd")).expect("the daemon runs").count() as u64;
        Self { memory_bytes: number("RssAnon:") << 10, files, threads: number("Threads:") }
    }

    /// Whether this is at most an acceptable growth of `before`.
    pub(super) fn is_within(&self, before: &Self) -> bool {
        self.memory_bytes <= before.memory_bytes + MOST_GROWN.memory_bytes
            && self.files <= before.files + MOST_GROWN.files
            && self.threads <= before.threads + MOST_GROWN.threads
    }
}

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} MiB, {} open files, {} threads", self.memory_bytes >> 20, self.files, self.threads)
    }
}

/// A control group that limits the memory of a process until it is dropped.
pub(super) struct MemoryLimit {
    group: PathBuf,
    parent: PathBuf,
    pid: u32,
}

impl MemoryLimit {
    /// Limits a process to slightly more than it uses, so that the kernel drops its cached file pages. `None` if this machine
    /// does not let a test make control groups.
    pub(super) fn above_use(pid: u32) -> Option<Self> {
        let (parent, limit) = [("/sys/fs/cgroup/memory", "memory.limit_in_bytes"), ("/sys/fs/cgroup", "memory.max")]
            .into_iter()
            .map(|(parent, limit)| (PathBuf::from(parent), limit))
            .find(|(parent, _)| parent.join("cgroup.procs").exists())?;
        let group = parent.join(format!("cairn-soak-{pid}"));
        fs::create_dir(&group).ok()?;
        let limited = Self { group, parent, pid };
        let bytes = Size::of(pid).memory_bytes + (96 << 20);
        fs::write(limited.group.join(limit), bytes.to_string()).ok()?;
        fs::write(limited.group.join("cgroup.procs"), pid.to_string()).ok()?;
        Some(limited)
    }
}

impl Drop for MemoryLimit {
    fn drop(&mut self) {
        // The process may have ended.
        let _ = fs::write(self.parent.join("cgroup.procs"), self.pid.to_string());
        let _ = fs::remove_dir(&self.group);
    }
}
