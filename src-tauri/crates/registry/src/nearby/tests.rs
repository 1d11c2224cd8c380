//! Discovered peers are only requested for blobs, with short timeouts.

use std::ops::Range;
use std::time::{Duration, UNIX_EPOCH};

use cairn_store::Digest;

use super::*;
use crate::SourceError;
use crate::tests::fake_source::{Ending, FakeResponse, FakeSource};
use crate::tests::test_server::{TestServer, fixed_now, reply, transport};

fn nearby() -> NearbyPeers {
    NearbyPeers::new(Arc::new(fixed_now))
}

/// A peer at an address, as discovery would report it.
fn peer_info(name: &str, address: SocketAddr) -> PeerInfo {
    let (label, fingerprint) = (name.to_owned(), format!("SHA256:{name}"));
    PeerInfo { instance: name.to_owned(), label, version: "1".to_owned(), fingerprint, addresses: vec![address] }
}

fn address(last: u8, port: u16) -> SocketAddr {
    SocketAddr::from(([10, 0, 0, last], port))
}

fn hosts(nearby: &NearbyPeers, except: &[String]) -> Vec<String> {
    let sources = nearby.sources(&"m".parse().unwrap(), &transport(), except);
    sources.iter().map(|source| source.host().to_owned()).collect()
}

#[tokio::test]
async fn discovered_peer_is_asked_for_blobs_without_credentials() {
    let check = async |status: u16, headers: &'static [(&'static str, &'static str)], has_it: bool| {
        let served = TestServer::start(move |_| reply(status, headers, "x")).await;
        let nearby = nearby();
        nearby.apply(PeerEvent::Found(peer_info("a", served.address.parse().unwrap())));
        let sources = nearby.sources(&"m".parse().unwrap(), &transport(), &[]);
        let opened = sources[0].open(&Digest::of(b"x"), 1, 0..1).await;
        let requests: Vec<_> = served
            .requests()
            .iter()
            .map(|seen| (seen.target.clone(), seen.headers.contains_key("authorization")))
            .collect();
        let path = format!("/v2/library/m/blobs/{}?ns=registry.ollama.ai", Digest::of(b"x"));
        assert_eq!(requests, [(path, false)], "{status}: one request without credentials");
        match opened {
            Ok(mut opened) => {
                assert!(has_it, "{status}: the peer has no blob");
                assert_eq!(opened.body.next().await.unwrap().as_deref(), Some(&b"x"[..]), "the peer's bytes");
                assert_eq!(nearby.list()[0].received_bytes, 1, "the bytes are counted");
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
fn peer_that_sent_wrong_bytes_is_blocked() {
    let nearby = nearby();
    nearby.apply(PeerEvent::Found(peer_info("a", address(1, 1))));
    nearby.apply(PeerEvent::Found(peer_info("b", address(2, 1))));
    assert_eq!(hosts(&nearby, &[]), ["10.0.0.1:1", "10.0.0.2:1"], "both peers");
    assert_eq!(hosts(&nearby, &["SHA256:b".to_owned()]), ["10.0.0.1:1"], "an excluded fingerprint");
    assert!(!nearby.block_host("10.0.0.3:1") && !nearby.block_host("registry.ollama.ai"), "hosts that are not peers");
    assert!(nearby.block_host("10.0.0.1:1"), "a peer's host");
    assert_eq!(hosts(&nearby, &[]), ["10.0.0.2:1"], "the peer is blocked");
    nearby.apply(PeerEvent::Lost("a".to_owned()));
    nearby.apply(PeerEvent::Found(peer_info("a", address(3, 1))));
    assert_eq!(hosts(&nearby, &[]), ["10.0.0.2:1"], "its instance name stays blocked at another address");
    nearby.apply(PeerEvent::Found(peer_info("c", address(1, 2))));
    assert_eq!(hosts(&nearby, &[]), ["10.0.0.2:1"], "its address stays blocked under another name and port");
    nearby.apply(PeerEvent::Found(peer_info("d", address(4, 80))));
    assert!(nearby.block_host(&hosts(&nearby, &[])[1]), "the host without the default port");
    nearby.apply(PeerEvent::Lost("d".to_owned()));
    let blocked: Vec<bool> = nearby.list().iter().map(|peer| peer.blocked).collect();
    assert_eq!(blocked, [true, false, true], "the list shows blocked peers");
}

#[test]
fn number_of_peers_and_sources_is_limited() {
    let nearby = nearby();
    for n in 0..200 {
        nearby.apply(PeerEvent::Found(peer_info(&format!("{n:03}"), address(n, 1))));
    }
    assert_eq!(nearby.list().len(), MAX_PEERS, "the list is limited");
    assert_eq!(hosts(&nearby, &[]).len(), MAX_SOURCES, "the sources are limited");
}

/// Reads from a peer that answers with `answer`. Returns the bytes read, the error, and the elapsed time.
async fn read(answer: impl Fn(&Range<u64>) -> FakeResponse + Send + 'static) -> (u64, Option<SourceError>, Duration) {
    let contents = vec![7; 32 << 20];
    let inner = FakeSource::scripted("10.0.0.1:1", &contents, move |_, requested| Ok(answer(requested)));
    let counts = Arc::new(Counts { received_bytes: AtomicU64::new(0), seen_at: Mutex::new(UNIX_EPOCH) });
    let source = PeerBlobs::new(inner, Arc::clone(&counts), Arc::new(fixed_now));
    let began = tokio::time::Instant::now();
    let mut body = source.open(&Digest::of(&contents), 32 << 20, 0..32 << 20).await.expect("the peer answers").body;
    let error = loop {
        match body.next().await {
            Ok(Some(_)) => {}
            Ok(None) => break None,
            Err(error) => break Some(error),
        }
    };
    (counts.received_bytes.load(Ordering::Relaxed), error, began.elapsed())
}

#[tokio::test(start_paused = true)]
async fn slow_or_silent_peer_is_dropped() {
    let paced = |chunk: usize, milliseconds: u64| {
        read(move |requested| FakeResponse {
            chunk,
            pace: Duration::from_millis(milliseconds),
            ..FakeResponse::good(requested)
        })
    };
    let (got, error, _) = paced(256 << 10, 100).await;
    assert!(error.is_none() && got == 32 << 20, "2.5 MB/s is fast enough: {error:?}");
    let (got, error, took) = paced(1 << 10, 100).await;
    assert!(matches!(error, Some(SourceError::Absent { .. })), "10 KB/s is too slow: {error:?}");
    assert!(got < 1 << 20 && took < Duration::from_secs(7), "the slow peer is dropped early: {got} bytes, {took:?}");
    let hangs =
        |requested: &Range<u64>| FakeResponse { sent: 0..1000, ending: Ending::Hang, ..FakeResponse::good(requested) };
    let (got, error, took) = read(hangs).await;
    assert!(matches!(error, Some(SourceError::Absent { .. })) && got == 1000, "a silent peer is dropped: {error:?}");
    assert!(took < Duration::from_secs(7), "the silent peer is dropped early: {took:?}");
}
