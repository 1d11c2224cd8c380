//! Limits of control groups, the mechanism behind containers.
//!
//! A group's limit applies to all groups below it, so the smallest limit between this process's group and the mount point is in
//! force. Both versions are read: `Documentation/admin-guide/cgroup-v2.rst` (`memory.max`, `cpu.max`) and `cgroup-v1/memory.rst`
//! with `scheduler/sched-bwc.rst` (`memory.limit_in_bytes`, `cpu.cfs_quota_us`). `/proc/self/mountinfo` lists the mount points and
//! `/proc/self/cgroup` the groups of this process. A container may see its host's group path without the folders of that path.
//! Missing folders are skipped; the mount point is then the container's own group.

use super::Read;

/// Limits in force; `None` without a limit.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Limits {
    /// CPU quota in cores: 1.5 is one and a half.
    pub(super) cpu_quota_cores: Option<f64>,
    /// The lowest memory limit.
    pub(super) memory_bytes: Option<u64>,
    /// Smallest rest below any memory limit. Cached file pages count as free.
    pub(super) memory_left_bytes: Option<u64>,
}

/// Files of one version of control groups.
struct Version {
    /// File system type in `mountinfo`.
    mount_type: &'static str,
    memory_limit: &'static str,
    memory_used: &'static str,
    /// Line of `memory.stat` with the pages that the kernel reclaims first.
    memory_cached: &'static str,
    /// Reads a group's CPU quota in cores.
    cpu_quota: fn(Read<'_>, &str) -> Option<f64>,
}

const V1: Version = Version {
    mount_type: "cgroup",
    memory_limit: "memory.limit_in_bytes",
    memory_used: "memory.usage_in_bytes",
    memory_cached: "total_inactive_file",
    cpu_quota: |read, group| {
        let quota = number(read, &format!("{group}/cpu.cfs_quota_us"))?;
        let period = number(read, &format!("{group}/cpu.cfs_period_us"))?;
        cores(quota, period)
    },
};

const V2: Version = Version {
    mount_type: "cgroup2",
    memory_limit: "memory.max",
    memory_used: "memory.current",
    memory_cached: "inactive_file",
    cpu_quota: |read, group| {
        let text = read(&format!("{group}/cpu.max"))?;
        let (quota, period) = text.trim().split_once(' ')?;
        cores(quota.parse().ok()?, period.parse().ok()?)
    },
};

/// Reads the limits of this process.
pub(super) fn limits(read: Read<'_>) -> Limits {
    let mut limits = Limits::default();
    let mounts = read("/proc/self/mountinfo").unwrap_or_default();
    let memberships = read("/proc/self/cgroup").unwrap_or_default();
    for mount in mounts.lines().filter_map(Mount::parse) {
        let version = if mount.kind == V2.mount_type { &V2 } else { &V1 };
        for membership in memberships.lines() {
            // `hierarchy:controllers:path`; version 2 is the line with no controllers.
            let mut fields = membership.splitn(3, ':');
            let (Some(_), Some(controllers), Some(path)) = (fields.next(), fields.next(), fields.next()) else {
                continue;
            };
            if mount.has_controller(controllers) {
                for group in mount.groups(path) {
                    limits.narrow(read, version, &group);
                }
            }
        }
    }
    limits
}

impl Limits {
    fn narrow(&mut self, read: Read<'_>, version: &Version, group: &str) {
        if let Some(quota) = (version.cpu_quota)(read, group) {
            self.cpu_quota_cores = Some(self.cpu_quota_cores.map_or(quota, |lowest| lowest.min(quota)));
        }
        // Without a limit, version 2 writes `max` and version 1 a number near 2^63.
        let limit = number(read, &format!("{group}/{}", version.memory_limit)).filter(|limit| *limit < 1 << 60);
        let Some(limit) = limit else { return };
        self.memory_bytes = Some(self.memory_bytes.map_or(limit, |lowest| lowest.min(limit)));
        let Some(used) = number(read, &format!("{group}/{}", version.memory_used)) else { return };
        let left = limit.saturating_sub(used.saturating_sub(cached(read, version, group)));
        self.memory_left_bytes = Some(self.memory_left_bytes.map_or(left, |lowest| lowest.min(left)));
    }
}

/// One mounted hierarchy of control groups.
struct Mount<'a> {
    kind: &'a str,
    /// Group that is the root of the mount.
    root: &'a str,
    point: &'a str,
    /// Super block options; in version 1 they name the controllers.
    options: &'a str,
}

impl<'a> Mount<'a> {
    /// Parses a line of `mountinfo`: `id parent dev root point options [tags] - type source super-options`.
    fn parse(line: &'a str) -> Option<Self> {
        let (before, after) = line.split_once(" - ")?;
        let mut before = before.split(' ').skip(3);
        let (root, point) = (before.next()?, before.next()?);
        let mut after = after.split(' ');
        let (kind, options) = (after.next()?, after.nth(1)?);
        let is_cgroup = kind == V1.mount_type || kind == V2.mount_type;
        is_cgroup.then_some(Self { kind, root, point, options })
    }

    /// Returns whether the mount has one of the controllers that matter here.
    fn has_controller(&self, controllers: &str) -> bool {
        if self.kind == V2.mount_type {
            return controllers.is_empty();
        }
        let mounted = |name| self.options.split(',').any(|option| option == name);
        controllers.split(',').any(|name| matches!(name, "memory" | "cpu") && mounted(name))
    }

    /// Returns the folders from the group at `path` up to the mount point.
    fn groups(&self, path: &str) -> Vec<String> {
        let below = if self.root == "/" { Some(path) } else { path.strip_prefix(self.root) };
        let mut below = below.unwrap_or("").trim_end_matches('/');
        let mut folders = Vec::new();
        loop {
            folders.push(format!("{}{below}", self.point));
            let Some(parent) = below.rfind('/') else { return folders };
            below = &below[..parent];
        }
    }
}

fn cores(quota_us: u64, period_us: u64) -> Option<f64> {
    (period_us > 0).then(|| quota_us as f64 / period_us as f64)
}

/// Reads a file that contains one number. `max` and `-1`, which mean no limit, give `None`.
fn number(read: Read<'_>, path: &str) -> Option<u64> {
    read(path)?.trim().parse().ok()
}

fn cached(read: Read<'_>, version: &Version, group: &str) -> u64 {
    let stat = read(&format!("{group}/memory.stat")).unwrap_or_default();
    let value = stat.lines().find_map(|line| line.strip_prefix(version.memory_cached)?.strip_prefix(' '));
    value.and_then(|value| value.trim().parse().ok()).unwrap_or(0)
}
