//! Time that cores spent on threads, from `/proc/stat`, see `proc(5)`.

use std::time::Duration;

use super::Read;

/// Returns the time for which these cores ran threads of any process at normal or higher priority, or interrupts, or
/// were taken by the host of a virtual machine, since the start of the system.
pub(super) fn busy(read: Read<'_>, cores: &[usize], ticks_per_s: u64) -> Option<Duration> {
    let stat = read("/proc/stat")?;
    let (mut ticks, mut found) = (0_u64, 0);
    // The first line has the sum of all cores and no number.
    for line in stat.lines().map_while(|line| line.strip_prefix("cpu")) {
        let mut fields = line.split_ascii_whitespace();
        if !line.starts_with(|first: char| first.is_ascii_digit()) || !cores.contains(&fields.next()?.parse().ok()?) {
            continue;
        }
        let mut next = || fields.next()?.parse::<u64>().ok();
        let [user, _low_priority, system, _idle, _disk] = [next()?, next()?, next()?, next()?, next()?];
        // Old kernels have fewer fields.
        let [interrupts, soft_interrupts, stolen] = [next(), next(), next()].map(Option::unwrap_or_default);
        ticks += user + system + interrupts + soft_interrupts + stolen;
        found += 1;
    }
    if found < cores.len() {
        return None;
    }
    Some(Duration::from_millis(ticks.saturating_mul(1000) / ticks_per_s.max(1)))
}
