//! Who was found is asked for contents and for nothing else, and not for long.

use std::ops::Range;
use std::time::{Duration, UNIX_EPOCH};

use cairn_store::Digest;

use super::*;
use crate::SourceError;
use crate::fake::{Answer, Fake, Then};
use crate::served::{Served, new_year, reply, transport};

fn nearby() -> Nearby {
    Nearby::new(Arc::new(new_year))
}

/// A machine at an address, as the network would tell of it.
fn machine(name: &str, address: SocketAddr) -> Found {
    let (label, fingerprint) = (name.to_owned(), format!("SHA256:{name}"));
    Found { instance: name.to_owned(), label, version: "1".to_owned(), fingerprint, addresses: vec![address] }
}

fn address(last: u8, port: u16) -> SocketAddr {
    SocketAddr::from(([10, 0, 0, last], port))
}

fn hosts(nearby: &Nearby, besides: &[String]) -> Vec<String> {
    let sources = nearby.sources(&"m".parse().unwrap(), &transport(), besides);
    sources.iter().map(|source| source.host().to_owned()).collect()
}

#[tokio::test]
async fn who_was_found_is_asked_for_contents_only() {
    let check = async |status: u16, headers: &'static [(&'static str, &'static str)], has_it: bool| {
        let served = Served::by(move |_| reply(status, headers, "x")).await;
        let nearby = nearby();
        nearby.saw(Sighting::Here(machine("a", served.place.parse().unwrap())));
        let sources = nearby.sources(&"m".parse().unwrap(), &transport(), &[]);
        let opened = sources[0].open(&Digest::of(b"x"), 1, 0..1).await;
        let asked: Vec<_> = served
            .seen()
            .iter()
            .map(|seen| (seen.target.clone(), seen.headers.contains_key("authorization")))
            .collect();
        let path = format!("/v2/library/m/blobs/{}?ns=registry.ollama.ai", Digest::of(b"x"));
        assert_eq!(asked, [(path, false)], "{status}: one question, and no credentials");
        match opened {
            Ok(mut opened) => {
                assert!(has_it, "{status}: it has nothing");
                assert_eq!(opened.body.next().await.unwrap().as_deref(), Some(&b"x"[..]), "what it sent");
                assert_eq!(nearby.list()[0].got_bytes, 1, "and that is counted");
            }
            Err(error) => assert!(!has_it && matches!(error, SourceError::Absent { .. }), "{status}: {error}"),
        }
    };
    check(200, &[], true).await;
    check(404, &[], false).await;
    check(500, &[], false).await;
    check(307, &[("location", "http://127.0.0.1:1/elsewhere")], false).await;
    check(401, &[("www-authenticate", "Bearer realm=\"http://127.0.0.1:1/token\"")], false).await;
}

#[test]
fn who_sent_wrong_bytes_is_not_asked_again() {
    let nearby = nearby();
    nearby.saw(Sighting::Here(machine("a", address(1, 1))));
    nearby.saw(Sighting::Here(machine("b", address(2, 1))));
    assert_eq!(hosts(&nearby, &[]), ["10.0.0.1:1", "10.0.0.2:1"], "both");
    assert_eq!(hosts(&nearby, &["SHA256:b".to_owned()]), ["10.0.0.1:1"], "one that is asked in another way already");
    assert!(!nearby.sent_wrong_bytes("10.0.0.3:1") && !nearby.sent_wrong_bytes("registry.ollama.ai"), "others");
    assert!(nearby.sent_wrong_bytes("10.0.0.1:1"), "that is one of them");
    assert_eq!(hosts(&nearby, &[]), ["10.0.0.2:1"], "it is out");
    nearby.saw(Sighting::Gone("a".to_owned()));
    nearby.saw(Sighting::Here(machine("a", address(3, 1))));
    assert_eq!(hosts(&nearby, &[]), ["10.0.0.2:1"], "and stays out at another address");
    nearby.saw(Sighting::Here(machine("c", address(1, 2))));
    assert_eq!(hosts(&nearby, &[]), ["10.0.0.2:1"], "and by another name at another port");
    nearby.saw(Sighting::Here(machine("d", address(4, 80))));
    assert!(nearby.sent_wrong_bytes(&hosts(&nearby, &[])[1]), "by whatever name it is asked");
    nearby.saw(Sighting::Gone("d".to_owned()));
    let dropped: Vec<bool> = nearby.list().iter().map(|peer| peer.dropped).collect();
    assert_eq!(dropped, [true, false, true], "and is shown as such");
}

#[test]
fn a_network_full_of_announcements_costs_little() {
    let nearby = nearby();
    for n in 0..200 {
        nearby.saw(Sighting::Here(machine(&format!("{n:03}"), address(n, 1))));
    }
    assert_eq!(nearby.list().len(), MAX_FOUND, "no more are remembered");
    assert_eq!(hosts(&nearby, &[]).len(), MAX_ASKED, "and fewer asked");
}

/// What a found machine that behaves so gives, and after how long.
async fn read(answer: impl Fn(&Range<u64>) -> Answer + Send + 'static) -> (u64, Option<SourceError>, Duration) {
    let contents = vec![7; 32 << 20];
    let inner = Fake::scripted("10.0.0.1:1", &contents, move |_, asked| Ok(answer(asked)));
    let counts = Arc::new(Counts { got_bytes: AtomicU64::new(0), seen_at: Mutex::new(UNIX_EPOCH) });
    let source = PeerBlobs::new(inner, Arc::clone(&counts), Arc::new(new_year));
    let began = tokio::time::Instant::now();
    let mut body = source.open(&Digest::of(&contents), 32 << 20, 0..32 << 20).await.expect("it answers").body;
    let error = loop {
        match body.next().await {
            Ok(Some(_)) => {}
            Ok(None) => break None,
            Err(error) => break Some(error),
        }
    };
    (counts.got_bytes.load(Ordering::Relaxed), error, began.elapsed())
}

#[tokio::test(start_paused = true)]
async fn one_that_is_slow_or_silent_is_left() {
    let paced = |chunk: usize, milliseconds: u64| {
        read(move |asked| Answer { chunk, pace: Duration::from_millis(milliseconds), ..Answer::good(asked) })
    };
    let (got, error, _) = paced(256 << 10, 100).await;
    assert!(error.is_none() && got == 32 << 20, "2.5 MB/s is fine: {error:?}");
    let (got, error, took) = paced(1 << 10, 100).await;
    assert!(matches!(error, Some(SourceError::Absent { .. })), "10 KB/s is not: {error:?}");
    assert!(got < 1 << 20 && took < Duration::from_secs(7), "and that shows soon: {got} bytes, {took:?}");
    let hangs = |asked: &Range<u64>| Answer { sent: 0..1000, then: Then::Hang, ..Answer::good(asked) };
    let (got, error, took) = read(hangs).await;
    assert!(matches!(error, Some(SourceError::Absent { .. })) && got == 1000, "silence is not: {error:?}");
    assert!(took < Duration::from_secs(7), "and that shows soon: {took:?}");
}
