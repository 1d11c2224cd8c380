//! Redirects: allowed targets and sent credentials.

use reqwest::Url;

use crate::client::check_redirect;
use crate::tests::test_server::{TestServer, config, model, reply};
use crate::{Credentials, Proxies, RedirectPolicy, Registry, SourceError, Transport, TransportConfig};

/// A registry that requires credentials and redirects to a second server, and the second server.
async fn pair() -> (TestServer, TestServer) {
    let target_server = TestServer::start(|_| reply(200, &[], "{}")).await;
    let target = target_server.url("/direct?signature=x");
    let registry = TestServer::start(move |seen| match (seen.target.as_str(), seen.header("authorization")) {
        (target, _) if target.starts_with("/token") => reply(200, &[], r#"{"token":"secret"}"#),
        (_, Some("Bearer secret")) => reply(307, &[("Location", &target)], ""),
        (_, _) => {
            let host = seen.header("host").unwrap();
            reply(401, &[("WWW-Authenticate", &format!("Bearer realm=\"http://{host}/token\""))], "")
        }
    })
    .await;
    (registry, target_server)
}

#[tokio::test]
async fn credentials_are_not_sent_to_redirect_target() {
    let (registry, target_server) = pair().await;
    registry.registry(Credentials::password("u", "p")).manifest(&model()).await.expect("the redirect target responds");
    let seen = target_server.requests();
    assert_eq!(target_server.request_lines(), ["GET /direct?signature=x"], "path and query are kept");
    for name in ["authorization", "cookie", "proxy-authorization", "referer"] {
        assert_eq!(seen[0].header(name), None, "{name} must not be sent to another host");
    }
    let last = registry.requests().pop().unwrap();
    assert_eq!(last.header("authorization"), Some("Bearer secret"), "the registry receives them");
}

#[tokio::test]
async fn credentials_are_not_sent_after_redirect_back() {
    let target_server = TestServer::start(|seen| {
        let back = format!("http://{}/v2/library/stolen/manifests/latest", seen.target.split_once('=').unwrap().1);
        reply(302, &[("Location", &back)], "")
    })
    .await;
    let away = target_server.url("/?to=");
    let registry =
        TestServer::start(move |seen| match (seen.target.contains("stolen"), seen.header("authorization")) {
            (true, None) => reply(401, &[("WWW-Authenticate", "Basic realm=\"x\"")], ""),
            (true, Some(_)) => reply(200, &[], "{}"),
            (false, Some(_)) => reply(302, &[("Location", &format!("{away}{}", seen.header("host").unwrap()))], ""),
            (false, None) => reply(401, &[("WWW-Authenticate", "Basic realm=\"x\"")], ""),
        })
        .await;
    let got = registry.registry(Credentials::password("u", "p")).manifest(&model()).await;
    assert!(got.is_err(), "another host must not choose an authorized request: {got:?}");
    let stolen: Vec<_> = registry.requests().into_iter().filter(|seen| seen.target.contains("stolen")).collect();
    assert!(!stolen.is_empty() && stolen.iter().all(|seen| seen.header("authorization").is_none()), "{stolen:?}");
}

#[tokio::test]
async fn redirect_within_registry_keeps_credentials() {
    let served = TestServer::start(|seen| match (seen.target.as_str(), seen.header("authorization")) {
        (_, None) => reply(401, &[("WWW-Authenticate", "Basic realm=\"x\"")], ""),
        ("/elsewhere", Some(_)) => reply(200, &[], "{}"),
        (_, Some(_)) => reply(308, &[("Location", "/elsewhere")], ""),
    })
    .await;
    served.registry(Credentials::password("u", "p")).manifest(&model()).await.expect("a relative redirect");
    assert_eq!(served.requests().last().unwrap().header("authorization"), Some("Basic dTpw"), "the same host");
}

#[tokio::test]
async fn number_of_redirects_is_limited() {
    let served = TestServer::start(|_| reply(302, &[("Location", "/again")], "")).await;
    let got = served.registry(Credentials::anonymous()).manifest(&model()).await;
    assert!(matches!(&got, Err(SourceError::Refused { reason, .. }) if reason.contains("10 redirects")), "{got:?}");
    assert_eq!(served.requests().len(), 11, "the first request and ten redirects");
}

#[tokio::test]
async fn invalid_redirect_target_is_an_error() {
    for location in ["ftp://h/x", "file:///etc/passwd", "http://", "data:text/plain,x"] {
        let served = TestServer::start(move |_| reply(302, &[("Location", location)], "")).await;
        let got = served.registry(Credentials::anonymous()).manifest(&model()).await;
        assert!(matches!(got, Err(SourceError::Refused { .. })), "{location:?}: {got:?}");
    }
    let served = TestServer::start(|_| reply(302, &[], "")).await;
    let got = served.registry(Credentials::anonymous()).manifest(&model()).await;
    assert!(matches!(&got, Err(SourceError::Broken { reason, .. }) if reason.contains("Location")), "{got:?}");
}

#[tokio::test]
async fn second_refusal_of_redirect_target_is_final() {
    let check = async |refusals: usize, expected: Option<u16>| {
        let times = std::sync::atomic::AtomicUsize::new(0);
        let target_server = TestServer::start(move |_| {
            let expired = times.fetch_add(1, std::sync::atomic::Ordering::Relaxed) < refusals;
            if expired { reply(403, &[], "go away") } else { reply(200, &[], "{}") }
        })
        .await;
        let target = target_server.url("/direct");
        let registry = TestServer::start(move |_| reply(307, &[("Location", &target)], "")).await;
        let got = registry.registry(Credentials::anonymous()).manifest(&model()).await.map(|_| ());
        match (&got, expected) {
            (Ok(()), None) => {}
            (Err(SourceError::Refused { status, reason, .. }), Some(_)) => {
                assert_eq!(*status, expected, "the error has the status");
                assert!(
                    reason.contains("(redirect target): 403 Forbidden: go away"),
                    "the host and the message: {reason}"
                );
            }
            _ => panic!("{refusals} refusals: {got:?}"),
        }
        assert_eq!(registry.requests().len(), 2, "the registry is asked twice");
    };
    check(1, None).await;
    check(9, Some(403)).await;
}

#[test]
fn redirect_never_downgrades_to_http() {
    let check = |from: &str, to: &str, expected: bool| {
        let (from, to) = (Url::parse(from).unwrap(), Url::parse(to).unwrap());
        assert_eq!(check_redirect(&from, &to).is_ok(), expected, "{from} to {to}");
    };
    check("https://a/", "https://b/", true);
    check("https://a/", "http://a/", false);
    check("http://a/", "http://b/", true);
    check("http://a/", "https://b/", true);
    check("https://a/", "ftp://a/", false);
    check("http://a/", "file:///a", false);
    check("https://a/", "https://user@b/", false);
    check("https://a/", "https://:password@b/", false);
    check("https://a/", "https://@b/", true);
}

#[tokio::test]
async fn credentials_in_redirect_target_are_not_sent() {
    let target_server = TestServer::start(|_| reply(200, &[], "{}")).await;
    for user in ["user:password", "user", ":password"] {
        let target = format!("http://{user}@{}/x", target_server.address);
        let registry = TestServer::start(move |_| reply(307, &[("Location", &target)], "")).await;
        let got = registry.registry(Credentials::anonymous()).manifest(&model()).await;
        let Err(SourceError::Refused { reason, .. }) = &got else { panic!("{user}: {got:?}") };
        assert!(reason.contains("user or a password to") && !reason.contains("password@"), "{user}: {reason}");
    }
    assert!(target_server.requests().is_empty(), "the target got no request: {:?}", target_server.requests());
}

#[tokio::test]
async fn redirect_to_private_address_follows_policy() {
    let private = TestServer::start(|_| reply(200, &[], "{}")).await;
    let port = private.address.rsplit(':').next().unwrap().to_owned();
    let check = async |host: &str, redirects: RedirectPolicy| {
        let target = format!("http://{host}:{port}/x");
        let served = TestServer::start(move |_| reply(302, &[("Location", &target)], "")).await;
        let transport = Transport::new(TransportConfig { redirects, ..config() }).unwrap();
        // The registry itself may have any address, because the user configured it.
        let registry = Registry::from_address(&served.url(""), false, &transport, Credentials::anonymous()).unwrap();
        registry.manifest(&model()).await.map(|_| ())
    };
    for host in ["127.0.0.1", "localhost"] {
        check(host, RedirectPolicy::AnyHost).await.expect("the target responds");
    }
    assert_eq!(private.requests().len(), 2, "the target was requested");
    check("127.0.0.1", RedirectPolicy::SameAsRegistry)
        .await
        .expect("a private registry may redirect to a private address");
    let got = check("127.0.0.1", RedirectPolicy::PublicOnly).await;
    assert!(matches!(&got, Err(SourceError::Refused { reason, .. }) if reason.contains("public address")), "{got:?}");
    let got = check("localhost", RedirectPolicy::PublicOnly).await;
    assert!(matches!(&got, Err(SourceError::Broken { reason, .. }) if reason.contains("public address")), "{got:?}");
    assert_eq!(private.requests().len(), 3, "the target was not requested again");
}

#[tokio::test]
async fn redirect_from_public_registry_to_private_address_is_refused() {
    for target in ["http://169.254.169.254/latest/meta-data", "http://10.0.0.1/", "http://[::1]/"] {
        // The registry can only be reached through the proxy.
        let proxy = TestServer::start(move |seen| match seen.target.starts_with("http://registry.test") {
            true => reply(307, &[("Location", target)], ""),
            false => reply(200, &[], "{}"),
        })
        .await;
        let mut config = config();
        config.proxies = Proxies::all(&proxy.url(""), "");
        let transport = Transport::new(config).unwrap();
        let registry =
            Registry::from_address("http://registry.test", true, &transport, Credentials::anonymous()).unwrap();
        let got = registry.manifest(&model()).await;
        let refused = matches!(&got, Err(SourceError::Refused { reason, .. }) if reason.contains("public address"));
        assert!(refused, "{target}: {got:?}");
        assert_eq!(proxy.requests().len(), 1, "the target was not requested");
    }
}
