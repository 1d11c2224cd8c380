//! What all streams of a download share: the plan, the sources, and when to give up. Without input or output, so that
//! each rule can be tested by itself.

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use cairn_store::{Digest, Ranges};

use super::Config;
use super::error::{DownloadError, Notice};
use super::health::{Health, MAX_AT_ONCE, Pick, redeeming_bytes};
use super::plan::{Idle, LeaseId, Plan, Rules, Taken};
use super::speed::Speed;
use super::wishes::Wishes;
use crate::{BlobSource, SourceError};

/// Over how long the speed of a download is measured.
const WINDOW: Duration = Duration::from_secs(5);

/// What a stream does next.
pub(super) enum Next {
    Fetch(Job),
    /// Nothing before then, unless something changes.
    Wait(Duration),
}

/// A range to fetch from a source.
pub(super) struct Job {
    pub(super) lease: LeaseId,
    pub(super) range: Range<u64>,
    pub(super) source: usize,
    pub(super) via: Arc<dyn BlobSource>,
    /// The source sends everything in any case.
    pub(super) whole: bool,
}

/// How a stream ended.
#[derive(Debug)]
pub(super) enum End {
    /// All that was asked for came, or other streams have taken it over.
    Done,
    /// It is far slower than the others.
    Slow,
    /// Nothing came for too long. `silent`: not even one byte before.
    Stalled { silent: bool },
    /// The source answers from the first byte, whatever it is asked for.
    NoRanges,
    /// It failed.
    Failed(SourceError),
}

pub(super) struct State {
    pub(super) plan: Plan,
    pub(super) health: Health,
    pub(super) speed: Speed,
    /// Why there is no going on.
    pub(super) failure: Option<DownloadError>,
    /// What is worth saying.
    pub(super) notices: Vec<Notice>,
    /// Where readers wait.
    pub(super) wishes: Arc<Wishes>,
    digest: Digest,
    size_bytes: u64,
    stalls: u32,
    stalled_at: Duration,
    since_stall_bytes: u64,
    config: Arc<Config>,
}

impl State {
    pub(super) fn new(digest: Digest, size_bytes: u64, held: Ranges, health: Health, config: Arc<Config>) -> Self {
        let rules = Rules {
            segment_bytes: config.segment_bytes,
            split_bytes: config.split_bytes.max(1),
            lease_for: config.lease_for,
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
            wishes: Arc::default(),
            digest,
            size_bytes,
            stalls: 0,
            stalled_at: Duration::ZERO,
            since_stall_bytes: 0,
            config,
        }
    }

    /// How many streams there may ever be something to do for.
    pub(super) fn most_streams(&self) -> usize {
        self.config.streams.max(1) * self.health.sources.len().clamp(1, MAX_AT_ONCE)
    }

    /// What an idle stream does, which would rather not ask `avoid` again.
    pub(super) fn next(&mut self, now: Duration, avoid: Option<usize>) -> Next {
        let again = Next::Wait(now + self.config.lease_for / 8);
        if self.is_over() {
            return again;
        }
        let left_bytes = self.size_bytes - self.plan.received_bytes();
        let among = match self.health.pick(now, avoid, left_bytes) {
            Pick::Among(among) => among,
            Pick::Later(at) => return Next::Wait(at),
            Pick::Nobody => {
                // Streams that are still at work may yet bring it to an end, or show that their source recovered.
                if self.plan.leases() == 0 {
                    let received_bytes = self.plan.received_bytes();
                    self.failure = Some(self.health.verdict(&self.digest, received_bytes, self.size_bytes));
                }
                return Next::Wait(now + self.config.poll);
            }
        };
        self.plan.wish(self.wishes.take());
        for source in among {
            let Some((via, whole)) =
                self.health.sources.get(source).map(|found| (Arc::clone(&found.via), !found.ranged))
            else {
                continue;
            };
            let idle = Idle { source, whole, bytes_per_s: self.health.expected(source, now) };
            if let Some((lease, range)) = self.plan.lease(now, idle) {
                self.notices.extend(self.health.begins(source, now));
                return Next::Fetch(Job { lease, range, source, via, whole });
            }
        }
        again
    }

    /// Takes bytes that came.
    pub(super) fn take(&mut self, job: &Job, offset: u64, len: usize, now: Duration) -> Taken {
        let taken = self.plan.take(job.lease, offset, len, now);
        if let Taken::Write { len, at, .. } = taken {
            let asked_bytes = job.range.end - job.range.start;
            self.health.came(job.source, at..at + len as u64, asked_bytes, now);
            self.speed.add(now, len as u64);
            self.since_stall_bytes += len as u64;
            if self.since_stall_bytes >= redeeming_bytes(asked_bytes) {
                self.stalls = 0;
            }
        }
        taken
    }

    /// A stream has ended.
    pub(super) fn ended(&mut self, job: &Job, end: &End, now: Duration) {
        let speed = self.plan.release(job.lease, now);
        self.health.left(job.source, speed);
        let reopened = |why| Notice::Reopened { host: job.via.host().to_owned(), why };
        match end {
            End::Done => {}
            End::NoRanges => self.health.sends_everything(job.source),
            End::Slow => self.notices.push(reopened("slow")),
            End::Stalled { silent } => {
                if *silent {
                    self.health.was_silent(job.source, now);
                }
                self.notices.push(reopened("silent"));
                // Streams that fell silent together count once, and bytes from any of them make up for all.
                if self.stalls == 0 || now.saturating_sub(self.stalled_at) > self.config.stall / 2 {
                    self.stalls += 1;
                    self.stalled_at = now;
                    self.since_stall_bytes = 0;
                }
                if self.stalls >= self.config.stall_tries {
                    self.failure = Some(DownloadError::Stalled {
                        times: self.stalls,
                        stall: self.config.stall,
                        held_bytes: self.plan.received_bytes(),
                        size_bytes: self.size_bytes,
                    });
                }
            }
            End::Failed(error) => {
                let notice = self.health.failed(job.source, error, now);
                self.notices.extend(notice);
            }
        }
    }

    /// Whether there is nothing more to fetch, or no way to.
    pub(super) fn is_over(&self) -> bool {
        self.failure.is_some() || self.plan.is_complete()
    }
}

#[cfg(test)]
mod tests;
