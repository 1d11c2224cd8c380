//! Redirects: where they may lead, and what goes along.

use reqwest::Url;

use crate::client::may_lead;
use crate::served::{Served, config, model, reply};
use crate::{Proxies, Reach, Registry, SignIn, SourceError, Transport, TransportConfig};

/// Two servers: the registry, which wants credentials and sends everything to the other, and the other.
async fn pair() -> (Served, Served) {
    let elsewhere = Served::by(|_| reply(200, &[], "{}")).await;
    let target = elsewhere.url("/direct?signature=x");
    let registry = Served::by(move |seen| match (seen.target.as_str(), seen.header("authorization")) {
        (target, _) if target.starts_with("/token") => reply(200, &[], r#"{"token":"secret"}"#),
        (_, Some("Bearer secret")) => reply(307, &[("Location", &target)], ""),
        (_, _) => {
            let host = seen.header("host").unwrap();
            reply(401, &[("WWW-Authenticate", &format!("Bearer realm=\"http://{host}/token\""))], "")
        }
    })
    .await;
    (registry, elsewhere)
}

#[tokio::test]
async fn credentials_stay_with_their_registry() {
    let (registry, elsewhere) = pair().await;
    registry.registry(SignIn::password("u", "p")).manifest(&model()).await.expect("the other server has it");
    let seen = elsewhere.seen();
    assert_eq!(elsewhere.lines(), ["GET /direct?signature=x"], "the whole address is kept");
    for name in ["authorization", "cookie", "proxy-authorization", "referer"] {
        assert_eq!(seen[0].header(name), None, "{name} must not go to another host");
    }
    let last = registry.seen().pop().unwrap();
    assert_eq!(last.header("authorization"), Some("Bearer secret"), "the registry itself has them");
}

#[tokio::test]
async fn credentials_do_not_come_back_from_elsewhere() {
    let elsewhere = Served::by(|seen| {
        let back = format!("http://{}/v2/library/stolen/manifests/latest", seen.target.split_once('=').unwrap().1);
        reply(302, &[("Location", &back)], "")
    })
    .await;
    let away = elsewhere.url("/?to=");
    let registry = Served::by(move |seen| match (seen.target.contains("stolen"), seen.header("authorization")) {
        (true, None) => reply(401, &[("WWW-Authenticate", "Basic realm=\"x\"")], ""),
        (true, Some(_)) => reply(200, &[], "{}"),
        (false, Some(_)) => reply(302, &[("Location", &format!("{away}{}", seen.header("host").unwrap()))], ""),
        (false, None) => reply(401, &[("WWW-Authenticate", "Basic realm=\"x\"")], ""),
    })
    .await;
    let got = registry.registry(SignIn::password("u", "p")).manifest(&model()).await;
    assert!(got.is_err(), "another host must not choose what our credentials open: {got:?}");
    let stolen: Vec<_> = registry.seen().into_iter().filter(|seen| seen.target.contains("stolen")).collect();
    assert!(!stolen.is_empty() && stolen.iter().all(|seen| seen.header("authorization").is_none()), "{stolen:?}");
}

#[tokio::test]
async fn redirects_within_the_registry_keep_credentials() {
    let served = Served::by(|seen| match (seen.target.as_str(), seen.header("authorization")) {
        (_, None) => reply(401, &[("WWW-Authenticate", "Basic realm=\"x\"")], ""),
        ("/elsewhere", Some(_)) => reply(200, &[], "{}"),
        (_, Some(_)) => reply(308, &[("Location", "/elsewhere")], ""),
    })
    .await;
    served.registry(SignIn::password("u", "p")).manifest(&model()).await.expect("a relative redirect");
    assert_eq!(served.seen().last().unwrap().header("authorization"), Some("Basic dTpw"), "the same host");
}

#[tokio::test]
async fn redirects_come_to_an_end() {
    let served = Served::by(|_| reply(302, &[("Location", "/again")], "")).await;
    let got = served.registry(SignIn::anonymous()).manifest(&model()).await;
    assert!(matches!(&got, Err(SourceError::Refused { reason, .. }) if reason.contains("10 redirects")), "{got:?}");
    assert_eq!(served.seen().len(), 11, "the first question and ten redirects");
}

#[tokio::test]
async fn redirects_to_nowhere() {
    for location in ["ftp://h/x", "file:///etc/passwd", "http://", "data:text/plain,x"] {
        let served = Served::by(move |_| reply(302, &[("Location", location)], "")).await;
        let got = served.registry(SignIn::anonymous()).manifest(&model()).await;
        assert!(matches!(got, Err(SourceError::Refused { .. })), "{location:?}: {got:?}");
    }
    let served = Served::by(|_| reply(302, &[], "")).await;
    let got = served.registry(SignIn::anonymous()).manifest(&model()).await;
    assert!(matches!(&got, Err(SourceError::Broken { reason, .. }) if reason.contains("Location")), "{got:?}");
}

#[tokio::test]
async fn what_a_fresh_redirect_is_refused_is_final() {
    let check = async |refusals: usize, expected: Option<u16>| {
        let times = std::sync::atomic::AtomicUsize::new(0);
        let elsewhere = Served::by(move |_| {
            let expired = times.fetch_add(1, std::sync::atomic::Ordering::Relaxed) < refusals;
            if expired { reply(403, &[], "go away") } else { reply(200, &[], "{}") }
        })
        .await;
        let target = elsewhere.url("/direct");
        let registry = Served::by(move |_| reply(307, &[("Location", &target)], "")).await;
        let got = registry.registry(SignIn::anonymous()).manifest(&model()).await.map(|_| ());
        match (&got, expected) {
            (Ok(()), None) => {}
            (Err(SourceError::Refused { status, reason, .. }), Some(_)) => {
                assert_eq!(*status, expected, "the status is told");
                assert!(reason.contains("where it sent us: 403 Forbidden: go away"), "by whom, in its words: {reason}");
            }
            _ => panic!("{refusals} refusals: {got:?}"),
        }
        assert_eq!(registry.seen().len(), 2, "a new address was asked for, once");
    };
    check(1, None).await;
    check(9, Some(403)).await;
}

#[test]
fn redirects_are_never_to_less_safety() {
    let check = |from: &str, to: &str, expected: bool| {
        let (from, to) = (Url::parse(from).unwrap(), Url::parse(to).unwrap());
        assert_eq!(may_lead(&from, &to), expected, "{from} to {to}");
    };
    check("https://a/", "https://b/", true);
    check("https://a/", "http://a/", false);
    check("http://a/", "http://b/", true);
    check("http://a/", "https://b/", true);
    check("https://a/", "ftp://a/", false);
    check("http://a/", "file:///a", false);
}

#[tokio::test]
async fn redirects_may_be_kept_to_public_addresses() {
    let inside = Served::by(|_| reply(200, &[], "{}")).await;
    let port = inside.place.rsplit(':').next().unwrap().to_owned();
    let check = async |host: &str, reach: Reach| {
        let target = format!("http://{host}:{port}/x");
        let served = Served::by(move |_| reply(302, &[("Location", &target)], "")).await;
        let transport = Transport::new(TransportConfig { reach, ..config() }).unwrap();
        // The registry itself may be anywhere: the user named it.
        let registry = Registry::at(&served.url(""), false, &transport, SignIn::anonymous()).unwrap();
        registry.manifest(&model()).await.map(|_| ())
    };
    for host in ["127.0.0.1", "localhost"] {
        check(host, Reach::Anywhere).await.expect("the other server answers");
    }
    assert_eq!(inside.seen().len(), 2, "it was asked");
    check("127.0.0.1", Reach::AsRegistry).await.expect("a registry inside leads inside");
    let got = check("127.0.0.1", Reach::Public).await;
    assert!(
        matches!(&got, Err(SourceError::Refused { reason, .. }) if reason.contains("no public address")),
        "{got:?}"
    );
    let got = check("localhost", Reach::Public).await;
    assert!(matches!(&got, Err(SourceError::Broken { reason, .. }) if reason.contains("no public address")), "{got:?}");
    assert_eq!(inside.seen().len(), 3, "it was not asked again");
}

#[tokio::test]
async fn redirects_never_lead_from_outside_to_inside() {
    for target in ["http://169.254.169.254/latest/meta-data", "http://10.0.0.1/", "http://[::1]/"] {
        // The registry is somewhere outside, where only the proxy knows the way to.
        let proxy = Served::by(move |seen| match seen.target.starts_with("http://registry.test") {
            true => reply(307, &[("Location", target)], ""),
            false => reply(200, &[], "{}"),
        })
        .await;
        let mut config = config();
        config.proxies = Proxies::all(&proxy.url(""), "");
        config.reach = Reach::AsRegistry;
        let transport = Transport::new(config).unwrap();
        let registry = Registry::at("http://registry.test", true, &transport, SignIn::anonymous()).unwrap();
        let got = registry.manifest(&model()).await;
        let refused = matches!(&got, Err(SourceError::Refused { reason, .. }) if reason.contains("no public address"));
        assert!(refused, "{target}: {got:?}");
        assert_eq!(proxy.seen().len(), 1, "nobody was asked there");
    }
}
