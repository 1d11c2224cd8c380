//! Which stream fetches which bytes of a blob: a plan without any input or output, driven by what it is told.
//!
//! A byte is missing, leased (a stream was told to fetch it) or received. **Invariants:** leases do not overlap, with each
//! other or with what was received; a byte is received once. So streams may be as wrong or as late as they like: what
//! [`Plan::take`] does not hand out is not written.
//!
//! Leases are given from the front of the blob, so that the digest, which is computed in order, is never far behind. What
//! was asked of a healthy stream is asked of no other: a server goes on sending for a while after somebody else took over,
//! and on a slow line those bytes would be paid for twice. So that all streams end together all the same, a lease is what
//! its stream can fetch in a few seconds, and ever less towards the end (guided self-scheduling: Polychronopoulos and Kuck,
//! 1987). Only a stream that is far slower than the one who asks is rescued from: of half of what it has left, or all.
//! Before all that, a little is fetched from where readers wait.

use std::collections::VecDeque;
use std::ops::Range;
use std::time::Duration;

use cairn_store::Ranges;

use super::speed::Speed;

/// A stream this many times slower than the mean of the others from its source is slow.
const SLOW_FACTOR: u64 = 8;
/// A stream this many times slower than the one who asks is rescued from.
const RESCUE_FACTOR: u64 = 4;
/// A lease is at most this part of each stream's share of what nobody has begun: who is four times slower than the others
/// ends with them all the same.
const GUIDE: u64 = 4;
/// Taking the same tail over again waits twice as long each time, this many times at most.
const MAX_DOUBLINGS: u32 = 6;

/// What is fetched for a reader that waits, before the next one has its turn.
const WISH_BYTES: u64 = 2 << 20;
/// Wishes that wait.
const MAX_WISHES: usize = 256;

/// How leases are given.
#[derive(Debug, Clone)]
pub(super) struct Rules {
    /// The most bytes of one lease.
    pub(super) segment_bytes: u64,
    /// A lease is split only where both halves have this many bytes. The least that is asked for is a quarter of it.
    pub(super) split_bytes: u64,
    /// How long a lease is meant to take.
    pub(super) lease_for: Duration,
    /// A lease that would take longer than this may be rescued, once it has had as long to show its speed.
    pub(super) steal_after: Duration,
    /// A stream is given this long to show its speed.
    pub(super) slow_after: Duration,
    /// So many streams are likely to be at work.
    pub(super) streams: u64,
}

/// A stream that wants something to fetch.
#[derive(Debug, Clone, Copy)]
pub(super) struct Idle {
    /// Whom it would ask.
    pub(super) source: usize,
    /// That one sends everything in any case, so it is asked for no part but for all that is missing in one piece.
    pub(super) whole: bool,
    /// What one stream from there brings, where that is known.
    pub(super) bytes_per_s: Option<u64>,
}

/// One stream's task. Never used twice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct LeaseId(u64);

#[derive(Debug)]
struct Lease {
    id: LeaseId,
    source: usize,
    whole: bool,
    next: u64,
    end: u64,
    got_bytes: u64,
    since: Duration,
    speed: Speed,
    /// How often what it has to fetch was taken from another.
    takeovers: u32,
}

/// What to do with bytes that came.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Taken {
    /// Write `len` bytes of them, without the first `skip`, at `at`. `finished`: the lease has all its bytes now.
    Write { skip: usize, len: usize, at: u64, finished: bool },
    /// They lie before those that were asked for.
    Before,
    /// They lie beyond: bytes between are missing.
    Beyond { asked: u64 },
    /// Another stream has the task now.
    Gone,
}

/// Which bytes are received, and which are asked for.
#[derive(Debug)]
pub(super) struct Plan {
    size_bytes: u64,
    received: Ranges,
    received_bytes: u64,
    leases: Vec<Lease>,
    next_id: u64,
    /// Where readers wait, the one that said so first in front.
    wishes: VecDeque<u64>,
    rules: Rules,
}

impl Plan {
    pub(super) fn new(size_bytes: u64, received: Ranges, rules: Rules) -> Self {
        let received_bytes = received.total_bytes();
        Self { size_bytes, received, received_bytes, leases: Vec::new(), next_id: 0, wishes: VecDeque::new(), rules }
    }

    pub(super) fn received_bytes(&self) -> u64 {
        self.received_bytes
    }

    pub(super) fn is_complete(&self) -> bool {
        self.received_bytes == self.size_bytes
    }

    /// How many streams are at work.
    pub(super) fn leases(&self) -> usize {
        self.leases.len()
    }

    /// Gives an idle stream something to fetch.
    pub(super) fn lease(&mut self, now: Duration, idle: Idle) -> Option<(LeaseId, Range<u64>)> {
        let (range, takeovers) = match self.first_gap(0) {
            Some(gap) if idle.whole => (gap, 0),
            Some(gap) => (self.wished().unwrap_or(gap.start..gap.end.min(gap.start + self.portion_bytes(idle))), 0),
            None => self.rescue(now, idle)?,
        };
        let id = LeaseId(self.next_id);
        self.next_id += 1;
        let speed = Speed::new(now, self.rules.steal_after);
        let Idle { source, whole, .. } = idle;
        let (next, end) = (range.start, range.end);
        self.leases.push(Lease { id, source, whole, next, end, got_bytes: 0, since: now, speed, takeovers });
        Some((id, range))
    }

    /// How much a stream is asked for at once.
    fn portion_bytes(&self, idle: Idle) -> u64 {
        let begun: u64 = self.leases.iter().map(|lease| lease.end - lease.next).sum();
        let streams = self.rules.streams.max(self.leases.len() as u64).max(1);
        let fair = self.size_bytes.saturating_sub(self.received_bytes + begun) / (GUIDE * streams);
        let least = (self.rules.split_bytes / 4).max(1);
        // Who is not known yet shows itself with little.
        let due = idle.bytes_per_s.map_or(0.0, |speed| speed as f64 * self.rules.lease_for.as_secs_f64());
        fair.min(due as u64).clamp(least, self.rules.segment_bytes.max(least))
    }

    /// Readers wait at these places: a little from each goes before what is next in order.
    pub(super) fn wish(&mut self, positions: VecDeque<u64>) {
        let new = positions.into_iter().filter(|at| *at < self.size_bytes);
        self.wishes.extend(new);
        self.wishes.truncate(MAX_WISHES);
    }

    /// The first place where a reader waits and nobody fetches.
    fn wished(&mut self) -> Option<Range<u64>> {
        while let Some(at) = self.wishes.pop_front() {
            if let Some(gap) = self.first_gap(at).filter(|gap| gap.start == at) {
                return Some(at..gap.end.min(at + WISH_BYTES));
            }
        }
        None
    }

    /// Takes bytes that begin at `offset`.
    pub(super) fn take(&mut self, id: LeaseId, offset: u64, len: usize, now: Duration) -> Taken {
        let Some(lease) = self.leases.iter_mut().find(|lease| lease.id == id) else { return Taken::Gone };
        if offset > lease.next {
            return Taken::Beyond { asked: lease.next };
        }
        let came_end = offset.saturating_add(len as u64).min(lease.end);
        if came_end <= lease.next {
            return Taken::Before;
        }
        let at = lease.next;
        let fresh = came_end - at;
        lease.next = came_end;
        lease.got_bytes += fresh;
        lease.speed.add(now, fresh);
        let finished = lease.next == lease.end;
        self.received.insert(at..came_end);
        self.received_bytes += fresh;
        // Both fit: they are not more than `len`.
        Taken::Write { skip: (at - offset) as usize, len: fresh as usize, at, finished }
    }

    /// Gives a stream that has all its bytes the next missing ones behind them, because its source goes on sending.
    pub(super) fn extend(&mut self, id: LeaseId) -> bool {
        let Some(end) = self.leases.iter().find(|lease| lease.id == id).map(|lease| lease.end) else { return false };
        let Some(gap) = self.first_gap(end) else { return false };
        let Some(lease) = self.leases.iter_mut().find(|lease| lease.id == id) else { return false };
        (lease.next, lease.end) = (gap.start, gap.end);
        true
    }

    /// The stream has ended. What it did not fetch is missing again. Returns how fast it was, unless it lost its lease or
    /// brought nothing in no time.
    pub(super) fn release(&mut self, id: LeaseId, now: Duration) -> Option<u64> {
        let at = self.leases.iter().position(|lease| lease.id == id)?;
        let lease = self.leases.swap_remove(at);
        if lease.got_bytes == 0 && now < lease.since + self.rules.steal_after {
            return None;
        }
        let took = now.saturating_sub(lease.since).max(Duration::from_millis(1));
        Some((lease.got_bytes as f64 / took.as_secs_f64()) as u64)
    }

    /// Whether a stream had time to show its speed and is far slower than the others from the same source.
    pub(super) fn is_slow(&self, id: LeaseId, now: Duration) -> bool {
        let old = |lease: &&Lease| now.saturating_sub(lease.since) >= self.rules.slow_after;
        let Some(lease) = self.leases.iter().find(|lease| lease.id == id).filter(old) else { return false };
        let others = self.leases.iter().filter(|other| other.id != id && other.source == lease.source);
        let speeds: Vec<u64> = others.map(|other| other.speed.bytes_per_s(now)).collect();
        let mean = speeds.iter().sum::<u64>().checked_div(speeds.len() as u64).unwrap_or(0);
        lease.speed.bytes_per_s(now).saturating_mul(SLOW_FACTOR) < mean
    }

    /// The first bytes from `from` on that nobody has or fetches.
    fn first_gap(&self, from: u64) -> Option<Range<u64>> {
        let mut taken = self.received.clone();
        self.leases.iter().for_each(|lease| taken.insert(lease.next..lease.end));
        taken.first_gap(from, self.size_bytes)
    }

    /// Takes what another stream would take far too long for.
    fn rescue(&mut self, now: Duration, idle: Idle) -> Option<(Range<u64>, u32)> {
        // All of it would come once more.
        if idle.whole {
            return None;
        }
        let split_bytes = self.rules.split_bytes;
        let too_long = |lease: &&mut Lease| {
            let left = lease.end - lease.next;
            let patience = self.rules.steal_after * (1 << lease.takeovers.min(MAX_DOUBLINGS));
            let old = now.saturating_sub(lease.since) >= patience;
            let faster = match idle.bytes_per_s {
                Some(speed) => lease.speed.bytes_per_s(now).saturating_mul(RESCUE_FACTOR) < speed,
                // Another source may be faster. The same one is not likely to.
                None => lease.source != idle.source,
            };
            // Who sends everything in order has not come to its end yet, so that costs nothing.
            let ahead = lease.whole && lease.source != idle.source && left >= 2 * split_bytes;
            left > 0 && old && lease.seconds_left(now) > patience.as_secs_f64() && (faster || ahead)
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
