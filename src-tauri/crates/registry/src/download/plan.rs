//! Which stream fetches which bytes of a blob: a plan without any input or output, driven by what it is told.
//!
//! A byte is missing, leased (a stream was told to fetch it) or received. **Invariants:** leases do not overlap, with each
//! other or with what was received; a byte is received once. So streams may be as wrong or as late as they like: what
//! [`Plan::take`] does not hand out is not written.
//!
//! Leases are given from the front of the blob in segments, so that the digest, which is computed in order, is never far
//! behind. When all is leased, an idle stream takes half of what the slowest lease still has to fetch, and at the very
//! end all of it. Before all that, a little is fetched from where readers wait.

use std::collections::VecDeque;
use std::ops::Range;
use std::time::Duration;

use cairn_store::Ranges;

use super::speed::Speed;

/// Over how long the speed of one stream is measured.
const WINDOW: Duration = Duration::from_secs(3);
/// A stream this many times slower than the others' mean is slow.
const SLOW_FACTOR: u64 = 8;
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
    /// A lease is split only where both halves have this many bytes.
    pub(super) split_bytes: u64,
    /// A lease that would take longer than this is worth taking from, once it has had as long to show its speed.
    pub(super) steal_after: Duration,
    /// A stream is given this long to show its speed.
    pub(super) slow_after: Duration,
}

/// One stream's task. Never used twice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct LeaseId(u64);

#[derive(Debug)]
struct Lease {
    id: LeaseId,
    next: u64,
    end: u64,
    since: Duration,
    speed: Speed,
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
    takeovers: u32,
    /// Where readers wait, the one that said so first in front.
    wishes: VecDeque<u64>,
    rules: Rules,
}

impl Plan {
    pub(super) fn new(size_bytes: u64, received: Ranges, rules: Rules) -> Self {
        let received_bytes = received.total_bytes();
        Self {
            size_bytes,
            received,
            received_bytes,
            leases: Vec::new(),
            next_id: 0,
            takeovers: 0,
            wishes: VecDeque::new(),
            rules,
        }
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

    /// Whether [`Plan::lease`] would give one.
    pub(super) fn has_work(&self, now: Duration) -> bool {
        self.first_gap(0).is_some() || self.slowest(now).is_some()
    }

    /// Gives an idle stream something to fetch. `whole`: its source sends everything in any case, so it gets no segment
    /// but all that is missing in one piece.
    pub(super) fn lease(&mut self, now: Duration, whole: bool) -> Option<(LeaseId, Range<u64>)> {
        let range = match self.first_gap(0) {
            Some(gap) if whole => gap,
            Some(gap) => self.wished().unwrap_or(gap.start..gap.end.min(gap.start + self.rules.segment_bytes)),
            None => self.steal(now)?,
        };
        let id = LeaseId(self.next_id);
        self.next_id += 1;
        let speed = Speed::new(now, WINDOW);
        self.leases.push(Lease { id, next: range.start, end: range.end, since: now, speed });
        Some((id, range))
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

    /// The stream has ended. What it did not fetch is missing again.
    pub(super) fn release(&mut self, id: LeaseId) {
        self.leases.retain(|lease| lease.id != id);
    }

    /// Whether a stream had time to show its speed and is far slower than the others.
    pub(super) fn is_slow(&self, id: LeaseId, now: Duration) -> bool {
        let old = |lease: &&Lease| now.saturating_sub(lease.since) >= self.rules.slow_after;
        let Some(lease) = self.leases.iter().find(|lease| lease.id == id).filter(old) else { return false };
        let others = self.leases.iter().filter(|other| other.id != id);
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

    /// The lease that will take longest, where that is too long.
    fn slowest(&self, now: Duration) -> Option<&Lease> {
        let too_long = |lease: &&Lease| {
            let left = lease.end - lease.next;
            let patience = match left < 2 * self.rules.split_bytes {
                true => self.rules.steal_after * (1 << self.takeovers.min(MAX_DOUBLINGS)),
                false => self.rules.steal_after,
            };
            left > 0 && now.saturating_sub(lease.since) >= patience && lease.seconds_left(now) > patience.as_secs_f64()
        };
        let slow = self.leases.iter().filter(too_long);
        slow.max_by(|a, b| {
            let left = |lease: &Lease| lease.end - lease.next;
            a.seconds_left(now).total_cmp(&b.seconds_left(now)).then(left(a).cmp(&left(b)))
        })
    }

    fn steal(&mut self, now: Duration) -> Option<Range<u64>> {
        let slowest = self.slowest(now)?.id;
        let split_bytes = self.rules.split_bytes;
        let lease = self.leases.iter_mut().find(|lease| lease.id == slowest)?;
        let (next, end) = (lease.next, lease.end);
        if end - next >= 2 * split_bytes {
            let middle = next + (end - next) / 2;
            lease.end = middle;
            return Some(middle..end);
        }
        self.takeovers += 1;
        self.release(slowest);
        Some(next..end)
    }
}

impl Lease {
    fn seconds_left(&self, now: Duration) -> f64 {
        (self.end - self.next) as f64 / self.speed.bytes_per_s(now) as f64
    }
}

#[cfg(test)]
mod tests;
