//! Assignment of byte ranges to streams. No I/O.
//!
//! A byte is missing, leased (assigned to a stream) or received. **Invariants:** leases overlap neither each other nor
//! received ranges, and each byte is received once. So a misbehaving stream does no harm: only bytes that [`Plan::take`]
//! accepts are written.
//!
//! Leases start at the front of the blob, so that the sequential hash is never far behind. A range of a healthy stream is
//! not assigned to another stream, because the server continues to send for a while, and on a slow connection the bytes
//! would be transferred twice. So that all streams still end at the same time, a lease lasts a few seconds and gets smaller
//! towards the end (guided self-scheduling: Polychronopoulos and Kuck, 1987). An idle stream takes over a half or all of
//! the range of a stream only if that one is much slower. Positions at which readers wait come first.

use std::collections::VecDeque;
use std::ops::Range;
use std::time::Duration;

use cairn_store::Ranges;

use super::speed::Speed;

/// A stream is slow if the mean of the others of its source is this many times faster.
const SLOW_FACTOR: u64 = 8;
/// The range of a stream is taken over by a stream that is this many times faster.
const TAKEOVER_FACTOR: u64 = 4;
/// A lease is at most this fraction of a stream's share of the unassigned bytes: so a stream that is four times slower
/// still ends at the same time.
const GUIDE: u64 = 4;
/// Each takeover of the same range doubles the waiting time, at most this many times.
const MAX_DOUBLINGS: u32 = 6;

/// Bytes that are downloaded for a waiting reader before the next one.
const READ_AHEAD_BYTES: u64 = 2 << 20;
/// Maximum number of waiting positions.
const MAX_POSITIONS: usize = 256;

/// Settings of the plan.
#[derive(Debug, Clone)]
pub(super) struct PlanConfig {
    /// Maximum size of a lease.
    pub(super) segment_bytes: u64,
    /// Minimum size of both halves of a split lease. The minimum size of a lease is a quarter of it.
    pub(super) split_bytes: u64,
    /// Target duration of a lease.
    pub(super) lease_duration: Duration,
    /// A lease that would take longer than this may be taken over, after the same time for measuring its speed.
    pub(super) steal_after: Duration,
    /// Time for measuring the speed of a stream.
    pub(super) slow_after: Duration,
    /// Expected number of streams.
    pub(super) streams: u64,
}

/// A stream without a lease.
#[derive(Debug, Clone, Copy)]
pub(super) struct IdleStream {
    /// Source of the stream.
    pub(super) source: usize,
    /// Whether the source ignores ranges, so that the lease is a whole gap.
    pub(super) whole: bool,
    /// Speed of one stream from this source, if known.
    pub(super) bytes_per_s: Option<u64>,
}

/// Id of a lease. Never reused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct LeaseId(u64);

#[derive(Debug)]
struct Lease {
    id: LeaseId,
    source: usize,
    whole: bool,
    next: u64,
    end: u64,
    received_bytes: u64,
    since: Duration,
    speed: Speed,
    /// How often the range was taken over.
    takeovers: u32,
}

/// What to do with received bytes.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Received {
    /// Skip the first `skip` bytes and write `len` bytes at `at`. `finished`: the lease is complete.
    Write { skip: usize, len: usize, at: u64, finished: bool },
    /// The bytes are before the lease's next byte.
    Duplicate,
    /// The bytes are after the lease's next byte.
    Gap { expected: u64 },
    /// The lease was taken over by another stream.
    Reassigned,
}

/// Received and leased ranges of a blob.
#[derive(Debug)]
pub(super) struct Plan {
    size_bytes: u64,
    /// End of the bytes to assign, at most the size.
    end: u64,
    received: Ranges,
    received_bytes: u64,
    leases: Vec<Lease>,
    next_id: u64,
    /// Positions at which readers wait, oldest first.
    read_positions: VecDeque<u64>,
    rules: PlanConfig,
}

impl Plan {
    pub(super) fn new(size_bytes: u64, received: Ranges, rules: PlanConfig) -> Self {
        let received_bytes = received.total_bytes();
        Self {
            size_bytes,
            end: size_bytes,
            received,
            received_bytes,
            leases: Vec::new(),
            next_id: 0,
            read_positions: VecDeque::new(),
            rules,
        }
    }

    /// Limits the assigned ranges to the first `bytes` of the blob. Running leases continue.
    pub(super) fn limit(&mut self, bytes: u64) {
        self.end = bytes.min(self.size_bytes);
    }

    pub(super) fn received_bytes(&self) -> u64 {
        self.received_bytes
    }

    pub(super) fn is_complete(&self) -> bool {
        self.received_bytes == self.size_bytes
    }

    /// Number of running streams.
    pub(super) fn leases(&self) -> usize {
        self.leases.len()
    }

    /// Assigns a range to an idle stream.
    pub(super) fn lease(&mut self, now: Duration, idle: IdleStream) -> Option<(LeaseId, Range<u64>)> {
        let (range, takeovers) = match self.first_gap(0) {
            Some(gap) if idle.whole => (gap, 0),
            Some(gap) => {
                (self.next_requested().unwrap_or(gap.start..gap.end.min(gap.start + self.portion_bytes(idle))), 0)
            }
            None => self.take_over(now, idle)?,
        };
        let id = LeaseId(self.next_id);
        self.next_id += 1;
        let speed = Speed::new(now, self.rules.steal_after);
        let IdleStream { source, whole, .. } = idle;
        let (next, end) = (range.start, range.end);
        self.leases.push(Lease { id, source, whole, next, end, received_bytes: 0, since: now, speed, takeovers });
        Some((id, range))
    }

    /// Size of the next lease of a stream.
    fn portion_bytes(&self, idle: IdleStream) -> u64 {
        let leased: u64 = self.leases.iter().map(|lease| lease.end - lease.next).sum();
        let streams = self.rules.streams.max(self.leases.len() as u64).max(1);
        let fair = self.end.saturating_sub(self.received_bytes + leased) / (GUIDE * streams);
        let least = (self.rules.split_bytes / 4).max(1);
        // A stream of unknown speed starts with the minimum.
        let due = idle.bytes_per_s.map_or(0.0, |speed| speed as f64 * self.rules.lease_duration.as_secs_f64());
        fair.min(due as u64).clamp(least, self.rules.segment_bytes.max(least))
    }

    /// Adds positions at which readers wait. Bytes from there are assigned first.
    pub(super) fn request_positions(&mut self, positions: VecDeque<u64>) {
        let new = positions.into_iter().filter(|at| *at < self.size_bytes);
        self.read_positions.extend(new);
        self.read_positions.truncate(MAX_POSITIONS);
    }

    /// The first position at which a reader waits and that is neither received nor leased.
    fn next_requested(&mut self) -> Option<Range<u64>> {
        while let Some(at) = self.read_positions.pop_front() {
            if let Some(gap) = self.first_gap(at).filter(|gap| gap.start == at) {
                return Some(at..gap.end.min(at + READ_AHEAD_BYTES));
            }
        }
        None
    }

    /// Accepts bytes that begin at `offset`.
    pub(super) fn take(&mut self, id: LeaseId, offset: u64, len: usize, now: Duration) -> Received {
        let Some(lease) = self.leases.iter_mut().find(|lease| lease.id == id) else { return Received::Reassigned };
        if offset > lease.next {
            return Received::Gap { expected: lease.next };
        }
        let received_end = offset.saturating_add(len as u64).min(lease.end);
        if received_end <= lease.next {
            return Received::Duplicate;
        }
        let at = lease.next;
        let fresh = received_end - at;
        lease.next = received_end;
        lease.received_bytes += fresh;
        lease.speed.add(now, fresh);
        let finished = lease.next == lease.end;
        self.received.insert(at..received_end);
        self.received_bytes += fresh;
        // Both are at most `len`.
        Received::Write { skip: (at - offset) as usize, len: fresh as usize, at, finished }
    }

    /// Extends a complete lease to the next missing range, because its source continues to send.
    pub(super) fn extend(&mut self, id: LeaseId) -> bool {
        let Some(end) = self.leases.iter().find(|lease| lease.id == id).map(|lease| lease.end) else { return false };
        let Some(gap) = self.first_gap(end) else { return false };
        let Some(lease) = self.leases.iter_mut().find(|lease| lease.id == id) else { return false };
        (lease.next, lease.end) = (gap.start, gap.end);
        true
    }

    /// Ends a lease; its remaining bytes are missing again. Returns the speed, unless the lease was taken over or ended too
    /// early without data.
    pub(super) fn release(&mut self, id: LeaseId, now: Duration) -> Option<u64> {
        let at = self.leases.iter().position(|lease| lease.id == id)?;
        let lease = self.leases.swap_remove(at);
        if lease.received_bytes == 0 && now < lease.since + self.rules.steal_after {
            return None;
        }
        let took = now.saturating_sub(lease.since).max(Duration::from_millis(1));
        Some((lease.received_bytes as f64 / took.as_secs_f64()) as u64)
    }

    /// Whether a stream is much slower than the others of its source, after the measuring time.
    pub(super) fn is_slow(&self, id: LeaseId, now: Duration) -> bool {
        let old = |lease: &&Lease| now.saturating_sub(lease.since) >= self.rules.slow_after;
        let Some(lease) = self.leases.iter().find(|lease| lease.id == id).filter(old) else { return false };
        let others = self.leases.iter().filter(|other| other.id != id && other.source == lease.source);
        let speeds: Vec<u64> = others.map(|other| other.speed.bytes_per_s(now)).collect();
        let mean = speeds.iter().sum::<u64>().checked_div(speeds.len() as u64).unwrap_or(0);
        lease.speed.bytes_per_s(now).saturating_mul(SLOW_FACTOR) < mean
    }

    /// The first gap from `from` that is neither received nor leased.
    fn first_gap(&self, from: u64) -> Option<Range<u64>> {
        let mut taken = self.received.clone();
        self.leases.iter().for_each(|lease| taken.insert(lease.next..lease.end));
        taken.first_gap(from, self.end)
    }

    /// Takes over a range of a much slower stream.
    fn take_over(&mut self, now: Duration, idle: IdleStream) -> Option<(Range<u64>, u32)> {
        // A source without ranges would send everything again.
        if idle.whole {
            return None;
        }
        let split_bytes = self.rules.split_bytes;
        let too_long = |lease: &&mut Lease| {
            let left = lease.end - lease.next;
            let min_duration = self.rules.steal_after * (1 << lease.takeovers.min(MAX_DOUBLINGS));
            let old = now.saturating_sub(lease.since) >= min_duration;
            let faster = match idle.bytes_per_s {
                Some(speed) => lease.speed.bytes_per_s(now).saturating_mul(TAKEOVER_FACTOR) < speed,
                // Another source may be faster; the same one is probably not.
                None => lease.source != idle.source,
            };
            // A source without ranges has not reached the end of its lease, so a takeover there costs nothing.
            let ahead = lease.whole && lease.source != idle.source && left >= 2 * split_bytes;
            left > 0 && old && lease.seconds_left(now) > min_duration.as_secs_f64() && (faster || ahead)
        };
        let slowest = self.leases.iter_mut().filter(too_long).max_by(|a, b| {
            let left = |lease: &Lease| lease.end - lease.next;
            a.seconds_left(now).total_cmp(&b.seconds_left(now)).then(left(a).cmp(&left(b)))
        })?;
        let (id, next, end, takeovers) = (slowest.id, slowest.next, slowest.end, slowest.takeovers);
        if end - next >= 2 * split_bytes {
            let middle = next + (end - next) / 2;
            slowest.end = middle;
            return Some((middle..end, takeovers));
        }
        self.leases.retain(|lease| lease.id != id);
        Some((next..end, takeovers + 1))
    }
}

impl Lease {
    fn seconds_left(&self, now: Duration) -> f64 {
        (self.end - self.next) as f64 / self.speed.bytes_per_s(now) as f64
    }
}

#[cfg(test)]
mod tests;
