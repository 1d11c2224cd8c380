//! Mapping of responses and connection failures to errors.

use std::time::Duration;

use axum::body::Body;
use axum::http::Response;

use crate::tests::test_server::{TestServer, config, model, reply};
use crate::{Credentials, Proxies, Registry, SourceError, Transport, TransportConfig};

async fn error(answer: impl Fn() -> Response<Body> + Send + Sync + 'static) -> SourceError {
    let served = TestServer::start(move |_| answer()).await;
    let error =
        served.registry(Credentials::anonymous()).manifest(&model()).await.expect_err("the server returns an error");
    let host_of_error = match &error {
        SourceError::Broken { host, .. } | SourceError::Refused { host, .. } => host,
        SourceError::InvalidManifest { host, .. } => host,
        SourceError::Busy { host, .. } | SourceError::Absent { host } | SourceError::Untrusted { host, .. } => host,
    };
    assert_eq!(host_of_error, &served.address, "the error names the host");
    error
}

async fn check_retry_after(status: u16, headers: &'static [(&'static str, &'static str)], expected: Option<u64>) {
    match error(move || reply(status, headers, "")).await {
        SourceError::Busy { retry_after, .. } => {
            assert_eq!(retry_after, expected.map(Duration::from_secs), "{status} {headers:?}");
        }
        other => panic!("{status} {headers:?}: expected Busy, got {other:?}"),
    }
}

#[tokio::test]
async fn status_404_and_410_are_absent() {
    for status in [404, 410] {
        let error = error(move || reply(status, &[], "")).await;
        assert!(matches!(error, SourceError::Absent { .. }), "{status}: {error:?}");
    }
}

#[tokio::test]
async fn retry_after_is_parsed() {
    check_retry_after(429, &[], None).await;
    check_retry_after(429, &[("Retry-After", "7")], Some(7)).await;
    check_retry_after(503, &[("Retry-After", " 30 ")], Some(30)).await;
    // Relative to the server's Date header, not to the test clock of 2026.
    let date = ("Date", "Wed, 21 Oct 2015 07:28:00 GMT");
    let later = ("Retry-After", "Wed, 21 Oct 2015 07:29:30 GMT");
    check_retry_after(429, Box::leak(Box::new([date, later])), Some(90)).await;
    check_retry_after(429, Box::leak(Box::new([date, ("Retry-After", "Wed, 21 Oct 2015 07:00:00 GMT")])), Some(0))
        .await;
    check_retry_after(429, &[("Retry-After", "99999999")], Some(24 * 60 * 60)).await;
    check_retry_after(429, &[("Retry-After", "soon")], None).await;
}

#[tokio::test]
async fn server_errors_are_retryable() {
    for status in [500, 502, 503, 504, 408] {
        let error = error(move || reply(status, &[], "overloaded")).await;
        assert!(matches!(error, SourceError::Broken { .. }), "{status}: {error:?}");
    }
}

#[tokio::test]
async fn refusal_contains_servers_message() {
    for status in [400, 403, 451] {
        match error(move || reply(status, &[], "not\nyou \u{1b}[31m")).await {
            SourceError::Refused { reason, status: error_status, .. } => {
                assert_eq!(error_status, Some(status), "the error has the status");
                assert!(reason.starts_with(&status.to_string()), "the text has the status: {reason}");
                assert!(reason.ends_with("not you  [31m"), "control characters are removed: {reason:?}");
            }
            other => panic!("{status}: expected Refused, got {other:?}"),
        }
    }
    match error(|| reply(400, &[], "x".repeat(1 << 20))).await {
        SourceError::Refused { reason, .. } => {
            assert!(
                reason.chars().count() < 250 && reason.ends_with("x…"),
                "the message is truncated: {}",
                reason.len()
            )
        }
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn connection_failures_are_described() {
    let unused = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = unused.local_addr().unwrap();
    let mut settings = config();
    settings.response_timeout = Duration::from_millis(50);
    let transport = Transport::new(settings).unwrap();
    let registry =
        Registry::from_address(&format!("http://{address}"), false, &transport, Credentials::anonymous()).unwrap();
    // The system accepts connections to a bound port, but no server responds.
    let silent = registry.manifest(&model()).await;
    assert!(matches!(&silent, Err(SourceError::Broken { reason, .. }) if reason.contains("no response")), "{silent:?}");
    drop(unused);
    let check = async |address: String, proxies: Proxies, expected: &str| {
        let settings = TransportConfig { proxies, connect_timeout: Duration::from_millis(100), ..config() };
        let registry =
            Registry::from_address(&address, true, &Transport::new(settings).unwrap(), Credentials::anonymous())
                .unwrap();
        let got = registry.manifest(&model()).await;
        let is_expected = matches!(&got, Err(SourceError::Broken { reason, .. }) if reason.starts_with(expected));
        assert!(is_expected, "{address}: {got:?} instead of {expected:?}");
    };
    check(format!("http://{address}"), Proxies::none(), "no connection: connection refused, no server is listening (")
        .await;
    let unresolved = "no connection: cannot resolve no-such-host.invalid (";
    check("http://no-such-host.invalid".to_owned(), Proxies::none(), unresolved).await;
    // A proxy that accepts connections and does not respond.
    let mute = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let proxies = Proxies::all(&format!("http://{}", mute.local_addr().unwrap()), "");
    check("https://registry.test".to_owned(), proxies, "no connection: timeout").await;
}
