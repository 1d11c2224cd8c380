//! Selection and backoff of sources.

use super::*;
use crate::{BoxFuture, RangeResponse};

struct Named(&'static str);

impl BlobSource for Named {
    fn host(&self) -> &str {
        self.0
    }

    fn open<'a>(&'a self, _: &'a Digest, _: u64, _: Range<u64>) -> BoxFuture<'a, Result<RangeResponse, SourceError>> {
        unreachable!("these tests open no streams")
    }
}

fn config() -> DownloadConfig {
    DownloadConfig {
        max_attempts: 3,
        backoff: seconds(1),
        max_backoff: seconds(60),
        max_retry_after: seconds(600),
        ..DownloadConfig::default()
    }
}

fn health(names: &[&'static str]) -> Health {
    let sources: Vec<Arc<dyn BlobSource>> = names.iter().map(|name| Arc::new(Named(name)) as _).collect();
    Health::new(&sources, Arc::new(config()), &[], None)
}

/// The selected source and the notice, while many bytes are missing.
fn pick(health: &mut Health, now: Duration, avoid: Option<usize>) -> (Selection, Option<DownloadNotice>) {
    match health.pick(now, avoid, u64::MAX) {
        Pick::Candidates(candidates) => (Selection::Source(candidates[0]), health.stream_started(candidates[0], now)),
        Pick::WaitUntil(at) => (Selection::WaitUntil(at), None),
        Pick::Exhausted => (Selection::Exhausted, None),
    }
}

#[derive(Debug, PartialEq, Eq)]
enum Selection {
    Source(usize),
    WaitUntil(Duration),
    Exhausted,
}

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn broken() -> SourceError {
    SourceError::Broken { host: "nas".to_owned(), reason: "reset".to_owned(), answered: false }
}

fn busy(retry_after: u64) -> SourceError {
    SourceError::Busy { host: "nas".to_owned(), retry_after: Some(seconds(retry_after)) }
}

#[test]
fn first_source_is_used_until_it_fails_and_after_backoff() {
    let mut health = health(&["nas", "hub"]);
    assert_eq!(pick(&mut health, seconds(0), None), (Selection::Source(0), None), "the first source in order");
    health.failed(0, &broken(), seconds(1));
    let (selection, notice) = pick(&mut health, seconds(1), None);
    assert_eq!(selection, Selection::Source(1), "the second source during the backoff");
    let expected = DownloadNotice::FellBack { from: "nas".into(), to: "hub".into(), reason: "nas: reset".into() };
    assert_eq!(notice, Some(expected), "a fallback is reported");
    assert_eq!(pick(&mut health, seconds(3), None).0, Selection::Source(0), "the first source after its backoff");
    health.stream_ended(1, None);
    assert_eq!(pick(&mut health, seconds(3), Some(0)).0, Selection::Source(1), "the source to avoid comes last");
}

#[test]
fn second_source_is_tried_and_added_if_fast_enough() {
    let check = |first_bytes: u64, left_bytes: u64, limit: Option<u64>, expected: &[usize], what: &str| {
        let mut health = health(&["nas", "hub"]);
        health.limit_bytes_per_s = limit;
        health.stream_started(0, seconds(0));
        (1..=10).for_each(|second| health.received(0, second..second + first_bytes, 1 << 20, seconds(second)));
        let Pick::Candidates(candidates) = health.pick(seconds(10), None, left_bytes) else {
            panic!("{what}: no source")
        };
        assert_eq!(candidates, expected, "{what}");
        health
    };
    check(1000, 5_000, None, &[0], "few bytes are left");
    check(1000, 1 << 30, Some(1000), &[0], "the rate limit is reached");
    check(1000, 1 << 30, Some(10_000), &[0, 1], "the rate limit is not reached");
    let mut health = check(1000, 1 << 30, None, &[0, 1], "the leader alone would need long");
    assert_eq!(health.stream_started(1, seconds(10)), None, "the first stream is a trial");
    assert_eq!(health.pick(seconds(10), None, 1 << 30), Pick::Candidates(vec![0]), "one trial stream only");
    health.stream_ended(1, Some(100));
    assert_eq!(
        health.pick(seconds(10), None, 1 << 30),
        Pick::Candidates(vec![0, 1]),
        "eight such streams are fast enough"
    );
    let joined = DownloadNotice::Joined { host: "hub".into(), leader: "nas".into() };
    assert_eq!(health.stream_started(1, seconds(10)), Some(joined), "the added source is reported");
    assert_eq!(health.stream_started(1, seconds(10)), None, "it is reported once");
    health.stream_ended(1, Some(0));
    health.stream_ended(1, Some(0));
    assert_eq!(health.pick(seconds(10), None, 1 << 30), Pick::Candidates(vec![0]), "the source is too slow now");
}

#[test]
fn failures_count_until_bytes_are_received() {
    let mut health = health(&["nas"]);
    for round in 0..10 {
        let now = seconds(100 * round);
        assert_eq!(pick(&mut health, now, None).0, Selection::Source(0), "round {round}");
        assert!(health.failed(0, &broken(), now).is_some(), "the failure is reported");
        assert!(health.failed(0, &broken(), now).is_none(), "a simultaneous failure is not counted");
        health.received(0, round << 20..(round + 1) << 20, 1 << 20, now);
        health.stream_ended(0, None);
    }
    let mut waited = Vec::new();
    for round in 10..13 {
        let now = seconds(100 * round);
        let Some(DownloadNotice::Waiting { wait, .. }) = health.failed(0, &broken(), now) else { break };
        waited.push(wait);
        let expected = 1.0 * f64::from(1 << (round - 10));
        let range = 0.5 * expected..=1.5 * expected;
        assert!(range.contains(&wait.as_secs_f64()), "round {round}: {wait:?} is not about {expected} s");
    }
    assert_eq!(waited.len(), 2, "the third failure in a row is final");
    assert_eq!(pick(&mut health, seconds(5000), None).0, Selection::Exhausted, "the source is abandoned");
    let error = health.final_error(&Digest::of(b""), 5, 10);
    assert!(matches!(error, DownloadError::Dropped { times: 3, held_bytes: 5, .. }), "{error}");
}

#[test]
fn retry_after_is_respected_and_streams_are_halved() {
    let mut health = health(&["nas"]);
    (0..4).for_each(|_| drop(pick(&mut health, seconds(0), None)));
    health.failed(0, &busy(30), seconds(0));
    assert_eq!(
        pick(&mut health, seconds(29), None).0,
        Selection::WaitUntil(seconds(30)),
        "not before the requested time"
    );
    for _ in 0..4 {
        health.stream_ended(0, None);
    }
    assert_eq!(pick(&mut health, seconds(30), None).0, Selection::Source(0), "at the requested time");
    assert_eq!(pick(&mut health, seconds(30), None).0, Selection::Source(0), "half as many streams");
    assert!(matches!(pick(&mut health, seconds(30), None).0, Selection::WaitUntil(_)), "the limit of streams");
    health.failed(0, &busy(3600), seconds(40));
    assert_eq!(pick(&mut health, seconds(40), None).0, Selection::Exhausted, "a delay of an hour is an error");
    assert!(matches!(health.final_error(&Digest::of(b""), 0, 1), DownloadError::Busy { .. }), "the final error");
}

#[test]
fn final_error_prefers_refusal_to_absence() {
    let digest = Digest::of(b"x");
    let absent = |host: &str| SourceError::Absent { host: host.to_owned() };
    let mut none = health(&["nas", "hub"]);
    none.failed(0, &absent("nas"), seconds(0));
    assert_eq!(pick(&mut none, seconds(0), None).0, Selection::Source(1), "the next source");
    none.failed(1, &absent("hub"), seconds(0));
    assert_eq!(pick(&mut none, seconds(0), None).0, Selection::Exhausted, "no source has the blob");
    let text = none.final_error(&digest, 0, 1).to_string();
    assert_eq!(text, format!("nas, hub do not have {digest}"), "all hosts");
    let mut refused = health(&["nas", "hub"]);
    refused.failed(0, &absent("nas"), seconds(0));
    refused.failed(
        1,
        &SourceError::Refused { host: "hub".into(), status: Some(403), reason: "403".into() },
        seconds(0),
    );
    assert_eq!(
        refused.final_error(&digest, 0, 1).to_string(),
        "hub refused: 403",
        "a refusal takes precedence over an absence"
    );
    assert!(matches!(health(&[]).final_error(&digest, 0, 1), DownloadError::NoSource(_)), "no sources");
}
