//! What all streams of a download share: the plan, the sources, and when to give up. Without input or output, so that
//! each rule can be tested by itself.

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use cairn_store::{Digest, Ranges};

use super::Config;
use super::error::{DownloadError, Notice};
use super::health::{Health, Pick, redeeming_bytes};
use super::plan::{LeaseId, Plan, Rules, Taken};
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
            segment_bytes: segment_bytes(size_bytes, &config),
            split_bytes: config.split_bytes.max(1),
            steal_after: config.steal_after,
            slow_after: config.slow_after,
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

    /// What an idle stream does, which would rather not ask `avoid` again.
    pub(super) fn next(&mut self, now: Duration, avoid: Option<usize>) -> Next {
        if self.failure.is_some() || !self.plan.has_work(now) {
            return Next::Wait(now + self.config.steal_after / 2);
        }
        let (pick, notice) = self.health.pick(now, avoid);
        self.notices.extend(notice);
        let source = match pick {
            Pick::Source(source) => source,
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
        let found = self.health.sources.get(source).map(|found| (Arc::clone(&found.via), !found.ranged));
        let job = found.and_then(|(via, whole)| {
            let (lease, range) = self.plan.lease(now, whole)?;
            Some(Job { lease, range, source, via, whole })
        });
        job.map_or(Next::Wait(now + self.config.poll), Next::Fetch)
    }

    /// Takes bytes that came.
    pub(super) fn take(&mut self, job: &Job, offset: u64, len: usize, now: Duration) -> Taken {
        let taken = self.plan.take(job.lease, offset, len, now);
        if let Taken::Write { len, at, .. } = taken {
            let asked_bytes = job.range.end - job.range.start;
            self.health.came(job.source, at..at + len as u64, asked_bytes);
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
        self.plan.release(job.lease);
        self.health.left(job.source);
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

/// Small blobs are cut so that all streams have something to do, large ones so that the digest is never far behind.
fn segment_bytes(size_bytes: u64, config: &Config) -> u64 {
    let fair = size_bytes / (4 * config.streams.max(1) as u64);
    fair.clamp((config.segment_bytes / 8).max(1), config.segment_bytes.max(1))
}
