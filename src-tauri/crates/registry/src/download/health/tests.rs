//! Who is asked next, with sources that are names.

use super::*;
use crate::{Opened, Pending};

struct Named(&'static str);

impl BlobSource for Named {
    fn host(&self) -> &str {
        self.0
    }

    fn open<'a>(&'a self, _: &'a Digest, _: u64, _: Range<u64>) -> Pending<'a, Result<Opened, SourceError>> {
        unreachable!("nothing is opened here")
    }
}

fn config() -> Config {
    Config { tries: 3, backoff: seconds(1), longest_backoff: seconds(60), patience: seconds(600), ..Config::default() }
}

fn health(names: &[&'static str]) -> Health {
    let sources: Vec<Arc<dyn BlobSource>> = names.iter().map(|name| Arc::new(Named(name)) as _).collect();
    Health::new(&sources, Arc::new(config()), &[], None)
}

/// Who is asked first while much is missing, and what is said about it.
fn pick(health: &mut Health, now: Duration, avoid: Option<usize>) -> (Asked, Option<Notice>) {
    match health.pick(now, avoid, u64::MAX) {
        Pick::Among(among) => (Asked::Source(among[0]), health.begins(among[0], now)),
        Pick::Later(at) => (Asked::Later(at), None),
        Pick::Nobody => (Asked::Nobody, None),
    }
}

#[derive(Debug, PartialEq, Eq)]
enum Asked {
    Source(usize),
    Later(Duration),
    Nobody,
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
fn the_first_is_asked_until_it_fails_and_again_when_it_recovered() {
    let mut health = health(&["nas", "hub"]);
    assert_eq!(pick(&mut health, seconds(0), None), (Asked::Source(0), None), "the caller's order");
    health.failed(0, &broken(), seconds(1));
    let (asked, notice) = pick(&mut health, seconds(1), None);
    assert_eq!(asked, Asked::Source(1), "while it is left alone");
    let said = Notice::FellBack { from: "nas".into(), to: "hub".into(), reason: "nas: reset".into() };
    assert_eq!(notice, Some(said), "a fall-back is visible");
    assert_eq!(
        pick(&mut health, seconds(3), None).0,
        Asked::Source(0),
        "after a backoff of a second and a half at most"
    );
    health.left(1, None);
    assert_eq!(
        pick(&mut health, seconds(3), Some(0)).0,
        Asked::Source(1),
        "a stream that was slow there goes elsewhere"
    );
}

#[test]
fn the_next_shows_what_it_can_do_and_joins_where_that_is_of_use() {
    let check = |first_bytes: u64, left_bytes: u64, limit: Option<u64>, expected: &[usize], what: &str| {
        let mut health = health(&["nas", "hub"]);
        health.limit_bytes_per_s = limit;
        health.begins(0, seconds(0));
        (1..=10).for_each(|second| health.came(0, second..second + first_bytes, 1 << 20, seconds(second)));
        let Pick::Among(among) = health.pick(seconds(10), None, left_bytes) else { panic!("{what}: nobody") };
        assert_eq!(among, expected, "{what}");
        health
    };
    check(1000, 5_000, None, &[0], "it is all but over");
    check(1000, 1 << 30, Some(1000), &[0], "what the user allows comes already");
    check(1000, 1 << 30, Some(10_000), &[0, 1], "there is room below the limit");
    let mut health = check(1000, 1 << 30, None, &[0, 1], "it would take long");
    assert_eq!(health.begins(1, seconds(10)), None, "one stream tries");
    assert_eq!(health.pick(seconds(10), None, 1 << 30), Pick::Among(vec![0]), "and no more than one");
    health.left(1, Some(100));
    assert_eq!(health.pick(seconds(10), None, 1 << 30), Pick::Among(vec![0, 1]), "eight such streams are worth it");
    let joined = Notice::Joined { host: "hub".into(), beside: "nas".into() };
    assert_eq!(health.begins(1, seconds(10)), Some(joined), "that is said");
    assert_eq!(health.begins(1, seconds(10)), None, "once");
    health.left(1, Some(0));
    health.left(1, Some(0));
    assert_eq!(health.pick(seconds(10), None, 1 << 30), Pick::Among(vec![0]), "now it is not");
}

#[test]
fn failures_add_up_until_bytes_come() {
    let mut health = health(&["nas"]);
    for round in 0..10 {
        let now = seconds(100 * round);
        assert_eq!(pick(&mut health, now, None).0, Asked::Source(0), "round {round}");
        assert!(health.failed(0, &broken(), now).is_some(), "it is said");
        assert!(health.failed(0, &broken(), now).is_none(), "a second stream that broke at once is the same failure");
        health.came(0, round << 20..(round + 1) << 20, 1 << 20, now);
        health.left(0, None);
    }
    let mut waited = Vec::new();
    for round in 10..13 {
        let now = seconds(100 * round);
        let Some(Notice::Waiting { wait, .. }) = health.failed(0, &broken(), now) else { break };
        waited.push(wait);
        let expected = 1.0 * f64::from(1 << (round - 10));
        let range = 0.5 * expected..=1.5 * expected;
        assert!(range.contains(&wait.as_secs_f64()), "round {round}: {wait:?} is not about {expected} s");
    }
    assert_eq!(waited.len(), 2, "the third failure in a row is the last");
    assert_eq!(pick(&mut health, seconds(5000), None).0, Asked::Nobody, "it was given up");
    let verdict = health.verdict(&Digest::of(b""), 5, 10);
    assert!(matches!(verdict, DownloadError::Dropped { times: 3, held_bytes: 5, .. }), "{verdict}");
}

#[test]
fn a_wait_that_was_asked_for_is_kept() {
    let mut health = health(&["nas"]);
    (0..4).for_each(|_| drop(pick(&mut health, seconds(0), None)));
    health.failed(0, &busy(30), seconds(0));
    assert_eq!(pick(&mut health, seconds(29), None).0, Asked::Later(seconds(30)), "not before");
    for _ in 0..4 {
        health.left(0, None);
    }
    assert_eq!(pick(&mut health, seconds(30), None).0, Asked::Source(0), "then");
    assert_eq!(pick(&mut health, seconds(30), None).0, Asked::Source(0), "half as many streams as before");
    assert!(matches!(pick(&mut health, seconds(30), None).0, Asked::Later(_)), "and no more");
    health.failed(0, &busy(3600), seconds(40));
    assert_eq!(pick(&mut health, seconds(40), None).0, Asked::Nobody, "an hour is too long");
    assert!(matches!(health.verdict(&Digest::of(b""), 0, 1), DownloadError::Busy { .. }), "it says so");
}

#[test]
fn the_verdict_is_the_most_telling() {
    let digest = Digest::of(b"x");
    let absent = |host: &str| SourceError::Absent { host: host.to_owned() };
    let mut none = health(&["nas", "hub"]);
    none.failed(0, &absent("nas"), seconds(0));
    assert_eq!(pick(&mut none, seconds(0), None).0, Asked::Source(1), "the next may have it");
    none.failed(1, &absent("hub"), seconds(0));
    assert_eq!(pick(&mut none, seconds(0), None).0, Asked::Nobody, "nobody has it");
    let said = none.verdict(&digest, 0, 1).to_string();
    assert_eq!(said, format!("nas, hub do not have {digest}"), "all that were asked");
    let mut refused = health(&["nas", "hub"]);
    refused.failed(0, &absent("nas"), seconds(0));
    refused.failed(
        1,
        &SourceError::Refused { host: "hub".into(), status: Some(403), reason: "403".into() },
        seconds(0),
    );
    assert_eq!(
        refused.verdict(&digest, 0, 1).to_string(),
        "hub refused: 403",
        "a refusal is worth more than an absence"
    );
    assert!(matches!(health(&[]).verdict(&digest, 0, 1), DownloadError::NoSource(_)), "there is none");
}
