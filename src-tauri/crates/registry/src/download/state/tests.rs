//! Downloads in which bytes, streams and time are numbers: who is asked for how much, and how long that takes.

use super::*;
use crate::{Opened, Pending};

struct Named(usize);

impl BlobSource for Named {
    fn host(&self) -> &str {
        ["first", "second", "third"][self.0]
    }

    fn open<'a>(&'a self, _: &'a Digest, _: u64, _: Range<u64>) -> Pending<'a, Result<Opened, SourceError>> {
        unreachable!("nothing is opened here")
    }
}

/// How fast a source sends, in bytes per second.
#[derive(Debug, Clone, Copy)]
struct Line {
    /// Over one connection.
    stream: f64,
    /// Over all of them.
    total: f64,
    /// A request of this number is answered and then nothing comes.
    hangs_at: Option<usize>,
}

const MB: f64 = 1e6;

fn line(stream: f64, total: f64) -> Line {
    Line { stream, total, hangs_at: None }
}

struct Outcome {
    seconds: f64,
    /// How often bytes were asked for, in all; of each source.
    asked_bytes: Vec<u64>,
    requests: usize,
    notices: Vec<String>,
}

struct Stream {
    job: Job,
    number: usize,
    at: f64,
    told: u64,
    last: Duration,
}

const STEP: Duration = Duration::from_millis(20);
/// From the request to the first byte.
const LATENCY: Duration = Duration::from_millis(100);

/// Downloads over lines of these speeds.
fn download(size_bytes: u64, lines: &[Line]) -> Outcome {
    let config = Arc::new(Config::default());
    let sources: Vec<Arc<dyn BlobSource>> = (0..lines.len()).map(|index| Arc::new(Named(index)) as _).collect();
    let health = Health::new(&sources, Arc::clone(&config), &[], None);
    let mut state = State::new(Digest::of(b""), size_bytes, Ranges::new(), health, Arc::clone(&config));
    let mut streams: Vec<(Option<Stream>, Option<usize>, Duration)> =
        (0..state.most_streams()).map(|_| (None, None, Duration::ZERO)).collect();
    let (mut now, mut requests, mut asked_bytes) = (Duration::ZERO, 0, vec![0; lines.len()]);
    while !state.is_over() {
        now += STEP;
        assert!(now < Duration::from_secs(40_000), "it does not end");
        for (stream, avoid, wakes) in &mut streams {
            if stream.is_some() || now < *wakes {
                continue;
            }
            match state.next(now, *avoid) {
                Next::Wait(until) => *wakes = until,
                Next::Fetch(job) => {
                    asked_bytes[job.source] += job.range.end - job.range.start;
                    let (at, told) = (job.range.start as f64, job.range.start);
                    *stream = Some(Stream { job, number: requests, at, told, last: now + LATENCY });
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
                let fresh = one.at as u64 - one.told;
                let end = match fresh {
                    0 if now >= one.last + config.stall => {
                        Some(End::Stalled { silent: one.told == one.job.range.start })
                    }
                    0 => None,
                    _ => match state.take(&one.job, one.told, fresh as usize, now) {
                        Taken::Write { finished: true, .. } | Taken::Gone => Some(End::Done),
                        _ if state.plan.is_slow(one.job.lease, now) => Some(End::Slow),
                        _ => None,
                    },
                };
                one.told = one.at as u64;
                if let Some(end) = end {
                    *avoid = matches!(end, End::Slow | End::Stalled { .. }).then_some(source);
                    state.ended(&one.job, &end, now);
                    (*stream, *wakes) = (None, now);
                }
            }
        }
    }
    assert!(state.failure.is_none(), "{:?}", state.failure);
    let notices = state.notices.iter().map(ToString::to_string).collect();
    Outcome { seconds: now.as_secs_f64(), asked_bytes, requests, notices }
}

#[test]
fn over_a_slow_and_healthy_line_every_byte_is_asked_for_once() {
    let check = |what: &str, size_bytes: u64, line: Line| {
        let outcome = download(size_bytes, &[line]);
        assert_eq!(outcome.asked_bytes, [size_bytes], "{what}: {} requests", outcome.requests);
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
fn requests_are_few_on_fast_lines() {
    let outcome = download(8_000_000_000, &[line(30.0 * MB, 100.0 * MB)]);
    assert!(outcome.requests < 400, "{} requests for 8 GB", outcome.requests);
}

#[test]
fn a_stream_that_falls_silent_is_rescued_from() {
    for hangs_at in [0, 5, 30] {
        let line = Line { hangs_at: Some(hangs_at), ..line(2.0 * MB, 8.0 * MB) };
        let outcome = download(100_000_000, &[line]);
        let twice = outcome.asked_bytes[0] - 100_000_000;
        assert!(twice <= 16_000_000, "request {hangs_at}: what it had not sent is asked for again: {twice} bytes");
        assert!(outcome.seconds < 22.0, "request {hangs_at}: nobody waits for half a minute: {} s", outcome.seconds);
    }
}

/// However slow a mirror before it is, the registry's own speed is reached, and both together are faster where they can be.
#[test]
fn a_slow_mirror_does_not_slow_a_download() {
    let check = |what: &str, mirror: Line, origin: Line| {
        let size_bytes = 200_000_000;
        let alone = download(size_bytes, &[origin]).seconds;
        let outcome = download(size_bytes, &[mirror, origin]);
        assert!(outcome.seconds < alone * 1.08 + 1.0, "{what}: {} s, {alone} s without it", outcome.seconds);
        let other_way = download(size_bytes, &[origin, mirror]).seconds;
        assert!(other_way < alone * 1.05, "{what}, asked second: {other_way} s, {alone} s without it");
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
fn sources_share_a_download_as_their_speeds_are() {
    let check = |speeds: [f64; 2], shares: [std::ops::RangeInclusive<f64>; 2]| {
        let lines = speeds.map(|speed| line(speed, speed));
        let outcome = download(400_000_000, &lines);
        for (asked, expected) in outcome.asked_bytes.iter().zip(shares) {
            let share = *asked as f64 / 4e8;
            assert!(expected.contains(&share), "{speeds:?}: a share of {share}, not {expected:?}");
        }
        let together = 4e8 / (speeds[0] + speeds[1]);
        let alone = 4e8 / speeds[0].max(speeds[1]);
        let joined = outcome.notices.iter().any(|notice| notice == "second sends too, beside first");
        let best = if joined { together } else { alone };
        assert!(outcome.seconds < best * 1.15 + 2.0, "{speeds:?}: {} s, {best} s at best", outcome.seconds);
    };
    check([4.0 * MB, 4.0 * MB], [0.45..=0.6, 0.4..=0.55]);
    check([6.0 * MB, 3.0 * MB], [0.6..=0.75, 0.25..=0.4]);
    check([3.0 * MB, 6.0 * MB], [0.25..=0.45, 0.55..=0.75]);
    // A mirror in the same house spares the registry: what that would add is not worth its while.
    check([50.0 * MB, 1.0 * MB], [0.99..=1.01, 0.0..=0.01]);
}
