//! Selection of sources, and their backoff after failures.
//!
//! Sources are in the caller's order. The first available one is the leader: so a local mirror is preferred to the origin,
//! and a failing mirror is skipped during its backoff. If the leader alone would need long, the next source is tried with
//! one stream, and gets more streams if it is fast enough. Each source has its own streams, so that the shares of sources
//! follow their speeds. Simultaneous failures of several streams count once, and received bytes reset the count.

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use cairn_store::{Digest, Ranges};

use super::DownloadConfig;
use super::error::{DownloadError, DownloadNotice};
use super::speed::Speed;
use crate::{BlobSource, SourceError};

/// Bytes that reset the failure count. A quarter of the requested bytes is also sufficient.
const RESET_BYTES: u64 = 16 << 10;

/// Window of the speed measurement of a source.
const WINDOW: Duration = Duration::from_secs(3);
/// A source is used only if it is faster than the speed of the other sources divided by this.
const MIN_SPEED_DIVISOR: u64 = 4;
/// Maximum number of sources in parallel.
pub(super) const MAX_PARALLEL_SOURCES: usize = 3;

/// Bytes that reset the failure count, for a request of `requested_bytes`.
pub(super) fn failure_reset_bytes(requested_bytes: u64) -> u64 {
    (requested_bytes / 4).clamp(1, RESET_BYTES)
}

/// A source with its statistics.
pub(super) struct Source {
    pub(super) via: Arc<dyn BlobSource>,
    /// The source supports ranges. Otherwise it always sends the whole blob and gets one stream.
    pub(super) supports_ranges: bool,
    /// Ranges received from this source.
    pub(super) supplied: Ranges,
    excluded: Option<Exclusion>,
    failures: u32,
    silences: u32,
    since_failure_bytes: u64,
    not_before: Duration,
    active: u32,
    max_streams: u32,
    last: String,
    /// Whether the last failure of the source was an unusable response, not a broken connection.
    answered: bool,
    speed: Speed,
    /// Speed of one stream.
    stream_bytes_per_s: Option<u64>,
    /// Time of the first request.
    asked_at: Option<Duration>,
    /// Whether a notice about the parallel use of this source was sent.
    joined: bool,
}

/// Why a source is excluded.
enum Exclusion {
    /// Not used in this attempt.
    Skipped,
    /// The source does not have the blob.
    Absent,
    /// A permanent error.
    Failed(DownloadError),
}

/// The selected sources.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Pick {
    /// The first of these for which there is work.
    Candidates(Vec<usize>),
    /// No source before this time.
    WaitUntil(Duration),
    /// No source is left.
    Exhausted,
}

/// The sources of one download.
pub(super) struct Health {
    pub(super) sources: Vec<Source>,
    /// The rate limit of all downloads: a second source is useless if it is reached.
    pub(super) limit_bytes_per_s: Option<u64>,
    /// Index of the leader.
    current: usize,
    config: Arc<DownloadConfig>,
    jitter: u64,
}

impl Health {
    /// `wrong` are the sources that sent wrong bytes before. If `alone` is set, only that source is used.
    pub(super) fn new(
        sources: &[Arc<dyn BlobSource>],
        config: Arc<DownloadConfig>,
        wrong: &[usize],
        alone: Option<usize>,
    ) -> Self {
        let make = |(index, via): (usize, &Arc<dyn BlobSource>)| Source {
            via: Arc::clone(via),
            supports_ranges: true,
            supplied: Ranges::new(),
            excluded: (wrong.contains(&index) || alone.is_some_and(|alone| alone != index))
                .then_some(Exclusion::Skipped),
            failures: 0,
            silences: 0,
            since_failure_bytes: 0,
            not_before: Duration::ZERO,
            active: 0,
            max_streams: u32::MAX,
            last: String::new(),
            answered: false,
            speed: Speed::new(Duration::ZERO, WINDOW),
            stream_bytes_per_s: None,
            asked_at: None,
            joined: false,
        };
        let sources: Vec<Source> = sources.iter().enumerate().map(make).collect();
        let current = sources.iter().position(|source| source.excluded.is_none()).unwrap_or(0);
        let jitter = config.seed;
        Self { sources, limit_bytes_per_s: None, current, config, jitter }
    }

    /// The host of the leader.
    pub(super) fn current_host(&self) -> Option<&str> {
        self.sources.get(self.current).map(|source| source.via.host())
    }

    /// Selects sources for a stream while `left_bytes` are missing. The source `avoid` comes last.
    pub(super) fn pick(&self, now: Duration, avoid: Option<usize>, left_bytes: u64) -> Pick {
        let usable = |source: &Source| source.excluded.is_none() && source.failures < self.config.max_attempts;
        let ready = |source: &Source| usable(source) && source.not_before <= now;
        let mut waits = self.sources.iter().filter(|source| usable(source)).map(|source| source.not_before).peekable();
        if waits.peek().is_none() {
            return Pick::Exhausted;
        }
        let Some(leader) = self.sources.iter().position(ready) else {
            return Pick::WaitUntil(waits.min().unwrap_or(now).max(now + self.config.poll_interval));
        };
        let has_capacity = |(index, source): &(usize, &Source)| {
            let is_other = u32::from(avoid.is_some_and(|avoid| avoid != *index));
            ready(source)
                && source.active
                    < self.stream_limit(*index, leader, now, left_bytes).max(is_other).min(source.max_streams)
        };
        let mut candidates: Vec<usize> =
            self.sources.iter().enumerate().filter(has_capacity).map(|(index, _)| index).collect();
        candidates.sort_by_key(|index| Some(*index) == avoid);
        match candidates.is_empty() {
            true => Pick::WaitUntil(now + self.config.poll_interval),
            false => Pick::Candidates(candidates),
        }
    }

    /// Maximum number of streams for a source.
    fn stream_limit(&self, index: usize, leader: usize, now: Duration, left_bytes: u64) -> u32 {
        let streams = u32::try_from(self.config.streams.max(1)).unwrap_or(u32::MAX);
        let speed = |source: &Source| source.speed.bytes_per_s(now);
        let others = self.sources.iter().enumerate().filter(|(other, _)| *other != index);
        let others_speed = others.map(|(_, source)| speed(source)).sum::<u64>();
        let expected = self.expected(index, now);
        // The others would finish before this source has sent a minimal request.
        let min_request_bytes = self.config.split_bytes as f64 / 4.0;
        let too_late = |one: u64| min_request_bytes * others_speed as f64 > one as f64 * left_bytes as f64;
        if others_speed > 0 && expected.is_some_and(too_late) {
            return 0;
        }
        let is_fast_enough =
            expected.map(|one| one.saturating_mul(u64::from(streams) * MIN_SPEED_DIVISOR) >= others_speed);
        let limited =
            self.limit_bytes_per_s.is_some_and(|limit| others_speed.saturating_mul(5) >= limit.saturating_mul(4));
        match (index == leader, is_fast_enough) {
            (false, _) if limited => 0,
            (true, None | Some(true)) | (false, Some(true)) => streams,
            (true, Some(false)) => 1,
            (false, Some(false)) => 0,
            // Measure the speed with one stream, if enough bytes are left for that.
            (false, None) => {
                let trial_bytes = others_speed as f64 * 2.0 * self.config.lease_duration.as_secs_f64();
                u32::from(now >= self.config.lease_duration / 8 && trial_bytes < left_bytes as f64)
            }
        }
    }

    /// Expected speed of one stream, in bytes per second.
    pub(super) fn expected(&self, index: usize, now: Duration) -> Option<u64> {
        let source = self.sources.get(index)?;
        // Without a complete request after this time, use the measured speed so far.
        let slow = || source.asked_at.is_some_and(|at| now >= at + self.config.lease_duration);
        let so_far = || source.speed.bytes_per_s(now) / u64::from(source.active.max(1));
        source.stream_bytes_per_s.or_else(|| slow().then(so_far))
    }

    /// Records the start of a stream. Returns a notice if the leader changed or a source was added.
    pub(super) fn stream_started(&mut self, index: usize, now: Duration) -> Option<DownloadNotice> {
        let ready = |source: &Source| {
            source.excluded.is_none() && source.failures < self.config.max_attempts && source.not_before <= now
        };
        let is_leader = self.sources.iter().position(ready) == Some(index);
        let notice = match is_leader {
            true if index != self.current => {
                let notice = self.leader_changed(index);
                self.current = index;
                notice
            }
            true => None,
            false => self.source_added(index),
        };
        let source = self.sources.get_mut(index)?;
        source.active += 1;
        source.asked_at.get_or_insert(now);
        notice
    }

    /// Returns a notice when a source is first used in parallel with the leader.
    fn source_added(&mut self, index: usize) -> Option<DownloadNotice> {
        let leader = self.current_host()?.to_owned();
        let source = self.sources.get_mut(index)?;
        let is_new = source.stream_bytes_per_s.is_some() && !std::mem::replace(&mut source.joined, true);
        is_new.then(|| DownloadNotice::Joined { host: source.via.host().to_owned(), leader })
    }

    fn leader_changed(&self, index: usize) -> Option<DownloadNotice> {
        let (from, to) = (self.sources.get(self.current)?, self.sources.get(index)?);
        let reason = match self.current < index {
            true if from.last.is_empty() => "it is slow".to_owned(),
            true => from.last.clone(),
            false => "it may work again".to_owned(),
        };
        Some(DownloadNotice::FellBack { from: from.via.host().to_owned(), to: to.via.host().to_owned(), reason })
    }

    /// Records the end of a stream, with its speed if it could be measured.
    pub(super) fn stream_ended(&mut self, index: usize, bytes_per_s: Option<u64>) {
        let Some(source) = self.sources.get_mut(index) else { return };
        source.active = source.active.saturating_sub(1);
        if let Some(fresh) = bytes_per_s {
            source.stream_bytes_per_s = Some(source.stream_bytes_per_s.map_or(fresh, |before| before / 2 + fresh / 2));
        }
    }

    /// Records received bytes of a request for `requested_bytes`.
    pub(super) fn received(&mut self, index: usize, range: Range<u64>, requested_bytes: u64, now: Duration) {
        let Some(source) = self.sources.get_mut(index) else { return };
        source.speed.add(now, range.end - range.start);
        source.since_failure_bytes += range.end - range.start;
        source.supplied.insert(range);
        source.silences = 0;
        if source.since_failure_bytes >= failure_reset_bytes(requested_bytes) {
            source.failures = 0;
        }
    }

    /// Records that the source did not respond. This is not a failure, but starts a growing backoff if there are other
    /// sources.
    pub(super) fn was_silent(&mut self, index: usize, now: Duration) {
        let usable = |source: &Source| source.excluded.is_none() && source.failures < self.config.max_attempts;
        let is_only_source = !self.sources.iter().enumerate().any(|(other, source)| other != index && usable(source));
        let Some(source) = self.sources.get_mut(index).filter(|source| !is_only_source && source.not_before <= now)
        else {
            return;
        };
        source.last = format!("{}: no response", source.via.host());
        let pause = self.config.stall_timeout.saturating_mul(1 << source.silences.min(6));
        source.silences += 1;
        source.not_before = now + pause;
    }

    /// Records that the source ignores ranges: several streams would receive the same bytes.
    pub(super) fn ignores_ranges(&mut self, index: usize) {
        if let Some(source) = self.sources.get_mut(index) {
            source.supports_ranges = false;
            source.max_streams = 1;
        }
    }

    /// Records a failure of the source.
    pub(super) fn failed(&mut self, index: usize, error: &SourceError, now: Duration) -> Option<DownloadNotice> {
        let wait = match error {
            SourceError::Absent { .. } => return self.exclude(index, error, Exclusion::Absent),
            SourceError::Refused { host, status, reason } => {
                let (host, reason) = (host.clone(), reason.clone());
                return self.exclude(
                    index,
                    error,
                    Exclusion::Failed(DownloadError::Refused { host, status: *status, reason }),
                );
            }
            SourceError::InvalidManifest { host, reason } => {
                let (host, reason) = (host.clone(), reason.clone());
                return self.exclude(
                    index,
                    error,
                    Exclusion::Failed(DownloadError::Refused { host, status: None, reason }),
                );
            }
            SourceError::Untrusted { host, cause } => {
                let untrusted = DownloadError::Untrusted { host: host.clone(), cause: cause.clone() };
                return self.exclude(index, error, Exclusion::Failed(untrusted));
            }
            SourceError::Busy { host, retry_after: Some(retry_after) }
                if *retry_after > self.config.max_retry_after =>
            {
                let busy = DownloadError::Busy { host: host.clone(), retry_after: *retry_after };
                return self.exclude(index, error, Exclusion::Failed(busy));
            }
            SourceError::Busy { retry_after, .. } => retry_after.unwrap_or_default(),
            SourceError::Broken { .. } => Duration::ZERO,
        };
        let spread = self.next_jitter();
        let source = self.sources.get_mut(index)?;
        source.last = error.to_string();
        source.answered = !matches!(error, SourceError::Broken { answered: false, .. });
        if matches!(error, SourceError::Busy { .. }) {
            // Halve the streams, because their number may be the problem.
            source.max_streams = (source.active.min(source.max_streams) / 2).max(1);
        }
        if now < source.not_before {
            source.not_before = source.not_before.max(now + wait);
            return None;
        }
        source.failures += 1;
        source.since_failure_bytes = 0;
        let doubled = self.config.backoff.saturating_mul(1 << (source.failures - 1).min(16));
        let wait = wait.max(doubled.min(self.config.max_backoff).mul_f64(spread));
        source.not_before = now + wait;
        (source.failures < self.config.max_attempts)
            .then(|| DownloadNotice::Waiting { reason: error.to_string(), wait })
    }

    fn exclude(&mut self, index: usize, error: &SourceError, why: Exclusion) -> Option<DownloadNotice> {
        let source = self.sources.get_mut(index)?;
        source.last = error.to_string();
        source.excluded = Some(why);
        None
    }

    /// A random factor from 0.5 to 1.5, so that clients do not retry simultaneously (SplitMix64).
    fn next_jitter(&mut self) -> f64 {
        self.jitter = self.jitter.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.jitter;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        0.5 + (mixed ^ (mixed >> 31)) as f64 / u64::MAX as f64
    }

    /// The error if no source is left.
    pub(super) fn final_error(&self, digest: &Digest, held_bytes: u64, size_bytes: u64) -> DownloadError {
        let abandoned =
            self.sources.iter().filter(|source| source.excluded.is_none()).max_by_key(|source| source.failures);
        if let Some(source) = abandoned {
            let (times, last) = (source.failures, source.last.clone());
            return match source.answered {
                true => DownloadError::Unusable { times, held_bytes, size_bytes, last },
                false => DownloadError::Dropped { times, held_bytes, size_bytes, last },
            };
        }
        let error = self.sources.iter().find_map(|source| match &source.excluded {
            Some(Exclusion::Failed(why)) => Some(why.clone()),
            _ => None,
        });
        let absent = self.sources.iter().filter(|source| matches!(source.excluded, Some(Exclusion::Absent)));
        let hosts: Vec<String> = absent.map(|source| source.via.host().to_owned()).collect();
        error.unwrap_or(match hosts.is_empty() {
            true => DownloadError::NoSource(*digest),
            false => DownloadError::Absent { digest: *digest, hosts },
        })
    }
}

#[cfg(test)]
mod tests;
