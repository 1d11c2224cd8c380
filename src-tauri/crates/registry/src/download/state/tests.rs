//! Simulated downloads: requested bytes per source, and total time.

use super::*;
use crate::{BoxFuture, RangeResponse};

struct Named(usize);

impl BlobSource for Named {
    fn host(&self) -> &str {
        ["first", "second", "third"][self.0]
    }

    fn open<'a>(&'a self, _: &'a Digest, _: u64, _: Range<u64>) -> BoxFuture<'a, Result<RangeResponse, SourceError>> {
        unreachable!("these tests open no streams")
    }
}

/// Speed of a simulated source, in bytes per second.
#[derive(Debug, Clone, Copy)]
struct Line {
    /// Speed of one connection.
    stream: f64,
    /// Speed of all connections together.
    total: f64,
    /// Number of a request that stalls.
    hangs_at: Option<usize>,
}

const MB: f64 = 1e6;

fn line(stream: f64, total: f64) -> Line {
    Line { stream, total, hangs_at: None }
}

struct SimulationResult {
    seconds: f64,
    /// Requested bytes per source.
    requested_bytes: Vec<u64>,
    requests: usize,
    notices: Vec<String>,
}

struct Stream {
    job: RangeJob,
    number: usize,
    at: f64,
    reported: u64,
    last: Duration,
}

const STEP: Duration = Duration::from_millis(20);
/// Time from the request to the first byte.
const LATENCY: Duration = Duration::from_millis(100);

/// Simulates a download from these sources.
fn download(size_bytes: u64, lines: &[Line]) -> SimulationResult {
    let config = Arc::new(DownloadConfig::default());
    let sources: Vec<Arc<dyn BlobSource>> = (0..lines.len()).map(|index| Arc::new(Named(index)) as _).collect();
    let health = Health::new(&sources, Arc::clone(&config), &[], None);
    let mut state = State::new(Digest::of(b""), size_bytes, Ranges::new(), health, Arc::clone(&config));
    let mut streams: Vec<(Option<Stream>, Option<usize>, Duration)> =
        (0..state.max_streams()).map(|_| (None, None, Duration::ZERO)).collect();
    let (mut now, mut requests, mut requested_bytes) = (Duration::ZERO, 0, vec![0; lines.len()]);
    while !state.is_over() {
        now += STEP;
        assert!(now < Duration::from_secs(40_000), "the download does not end");
        for (stream, avoid, wakes) in &mut streams {
            if stream.is_some() || now < *wakes {
                continue;
            }
            match state.next(now, *avoid) {
                NextAction::Wait(until) => *wakes = until,
                NextAction::Fetch(job) => {
                    requested_bytes[job.source] += job.range.end - job.range.start;
                    let (at, reported) = (job.range.start as f64, job.range.start);
                    *stream = Some(Stream { job, number: requests, at, reported, last: now + LATENCY });
                    requests += 1;
                }
            }
        }
        for (source, line) in lines.iter().enumerate() {
            let going = |stream: &&mut Option<Stream>| stream.as_ref().is_some_and(|one| one.job.source == source);
            let active = streams.iter_mut().map(|(stream, ..)| stream).filter(going).count().max(1);
            let pace = line.stream.min(line.total / active as f64);
            for (stream, avoid, wakes) in &mut streams {
                let Some(one) = stream.as_mut().filter(|one| one.job.source == source) else { continue };
                let sends = now >= one.last && line.hangs_at != Some(one.number);
                if sends {
                    one.at = (one.at + pace * (now - one.last).as_secs_f64()).min(one.job.range.end as f64);
                    one.last = now;
                }
                let fresh = one.at as u64 - one.reported;
                let end = match fresh {
                    0 if now >= one.last + config.stall_timeout => {
                        Some(StreamEnd::Stalled { silent: one.reported == one.job.range.start })
                    }
                    0 => None,
                    _ => match state.take(&one.job, one.reported, fresh as usize, now) {
                        Received::Write { finished: true, .. } | Received::Reassigned => Some(StreamEnd::Done),
                        _ if state.plan.is_slow(one.job.lease, now) => Some(StreamEnd::Slow),
                        _ => None,
                    },
                };
                one.reported = one.at as u64;
                if let Some(end) = end {
                    *avoid = matches!(end, StreamEnd::Slow | StreamEnd::Stalled { .. }).then_some(source);
                    state.ended(&one.job, &end, now);
                    (*stream, *wakes) = (None, now);
                }
            }
        }
    }
    assert!(state.failure.is_none(), "{:?}", state.failure);
    let notices = state.notices.iter().map(ToString::to_string).collect();
    SimulationResult { seconds: now.as_secs_f64(), requested_bytes, requests, notices }
}

#[test]
fn each_byte_is_requested_once_from_slow_healthy_source() {
    let check = |what: &str, size_bytes: u64, line: Line| {
        let outcome = download(size_bytes, &[line]);
        assert_eq!(outcome.requested_bytes, [size_bytes], "{what}: {} requests", outcome.requests);
        let least = size_bytes as f64 / line.total.min(8.0 * line.stream);
        assert!(outcome.seconds < least * 1.25 + 3.0, "{what}: {} s, {least} s at best", outcome.seconds);
    };
    check("a line of 20 kB/s", 400_000, line(20_000.0, 20_000.0));
    check("a line of 100 kB/s", 3_000_000, line(100_000.0, 100_000.0));
    check("a line of 100 kB/s, and much", 50_000_000, line(100_000.0, 100_000.0));
    check("a line of 2 MB/s", 10_000_000, line(2.0 * MB, 2.0 * MB));
    check("a server that gives each connection little", 40_000_000, line(200_000.0, 1e9));
    check("a good line", 2_000_000_000, line(3.0 * MB, 12.0 * MB));
}

#[test]
fn fast_source_needs_few_requests() {
    let outcome = download(8_000_000_000, &[line(30.0 * MB, 100.0 * MB)]);
    assert!(outcome.requests < 400, "{} requests for 8 GB", outcome.requests);
}

#[test]
fn range_of_silent_stream_is_taken_over() {
    for hangs_at in [0, 5, 30] {
        let line = Line { hangs_at: Some(hangs_at), ..line(2.0 * MB, 8.0 * MB) };
        let outcome = download(100_000_000, &[line]);
        let twice = outcome.requested_bytes[0] - 100_000_000;
        assert!(twice <= 16_000_000, "request {hangs_at}: too many bytes are requested again: {twice}");
        assert!(outcome.seconds < 22.0, "request {hangs_at}: the stall delays the download: {} s", outcome.seconds);
    }
}

/// A slow mirror in front of the registry must not reduce the speed.
#[test]
fn slow_mirror_does_not_slow_download() {
    let check = |what: &str, mirror: Line, origin: Line| {
        let size_bytes = 200_000_000;
        let alone = download(size_bytes, &[origin]).seconds;
        let outcome = download(size_bytes, &[mirror, origin]);
        assert!(outcome.seconds < alone * 1.08 + 1.0, "{what}: {} s, {alone} s without it", outcome.seconds);
        let other_way = download(size_bytes, &[origin, mirror]).seconds;
        assert!(other_way < alone * 1.05, "{what}, used second: {other_way} s, {alone} s without it");
    };
    let origin = line(1.0 * MB, 4.0 * MB);
    check("one that sends next to nothing", line(500.0, 500.0), origin);
    check("a hundredth", line(40_000.0, 40_000.0), origin);
    check("a tenth", line(100_000.0, 400_000.0), origin);
    check("a third", line(0.3 * MB, 1.3 * MB), origin);
    check("as fast", origin, origin);
    check("a hundredth of one with slow connections", line(10_000.0, 80_000.0), line(1.0 * MB, 8.0 * MB));
    check("one that is silent", Line { hangs_at: Some(0), ..line(0.0, 0.0) }, origin);
}

#[test]
fn sources_share_download_in_proportion_to_speed() {
    let check = |speeds: [f64; 2], shares: [std::ops::RangeInclusive<f64>; 2]| {
        let lines = speeds.map(|speed| line(speed, speed));
        let outcome = download(400_000_000, &lines);
        for (requested, expected) in outcome.requested_bytes.iter().zip(shares) {
            let share = *requested as f64 / 4e8;
            assert!(expected.contains(&share), "{speeds:?}: a share of {share}, not {expected:?}");
        }
        let together = 4e8 / (speeds[0] + speeds[1]);
        let alone = 4e8 / speeds[0].max(speeds[1]);
        let joined =
            outcome.notices.iter().any(|notice| notice == "also downloading from second, in parallel with first");
        let best = if joined { together } else { alone };
        assert!(outcome.seconds < best * 1.15 + 2.0, "{speeds:?}: {} s, {best} s at best", outcome.seconds);
    };
    check([4.0 * MB, 4.0 * MB], [0.45..=0.6, 0.4..=0.55]);
    check([6.0 * MB, 3.0 * MB], [0.6..=0.75, 0.25..=0.4]);
    check([3.0 * MB, 6.0 * MB], [0.25..=0.45, 0.55..=0.75]);
    // A fast mirror is used alone, because the registry would add little.
    check([50.0 * MB, 1.0 * MB], [0.99..=1.01, 0.0..=0.01]);
}
