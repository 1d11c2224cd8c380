//! Which of the sources of a download is asked next, and how long one that failed is left alone.
//!
//! Sources are in the caller's order, and the first that can be asked is asked: an office's mirror spares the origin, and
//! a failing mirror is passed over while it recovers. Failures of several streams at the same time are one failure, and
//! bytes that come make up for them.

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use cairn_store::{Digest, Ranges};

use super::Config;
use super::error::{DownloadError, Notice};
use crate::{BlobSource, SourceError};

/// Bytes that make up for a failure. So does a quarter of what was asked for, which can happen only so many times.
const REDEEMING_BYTES: u64 = 16 << 10;

/// How many bytes make up for a failure, in a request for `asked_bytes`.
pub(super) fn redeeming_bytes(asked_bytes: u64) -> u64 {
    (asked_bytes / 4).clamp(1, REDEEMING_BYTES)
}

/// A source, and what is known of it.
pub(super) struct Source {
    pub(super) via: Arc<dyn BlobSource>,
    /// It answers with the bytes that were asked for. Else it always answers from the first one, and gets one stream.
    pub(super) ranged: bool,
    /// Which bytes it sent.
    pub(super) supplied: Ranges,
    out: Option<Out>,
    failures: u32,
    silences: u32,
    since_failure_bytes: u64,
    not_before: Duration,
    active: u32,
    at_once: u32,
    last: String,
}

/// Why a source is not asked any more.
enum Out {
    /// Not in this try.
    Spared,
    /// It does not have the blob.
    Absent,
    /// It said why.
    Said(DownloadError),
}

/// Who is to be asked.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Pick {
    /// This source, now.
    Source(usize),
    /// Somebody, then.
    Later(Duration),
    /// Nobody, ever.
    Nobody,
}

/// The sources of one download.
pub(super) struct Health {
    pub(super) sources: Vec<Source>,
    /// Who was asked last.
    current: usize,
    config: Arc<Config>,
    jitter: u64,
}

impl Health {
    /// `wrong` are those that sent wrong bytes before; `alone` is the only one to ask, where there is one.
    pub(super) fn new(
        sources: &[Arc<dyn BlobSource>],
        config: Arc<Config>,
        wrong: &[usize],
        alone: Option<usize>,
    ) -> Self {
        let make = |(index, via): (usize, &Arc<dyn BlobSource>)| Source {
            via: Arc::clone(via),
            ranged: true,
            supplied: Ranges::new(),
            out: (wrong.contains(&index) || alone.is_some_and(|alone| alone != index)).then_some(Out::Spared),
            failures: 0,
            silences: 0,
            since_failure_bytes: 0,
            not_before: Duration::ZERO,
            active: 0,
            at_once: u32::MAX,
            last: String::new(),
        };
        let sources: Vec<Source> = sources.iter().enumerate().map(make).collect();
        let current = sources.iter().position(|source| source.out.is_none()).unwrap_or(0);
        let jitter = config.seed;
        Self { sources, current, config, jitter }
    }

    /// The host that was asked last.
    pub(super) fn current_host(&self) -> Option<&str> {
        self.sources.get(self.current).map(|source| source.via.host())
    }

    /// Who is to be asked by a stream that would rather not ask `avoid` again. The second is what is worth saying.
    pub(super) fn pick(&mut self, now: Duration, avoid: Option<usize>) -> (Pick, Option<Notice>) {
        let usable = |source: &&Source| source.out.is_none() && source.failures < self.config.tries;
        let ready = |(_, source): &(usize, &Source)| {
            usable(source) && source.not_before <= now && source.active < source.at_once
        };
        let mut candidates = self.sources.iter().enumerate().filter(ready).map(|(index, _)| index);
        let first = candidates.clone().find(|index| Some(*index) != avoid).or_else(|| candidates.next());
        if let Some(picked) = first {
            let notice = (picked != self.current).then(|| self.fell_back(picked)).flatten();
            self.current = picked;
            if let Some(source) = self.sources.get_mut(picked) {
                source.active += 1;
            }
            return (Pick::Source(picked), notice);
        }
        let waits = self.sources.iter().filter(usable).map(|source| source.not_before.max(now + self.config.poll));
        (waits.min().map_or(Pick::Nobody, Pick::Later), None)
    }

    fn fell_back(&self, to: usize) -> Option<Notice> {
        let (from, to) = (self.sources.get(self.current)?, self.sources.get(to)?);
        let reason = if from.last.is_empty() { "it is slow".to_owned() } else { from.last.clone() };
        Some(Notice::FellBack { from: from.via.host().to_owned(), to: to.via.host().to_owned(), reason })
    }

    /// A stream from this source has ended, for whatever reason.
    pub(super) fn left(&mut self, index: usize) {
        if let Some(source) = self.sources.get_mut(index) {
            source.active = source.active.saturating_sub(1);
        }
    }

    /// Bytes came, of a request for `asked_bytes`.
    pub(super) fn came(&mut self, index: usize, range: Range<u64>, asked_bytes: u64) {
        let Some(source) = self.sources.get_mut(index) else { return };
        source.since_failure_bytes += range.end - range.start;
        source.supplied.insert(range);
        source.silences = 0;
        if source.since_failure_bytes >= redeeming_bytes(asked_bytes) {
            source.failures = 0;
        }
    }

    /// The source took a request and said nothing. That is no failure, but while there are others it is left alone, ever
    /// longer.
    pub(super) fn was_silent(&mut self, index: usize, now: Duration) {
        let usable = |source: &Source| source.out.is_none() && source.failures < self.config.tries;
        let alone = !self.sources.iter().enumerate().any(|(other, source)| other != index && usable(source));
        let Some(source) = self.sources.get_mut(index).filter(|source| !alone && source.not_before <= now) else {
            return;
        };
        source.last = format!("{}: no answer", source.via.host());
        let pause = self.config.stall.saturating_mul(1 << source.silences.min(6));
        source.silences += 1;
        source.not_before = now + pause;
    }

    /// The source ignores ranges: more than one stream from it would fetch the same bytes.
    pub(super) fn sends_everything(&mut self, index: usize) {
        if let Some(source) = self.sources.get_mut(index) {
            source.ranged = false;
            source.at_once = 1;
        }
    }

    /// The source did not give what it was asked for.
    pub(super) fn failed(&mut self, index: usize, error: &SourceError, now: Duration) -> Option<Notice> {
        let wait = match error {
            SourceError::Absent { .. } => return self.out(index, error, Out::Absent),
            SourceError::Refused { host, reason } => {
                let refused = DownloadError::Refused { host: host.clone(), reason: reason.clone() };
                return self.out(index, error, Out::Said(refused));
            }
            SourceError::Busy { host, retry_after: Some(retry_after) } if *retry_after > self.config.patience => {
                let busy = DownloadError::Busy { host: host.clone(), retry_after: *retry_after };
                return self.out(index, error, Out::Said(busy));
            }
            SourceError::Busy { retry_after, .. } => retry_after.unwrap_or_default(),
            SourceError::Broken { .. } => Duration::ZERO,
        };
        let spread = self.next_jitter();
        let source = self.sources.get_mut(index)?;
        source.last = error.to_string();
        if matches!(error, SourceError::Busy { .. }) {
            // Many streams may be what it has too much of.
            source.at_once = (source.active.min(source.at_once) / 2).max(1);
        }
        if now < source.not_before {
            source.not_before = source.not_before.max(now + wait);
            return None;
        }
        source.failures += 1;
        source.since_failure_bytes = 0;
        let doubled = self.config.backoff.saturating_mul(1 << (source.failures - 1).min(16));
        let wait = wait.max(doubled.min(self.config.longest_backoff).mul_f64(spread));
        source.not_before = now + wait;
        (source.failures < self.config.tries).then(|| Notice::Waiting { reason: error.to_string(), wait })
    }

    fn out(&mut self, index: usize, error: &SourceError, why: Out) -> Option<Notice> {
        let source = self.sources.get_mut(index)?;
        source.last = error.to_string();
        source.out = Some(why);
        None
    }

    /// A factor between a half and one and a half, so that many clients of a server that failed do not all come back at
    /// once. (SplitMix64.)
    fn next_jitter(&mut self) -> f64 {
        self.jitter = self.jitter.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.jitter;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        0.5 + (mixed ^ (mixed >> 31)) as f64 / u64::MAX as f64
    }

    /// Why nobody can be asked.
    pub(super) fn verdict(&self, digest: &Digest, held_bytes: u64, size_bytes: u64) -> DownloadError {
        let given_up = self.sources.iter().filter(|source| source.out.is_none()).max_by_key(|source| source.failures);
        if let Some(source) = given_up {
            return DownloadError::Dropped {
                times: source.failures,
                held_bytes,
                size_bytes,
                last: source.last.clone(),
            };
        }
        let said = self.sources.iter().find_map(|source| match &source.out {
            Some(Out::Said(why)) => Some(why.clone()),
            _ => None,
        });
        let absent = self.sources.iter().filter(|source| matches!(source.out, Some(Out::Absent)));
        let hosts: Vec<String> = absent.map(|source| source.via.host().to_owned()).collect();
        said.unwrap_or(match hosts.is_empty() {
            true => DownloadError::NoSource(*digest),
            false => DownloadError::Absent { digest: *digest, hosts },
        })
    }
}

#[cfg(test)]
mod tests;
