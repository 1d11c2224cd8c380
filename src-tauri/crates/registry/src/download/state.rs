//! Shared state of the streams of a download: the plan, the sources, and the failure. No I/O, so that it can be tested
//! separately.

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use cairn_store::{Digest, Ranges};

use super::DownloadConfig;
use super::error::{DownloadError, DownloadNotice};
use super::health::{Health, MAX_PARALLEL_SOURCES, Pick, failure_reset_bytes};
use super::plan::{IdleStream, LeaseId, Plan, PlanConfig, Received};
use super::read_positions::ReadPositions;
use super::speed::Speed;
use crate::{BlobSource, SourceError};

/// Window of the speed measurement of a download.
const WINDOW: Duration = Duration::from_secs(5);

/// The next action of a stream.
pub(super) enum NextAction {
    Fetch(RangeJob),
    /// Wait until this time or a change.
    Wait(Duration),
}

/// A range to download from a source.
pub(super) struct RangeJob {
    pub(super) lease: LeaseId,
    pub(super) range: Range<u64>,
    pub(super) source: usize,
    pub(super) via: Arc<dyn BlobSource>,
    /// The source ignores ranges and sends the whole blob.
    pub(super) whole: bool,
}

/// Result of a stream.
#[derive(Debug)]
pub(super) enum StreamEnd {
    /// All requested bytes were received, or other streams took them over.
    Done,
    /// The stream is much slower than the others.
    Slow,
    /// Timeout without data. `silent`: no byte was received before.
    Stalled { silent: bool },
    /// The source ignores ranges.
    NoRanges,
    /// The stream failed.
    Failed(SourceError),
}

pub(super) struct State {
    pub(super) plan: Plan,
    pub(super) health: Health,
    pub(super) speed: Speed,
    /// The error that ends the download.
    pub(super) failure: Option<DownloadError>,
    /// Notices to report.
    pub(super) notices: Vec<DownloadNotice>,
    /// Positions at which readers wait.
    pub(super) read_positions: Arc<ReadPositions>,
    digest: Digest,
    size_bytes: u64,
    stalls: u32,
    stalled_at: Duration,
    since_stall_bytes: u64,
    config: Arc<DownloadConfig>,
}

impl State {
    pub(super) fn new(
        digest: Digest,
        size_bytes: u64,
        held: Ranges,
        health: Health,
        config: Arc<DownloadConfig>,
    ) -> Self {
        let rules = PlanConfig {
            segment_bytes: config.segment_bytes,
            split_bytes: config.split_bytes.max(1),
            lease_duration: config.lease_duration,
            steal_after: config.steal_after,
            slow_after: config.slow_after,
            streams: config.streams as u64,
        };
        Self {
            plan: Plan::new(size_bytes, held, rules),
            health,
            speed: Speed::new(Duration::ZERO, WINDOW),
            failure: None,
            notices: Vec::new(),
            read_positions: Arc::default(),
            digest,
            size_bytes,
            stalls: 0,
            stalled_at: Duration::ZERO,
            since_stall_bytes: 0,
            config,
        }
    }

    /// Maximum number of streams.
    pub(super) fn max_streams(&self) -> usize {
        self.config.streams.max(1) * self.health.sources.len().clamp(1, MAX_PARALLEL_SOURCES)
    }

    /// Returns the next action of an idle stream. Tries the source `avoid` last.
    pub(super) fn next(&mut self, now: Duration, avoid: Option<usize>) -> NextAction {
        let retry_later = NextAction::Wait(now + self.config.lease_duration / 8);
        if self.is_over() {
            return retry_later;
        }
        let left_bytes = self.size_bytes - self.plan.received_bytes();
        let candidates = match self.health.pick(now, avoid, left_bytes) {
            Pick::Candidates(candidates) => candidates,
            Pick::WaitUntil(at) => return NextAction::Wait(at),
            Pick::Exhausted => {
                // Running streams may still finish the download, or their source may recover.
                if self.plan.leases() == 0 {
                    let received_bytes = self.plan.received_bytes();
                    self.failure = Some(self.health.final_error(&self.digest, received_bytes, self.size_bytes));
                }
                return NextAction::Wait(now + self.config.poll_interval);
            }
        };
        self.plan.request_positions(self.read_positions.take());
        for source in candidates {
            let Some((via, whole)) =
                self.health.sources.get(source).map(|found| (Arc::clone(&found.via), !found.supports_ranges))
            else {
                continue;
            };
            let idle = IdleStream { source, whole, bytes_per_s: self.health.expected(source, now) };
            if let Some((lease, range)) = self.plan.lease(now, idle) {
                self.notices.extend(self.health.stream_started(source, now));
                return NextAction::Fetch(RangeJob { lease, range, source, via, whole });
            }
        }
        retry_later
    }

    /// Records received bytes.
    pub(super) fn take(&mut self, job: &RangeJob, offset: u64, len: usize, now: Duration) -> Received {
        let taken = self.plan.take(job.lease, offset, len, now);
        if let Received::Write { len, at, .. } = taken {
            let requested_bytes = job.range.end - job.range.start;
            self.health.received(job.source, at..at + len as u64, requested_bytes, now);
            self.speed.add(now, len as u64);
            self.since_stall_bytes += len as u64;
            if self.since_stall_bytes >= failure_reset_bytes(requested_bytes) {
                self.stalls = 0;
            }
        }
        taken
    }

    /// Records the end of a stream.
    pub(super) fn ended(&mut self, job: &RangeJob, end: &StreamEnd, now: Duration) {
        let speed = self.plan.release(job.lease, now);
        self.health.stream_ended(job.source, speed);
        let reopened = |why| DownloadNotice::Reopened { host: job.via.host().to_owned(), why };
        match end {
            StreamEnd::Done => {}
            StreamEnd::NoRanges => self.health.ignores_ranges(job.source),
            StreamEnd::Slow => self.notices.push(reopened("slow")),
            StreamEnd::Stalled { silent } => {
                if *silent {
                    self.health.was_silent(job.source, now);
                }
                self.notices.push(reopened("silent"));
                // Simultaneous stalls count once. Bytes of any stream reset the count.
                if self.stalls == 0 || now.saturating_sub(self.stalled_at) > self.config.stall_timeout / 2 {
                    self.stalls += 1;
                    self.stalled_at = now;
                    self.since_stall_bytes = 0;
                }
                if self.stalls >= self.config.max_stalls {
                    self.failure = Some(DownloadError::Stalled {
                        times: self.stalls,
                        stall: self.config.stall_timeout,
                        held_bytes: self.plan.received_bytes(),
                        size_bytes: self.size_bytes,
                    });
                }
            }
            StreamEnd::Failed(error) => {
                let notice = self.health.failed(job.source, error, now);
                self.notices.extend(notice);
            }
        }
    }

    /// Whether the download is complete or has failed.
    pub(super) fn is_over(&self) -> bool {
        self.failure.is_some() || self.plan.is_complete()
    }
}

#[cfg(test)]
mod tests;
