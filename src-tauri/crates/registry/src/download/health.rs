//! Which of the sources of a download is asked next, and how long one that failed is left alone.
//!
//! Sources are in the caller's order, and the first that can be asked leads: an office's mirror spares the origin, and a
//! failing mirror is passed over while it recovers. Where the one that leads would take long, the next shows with one stream
//! what it can do, and joins if that is worth it. Each source has streams of its own, and each stream fetches as much as it
//! can, so that their shares are as their speeds are, and a slow one takes nothing from a fast one. Failures of several
//! streams at the same time are one failure, and bytes that come make up for them.

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use cairn_store::{Digest, Ranges};

use super::Config;
use super::error::{DownloadError, Notice};
use super::speed::Speed;
use crate::{BlobSource, SourceError};

/// Bytes that make up for a failure. So does a quarter of what was asked for, which can happen only so many times.
const REDEEMING_BYTES: u64 = 16 << 10;

/// Over how long the speed of a source is measured.
const WINDOW: Duration = Duration::from_secs(3);
/// A source that brings less than this part of what the others bring is not worth its streams.
const WORTH: u64 = 4;
/// Sources that send at the same time.
pub(super) const MAX_AT_ONCE: usize = 3;

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
    /// Its last failure was in what it answered, and no connection broke.
    answered: bool,
    speed: Speed,
    /// What one stream from it brings.
    stream_bytes_per_s: Option<u64>,
    /// When it was asked first.
    asked_at: Option<Duration>,
    /// It was said that it joined.
    joined: bool,
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
    /// The first of these for whom there is something to do, now.
    Among(Vec<usize>),
    /// Somebody, then.
    Later(Duration),
    /// Nobody, ever.
    Nobody,
}

/// The sources of one download.
pub(super) struct Health {
    pub(super) sources: Vec<Source>,
    /// What all downloads together may bring, where that is limited: then more sources are of no use.
    pub(super) limit_bytes_per_s: Option<u64>,
    /// Who leads.
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
            answered: false,
            speed: Speed::new(Duration::ZERO, WINDOW),
            stream_bytes_per_s: None,
            asked_at: None,
            joined: false,
        };
        let sources: Vec<Source> = sources.iter().enumerate().map(make).collect();
        let current = sources.iter().position(|source| source.out.is_none()).unwrap_or(0);
        let jitter = config.seed;
        Self { sources, limit_bytes_per_s: None, current, config, jitter }
    }

    /// The host that leads.
    pub(super) fn current_host(&self) -> Option<&str> {
        self.sources.get(self.current).map(|source| source.via.host())
    }

    /// Who is to be asked while so many bytes are missing, by a stream that would rather not ask `avoid` again.
    pub(super) fn pick(&self, now: Duration, avoid: Option<usize>, left_bytes: u64) -> Pick {
        let usable = |source: &Source| source.out.is_none() && source.failures < self.config.tries;
        let ready = |source: &Source| usable(source) && source.not_before <= now;
        let mut waits = self.sources.iter().filter(|source| usable(source)).map(|source| source.not_before).peekable();
        if waits.peek().is_none() {
            return Pick::Nobody;
        }
        let Some(leader) = self.sources.iter().position(ready) else {
            return Pick::Later(waits.min().unwrap_or(now).max(now + self.config.poll));
        };
        let places = |(index, source): &(usize, &Source)| {
            let elsewhere = u32::from(avoid.is_some_and(|avoid| avoid != *index));
            ready(source)
                && source.active < self.places(*index, leader, now, left_bytes).max(elsewhere).min(source.at_once)
        };
        let mut among: Vec<usize> = self.sources.iter().enumerate().filter(places).map(|(index, _)| index).collect();
        among.sort_by_key(|index| Some(*index) == avoid);
        match among.is_empty() {
            true => Pick::Later(now + self.config.poll),
            false => Pick::Among(among),
        }
    }

    /// How many streams a source is worth.
    fn places(&self, index: usize, leader: usize, now: Duration, left_bytes: u64) -> u32 {
        let streams = u32::try_from(self.config.streams.max(1)).unwrap_or(u32::MAX);
        let speed = |source: &Source| source.speed.bytes_per_s(now);
        let others = self.sources.iter().enumerate().filter(|(other, _)| *other != index);
        let beside = others.map(|(_, source)| speed(source)).sum::<u64>();
        let expected = self.expected(index, now);
        // The others would be done before it had sent the least that it can be asked for.
        let least_bytes = self.config.split_bytes as f64 / 4.0;
        let too_late = |one: u64| least_bytes * beside as f64 > one as f64 * left_bytes as f64;
        if beside > 0 && expected.is_some_and(too_late) {
            return 0;
        }
        let worth = expected.map(|one| one.saturating_mul(u64::from(streams) * WORTH) >= beside);
        let limited = self.limit_bytes_per_s.is_some_and(|limit| beside.saturating_mul(5) >= limit.saturating_mul(4));
        match (index == leader, worth) {
            (false, _) if limited => 0,
            (true, None | Some(true)) | (false, Some(true)) => streams,
            (true, Some(false)) => 1,
            (false, Some(false)) => 0,
            // One stream shows what it can do, where there is time enough for that to be of use.
            (false, None) => {
                let soon = beside as f64 * 2.0 * self.config.lease_for.as_secs_f64();
                u32::from(now >= self.config.lease_for / 8 && soon < left_bytes as f64)
            }
        }
    }

    /// What one stream from a source is likely to bring, in bytes per second.
    pub(super) fn expected(&self, index: usize, now: Duration) -> Option<u64> {
        let source = self.sources.get(index)?;
        // Who has not brought the first piece in all that time is at least known to be slow.
        let slow = || source.asked_at.is_some_and(|at| now >= at + self.config.lease_for);
        let so_far = || source.speed.bytes_per_s(now) / u64::from(source.active.max(1));
        source.stream_bytes_per_s.or_else(|| slow().then(so_far))
    }

    /// A stream asks this source now. Returns what is worth saying about that.
    pub(super) fn begins(&mut self, index: usize, now: Duration) -> Option<Notice> {
        let ready =
            |source: &Source| source.out.is_none() && source.failures < self.config.tries && source.not_before <= now;
        let leads = self.sources.iter().position(ready) == Some(index);
        let notice = match leads {
            true if index != self.current => {
                let notice = self.fell_back(index);
                self.current = index;
                notice
            }
            true => None,
            false => self.joins(index),
        };
        let source = self.sources.get_mut(index)?;
        source.active += 1;
        source.asked_at.get_or_insert(now);
        notice
    }

    /// Says once that a source sends beside the one that leads.
    fn joins(&mut self, index: usize) -> Option<Notice> {
        let beside = self.current_host()?.to_owned();
        let source = self.sources.get_mut(index)?;
        let news = source.stream_bytes_per_s.is_some() && !std::mem::replace(&mut source.joined, true);
        news.then(|| Notice::Joined { host: source.via.host().to_owned(), beside })
    }

    fn fell_back(&self, index: usize) -> Option<Notice> {
        let (from, to) = (self.sources.get(self.current)?, self.sources.get(index)?);
        let reason = match self.current < index {
            true if from.last.is_empty() => "it is slow".to_owned(),
            true => from.last.clone(),
            false => "it may work again".to_owned(),
        };
        Some(Notice::FellBack { from: from.via.host().to_owned(), to: to.via.host().to_owned(), reason })
    }

    /// A stream from this source has ended, for whatever reason; `bytes_per_s` is how fast it was, where that tells
    /// something.
    pub(super) fn left(&mut self, index: usize, bytes_per_s: Option<u64>) {
        let Some(source) = self.sources.get_mut(index) else { return };
        source.active = source.active.saturating_sub(1);
        if let Some(fresh) = bytes_per_s {
            source.stream_bytes_per_s = Some(source.stream_bytes_per_s.map_or(fresh, |before| before / 2 + fresh / 2));
        }
    }

    /// Bytes came, of a request for `asked_bytes`.
    pub(super) fn came(&mut self, index: usize, range: Range<u64>, asked_bytes: u64, now: Duration) {
        let Some(source) = self.sources.get_mut(index) else { return };
        source.speed.add(now, range.end - range.start);
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
            SourceError::Refused { host, status, reason } => {
                let (host, reason) = (host.clone(), reason.clone());
                return self.out(index, error, Out::Said(DownloadError::Refused { host, status: *status, reason }));
            }
            SourceError::Untrusted { host, distrust } => {
                let untrusted = DownloadError::Untrusted { host: host.clone(), distrust: distrust.clone() };
                return self.out(index, error, Out::Said(untrusted));
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
        source.answered = !matches!(error, SourceError::Broken { answered: false, .. });
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
            let (times, last) = (source.failures, source.last.clone());
            return match source.answered {
                true => DownloadError::Unusable { times, held_bytes, size_bytes, last },
                false => DownloadError::Dropped { times, held_bytes, size_bytes, last },
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
