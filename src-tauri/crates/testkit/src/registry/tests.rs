//! Faulty responses as a client receives them.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::time::Duration;

use super::*;

const DIGEST: &str = "sha256:00";

fn contents() -> Arc<[u8]> {
    let mut bytes = vec![0; 300_000];
    Random::new(1).fill(&mut bytes);
    bytes.into()
}

/// Sends one request and returns header and body, read until the connection closes or the body is complete.
fn request(host: &str, target: &str, headers: &str) -> (String, Vec<u8>) {
    let mut connection = TcpStream::connect(host).unwrap();
    connection.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    write!(connection, "GET {target} HTTP/1.1\r\nHost: x\r\n{headers}\r\n").unwrap();
    let (mut read, mut piece) = (Vec::new(), [0; 8192]);
    loop {
        let end = read.windows(4).position(|w| w == b"\r\n\r\n");
        let head = end.map(|end| String::from_utf8_lossy(&read[..end]).into_owned());
        let content_length =
            head.as_ref().and_then(|head| head.split("Content-Length: ").nth(1)?.trim().parse::<usize>().ok());
        if let (Some(end), Some(head), Some(content_length)) = (end, &head, content_length)
            && read.len() >= end + 4 + content_length
        {
            return (head.clone(), read[end + 4..].to_vec());
        }
        match connection.read(&mut piece) {
            Ok(count) if count > 0 => read.extend_from_slice(&piece[..count]),
            _ => return (head.unwrap_or_default(), end.map(|end| read[end + 4..].to_vec()).unwrap_or_default()),
        }
    }
}

fn registry(faults: Faults) -> FakeRegistry {
    let registry = FakeRegistry::start(7, faults).unwrap();
    registry.put_blob(DIGEST, contents());
    registry.put_manifest("library/m", "latest", b"{}");
    registry
}

fn always(fault: Fault) -> Faults {
    Faults { per_1000: vec![(fault, 1000)], ..Faults::default() }
}

#[test]
fn registry_without_faults_serves_manifests_and_blobs() {
    let registry = registry(Faults::default());
    let (head, body) = request(&registry.host(), "/v2/library/m/manifests/latest", "");
    assert!(head.starts_with("HTTP/1.1 200") && body == b"{}", "{head}");
    let blob = format!("/v2/library/m/blobs/{DIGEST}");
    let (head, body) = request(&registry.host(), &blob, "Range: bytes=10-19\r\n");
    assert!(head.starts_with("HTTP/1.1 206") && head.contains("Content-Range: bytes 10-19/300000"), "{head}");
    assert_eq!(body, contents()[10..20], "the requested range");
    assert_eq!(registry.sent_bytes(DIGEST), 10, "sent bytes are counted");
    assert_eq!(request(&registry.host(), &blob, "").1, *contents(), "the whole blob");
    let (head, _) = request(&registry.host(), &blob, "Range: bytes=300000-\r\n");
    assert!(head.starts_with("HTTP/1.1 416"), "{head}");
    assert!(request(&registry.host(), "/v2/library/x/manifests/latest", "").0.starts_with("HTTP/1.1 404"), "unknown");
    assert_eq!(registry.requests().len(), 5, "all requests are recorded");
}

#[test]
fn every_fault_is_visible_to_client() {
    let check = |fault: Fault, shows: &dyn Fn(&str, &[u8]) -> bool| {
        let registry = registry(always(fault));
        let target = format!("/v2/library/m/blobs/{DIGEST}");
        let (head, body) = request(&registry.host(), &target, "Range: bytes=1000-200999\r\n");
        assert!(shows(&head, &body), "{fault:?}: {head}, {} bytes", body.len());
    };
    let expected = contents()[1000..201_000].to_vec();
    check(Fault::Drop, &|head, body| {
        head.contains("Length: 200000") && body.len() < 200_000 && expected.starts_with(body)
    });
    check(Fault::Stall(Duration::from_millis(50)), &|_, body| body.len() < 200_000);
    check(Fault::Short, &|head, body| head.contains(&format!("Length: {}", body.len())) && body.len() < 200_000);
    check(Fault::Long, &|_, body| body.len() == 201_000 && body.starts_with(&expected));
    check(Fault::Flip, &|_, body| body.iter().zip(&expected).filter(|(a, b)| a != b).count() == 1);
    check(Fault::Storm { status: 503, responses: 2 }, &|head, _| head.starts_with("HTTP/1.1 503"));
    check(Fault::Storm { status: 401, responses: 2 }, &|head, _| head.contains("WWW-Authenticate: Bearer realm="));
    check(Fault::IgnoreRange, &|head, body| head.starts_with("HTTP/1.1 200") && body.len() == 300_000);
    check(Fault::OffByOne, &|head, body| head.contains("bytes 1001-200999/") && body == &expected[1..]);
    check(Fault::OtherEtag, &|head, body| head.contains("ETag: \"another\"") && body == expected);
    check(Fault::Slow { bytes_per_second: 10_000_000 }, &|_, body| body == expected);
}

#[test]
fn storm_stops_after_its_responses_when_budget_is_spent() {
    let faults = Faults { budget: Some(1), ..always(Fault::Storm { status: 500, responses: 3 }) };
    let registry = registry(faults);
    let target = format!("/v2/library/m/blobs/{DIGEST}");
    let statuses: Vec<String> = (0..4).map(|_| request(&registry.host(), &target, "").0[9..12].to_owned()).collect();
    assert_eq!(statuses, ["500", "500", "500", "200"], "three failed responses, then no fault is left");
}

#[test]
fn tokens_and_redirects_work_and_expire() {
    let registry = registry(Faults { sign_in: true, redirect: true, ..Faults::default() });
    let target = format!("/v2/library/m/blobs/{DIGEST}");
    let (head, _) = request(&registry.host(), &target, "");
    assert!(head.starts_with("HTTP/1.1 401") && head.contains("scope=\"repository:library/m:pull\""), "{head}");
    let token = String::from_utf8(request(&registry.host(), "/token?service=fake", "").1).unwrap();
    assert_eq!(token, r#"{"token":"registry-token-1"}"#, "every client gets a token");
    let (head, _) = request(&registry.host(), &target, "Authorization: Bearer registry-token-1\r\n");
    let location = head.split("Location: http://").nth(1).and_then(|rest| rest.lines().next()).unwrap().to_owned();
    let (host, path) = location.split_once('/').unwrap();
    assert_eq!(host, registry.storage_host(), "{head}");
    assert_eq!(request(host, &format!("/{path}"), "").1, *contents(), "the storage sends the blob");
    registry.expire();
    assert!(request(host, &format!("/{path}"), "").0.starts_with("HTTP/1.1 403"), "the address has expired");
    assert!(
        request(&registry.host(), &target, "Authorization: Bearer registry-token-1\r\n").0.starts_with("HTTP/1.1 401"),
        "the token has expired"
    );
}
