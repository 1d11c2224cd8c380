//! Hardware threads: which are online, which this process may use, and which share a physical core.
//!
//! Formats: `Documentation/admin-guide/cputopology.rst` and `proc(5)` for the masks.

use std::collections::BTreeSet;

use super::Read;

/// Highest accepted thread id, from Linux's own limit (`CONFIG_NR_CPUS` is at most 8192). It bounds the size of parsed lists.
const MAX_CPU_ID: usize = 8191;

/// Returns the ids in the affinity mask of the calling thread.
pub(super) fn allowed(read: Read<'_>) -> Option<Vec<usize>> {
    let status = read("/proc/thread-self/status").or_else(|| read("/proc/self/status"))?;
    let list = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"))?;
    parse_list(list).filter(|ids| !ids.is_empty())
}

/// Returns the ids of online threads.
pub(super) fn online(read: Read<'_>) -> Option<Vec<usize>> {
    parse_list(&read("/sys/devices/system/cpu/online")?).filter(|ids| !ids.is_empty())
}

/// Returns the first of `ids` on each physical core, ascending. A thread without sibling information counts as its own core.
pub(super) fn one_per_core(read: Read<'_>, ids: &[usize]) -> Vec<usize> {
    let mut taken = BTreeSet::new();
    let mut first_ids = Vec::new();
    for &id in ids {
        if !taken.insert(id) {
            continue;
        }
        let topology = format!("/sys/devices/system/cpu/cpu{id}/topology");
        let siblings = read(&format!("{topology}/core_cpus_list"))
            .or_else(|| read(&format!("{topology}/thread_siblings_list")))
            .and_then(|list| parse_list(&list));
        taken.extend(siblings.unwrap_or_default());
        first_ids.push(id);
    }
    first_ids
}

/// Parses a list such as `0-3,8,10-11` to ascending unique ids. Returns `None` if it is invalid.
pub(super) fn parse_list(list: &str) -> Option<Vec<usize>> {
    let mut ids = BTreeSet::new();
    for part in list.trim().split(',').filter(|part| !part.is_empty()) {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last) = (first.trim().parse::<usize>().ok()?, last.trim().parse::<usize>().ok()?);
        if first > last || last > MAX_CPU_ID {
            return None;
        }
        ids.extend(first..=last);
    }
    Some(ids.into_iter().collect())
}
