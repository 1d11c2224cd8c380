//! Limits of the memory of a process.

use std::fs;
use std::path::PathBuf;

use crate::process::Size;

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
