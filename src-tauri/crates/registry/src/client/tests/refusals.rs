//! What each refusal means to whoever asked.

use std::time::Duration;

use axum::body::Body;
use axum::http::Response;

use crate::served::{Served, config, model, reply};
use crate::{Proxies, Registry, SignIn, SourceError, Transport, TransportConfig};

async fn error(answer: impl Fn() -> Response<Body> + Send + Sync + 'static) -> SourceError {
    let served = Served::by(move |_| answer()).await;
    let error = served.registry(SignIn::anonymous()).manifest(&model()).await.expect_err("the server refuses");
    let place = match &error {
        SourceError::Broken { host, .. } | SourceError::Refused { host, .. } => host,
        SourceError::Busy { host, .. } | SourceError::Absent { host } | SourceError::Untrusted { host, .. } => host,
    };
    assert_eq!(place, &served.place, "it says who refused");
    error
}

async fn waits(status: u16, headers: &'static [(&'static str, &'static str)], expected: Option<u64>) {
    match error(move || reply(status, headers, "")).await {
        SourceError::Busy { retry_after, .. } => {
            assert_eq!(retry_after, expected.map(Duration::from_secs), "{status} {headers:?}");
        }
        other => panic!("{status} {headers:?} must be Busy: {other:?}"),
    }
}

#[tokio::test]
async fn what_is_not_there() {
    for status in [404, 410] {
        let error = error(move || reply(status, &[], "")).await;
        assert!(matches!(error, SourceError::Absent { .. }), "{status}: {error:?}");
    }
}

#[tokio::test]
async fn whoever_asks_to_wait_is_waited_for() {
    waits(429, &[], None).await;
    waits(429, &[("Retry-After", "7")], Some(7)).await;
    waits(503, &[("Retry-After", " 30 ")], Some(30)).await;
    // The server's own Date counts, not our clock, which stands at New Year of 2026.
    let date = ("Date", "Wed, 21 Oct 2015 07:28:00 GMT");
    let later = ("Retry-After", "Wed, 21 Oct 2015 07:29:30 GMT");
    waits(429, Box::leak(Box::new([date, later])), Some(90)).await;
    waits(429, Box::leak(Box::new([date, ("Retry-After", "Wed, 21 Oct 2015 07:00:00 GMT")])), Some(0)).await;
    waits(429, &[("Retry-After", "99999999")], Some(24 * 60 * 60)).await;
    waits(429, &[("Retry-After", "soon")], None).await;
}

#[tokio::test]
async fn trouble_of_the_server_may_pass() {
    for status in [500, 502, 503, 504, 408] {
        let error = error(move || reply(status, &[], "overloaded")).await;
        assert!(matches!(error, SourceError::Broken { .. }), "{status}: {error:?}");
    }
}

#[tokio::test]
async fn a_refusal_is_told_in_the_servers_words() {
    for status in [400, 403, 451] {
        match error(move || reply(status, &[], "not\nyou \u{1b}[31m")).await {
            SourceError::Refused { reason, status: said, .. } => {
                assert_eq!(said, Some(status), "the status is a fact of its own");
                assert!(reason.starts_with(&status.to_string()), "with its status: {reason}");
                assert!(reason.ends_with("not you  [31m"), "without what a terminal would obey: {reason:?}");
            }
            other => panic!("{status} must be Refused: {other:?}"),
        }
    }
    match error(|| reply(400, &[], "x".repeat(1 << 20))).await {
        SourceError::Refused { reason, .. } => {
            assert!(reason.chars().count() < 250 && reason.ends_with("x…"), "cut short: {}", reason.len())
        }
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn nobody_there_and_nobody_answering() {
    let unused = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let place = unused.local_addr().unwrap();
    let mut settings = config();
    settings.answer_timeout = Duration::from_millis(50);
    let transport = Transport::new(settings).unwrap();
    let registry = Registry::at(&format!("http://{place}"), false, &transport, SignIn::anonymous()).unwrap();
    // The system accepts connections to a bound port; nobody ever answers them.
    let silent = registry.manifest(&model()).await;
    assert!(matches!(&silent, Err(SourceError::Broken { reason, .. }) if reason.contains("no answer")), "{silent:?}");
    drop(unused);
    let check = async |address: String, proxies: Proxies, expected: &str| {
        let settings = TransportConfig { proxies, connect_timeout: Duration::from_millis(100), ..config() };
        let registry = Registry::at(&address, true, &Transport::new(settings).unwrap(), SignIn::anonymous()).unwrap();
        let got = registry.manifest(&model()).await;
        let said = matches!(&got, Err(SourceError::Broken { reason, .. }) if reason.starts_with(expected));
        assert!(said, "{address}: {got:?} instead of {expected:?}");
    };
    check(format!("http://{place}"), Proxies::none(), "no connection: nobody listens there (").await;
    let unknown = "no connection: no address is known of no-such-host.invalid (";
    check("http://no-such-host.invalid".to_owned(), Proxies::none(), unknown).await;
    // A proxy that takes connections and does not speak.
    let mute = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let proxies = Proxies::all(&format!("http://{}", mute.local_addr().unwrap()), "");
    check("https://registry.test".to_owned(), proxies, "no connection: nothing answered in time").await;
}
