//! A mirror as machines of its network see it: what they may read, and what they must sign in for.

use cairn_testkit::ollama_client::Key;
use cairn_testkit::registry::{FakeRegistry, Faults};

use super::*;

/// The clock of every daemon here.
const NOW: u64 = 1_767_323_045;

/// An origin with one model, and a daemon that fetches from it and shares what it has.
struct Network {
    origin: FakeRegistry,
    daemon: Daemon,
    blob: cairn_store::Digest,
}

impl Network {
    fn new() -> Self {
        let origin = FakeRegistry::start(1, Faults::default()).unwrap();
        let contents = b"0123456789".repeat(1000);
        let blob = cairn_store::Digest::of(&contents);
        origin.put_blob(&blob.to_string(), contents.into());
        let origins = format!("http://{}/library", origin.host());
        let daemon = Daemon::with(&[("CAIRN_SHARE", "1"), ("CAIRN_MIRROR", "1"), ("CAIRN_MIRROR_ORIGINS", &origins)]);
        let network = Self { origin, daemon, blob };
        network.publish(1);
        network
    }

    /// Gives the model a manifest that differs by a number.
    fn publish(&self, version: u32) {
        let layer =
            format!(r#"{{"mediaType":"application/vnd.ollama.image.license","digest":"{}","size":10000}}"#, self.blob);
        let manifest = format!(r#"{{"schemaVersion":2,"version":{version},"layers":[{layer}]}}"#);
        self.origin.put_manifest("library/far", "latest", manifest.as_bytes());
    }

    /// Asks from another machine.
    async fn ask(&self, path: &str, headers: &[(&str, &str)]) -> (u16, axum::http::HeaderMap, String) {
        let mut request = Request::get(path).header(header::HOST, "192.168.1.2:11434");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let mut request = request.body(Body::empty()).unwrap();
        request.extensions_mut().insert(ConnectInfo(SocketAddr::from(([192, 168, 1, 9], 5000))));
        let response = self.daemon.router.clone().oneshot(request).await.unwrap();
        let (parts, body) = response.into_parts();
        let body = axum::body::to_bytes(body, 1 << 24).await.unwrap();
        (parts.status.as_u16(), parts.headers, String::from_utf8_lossy(&body).into_owned())
    }
}

#[tokio::test]
async fn beyond_this_machine_fetching_wants_a_key_that_is_known() {
    let network = Network::new();
    let (manifest, blob) = ("/v2/library/far/manifests/latest", format!("/v2/library/far/blobs/{}", network.blob));
    let (status, headers, _) = network.ask(manifest, &[]).await;
    assert_eq!(status, 401, "nothing is fetched for strangers");
    let wants = headers[header::WWW_AUTHENTICATE].to_str().unwrap();
    let expected =
        r#"Bearer realm="http://192.168.1.2:11434/v2/token",service="cairn",scope="repository:library/far:pull""#;
    assert_eq!(wants, expected, "where to sign in");
    assert!(network.origin.requests().is_empty(), "the origin was not asked");

    let key = Key::numbered(3, NOW);
    let enter = async |forged: bool| {
        let path = format!("/v2/token?{}", key.query("cairn", "repository:library/far:pull"));
        let host = if forged { "192.168.1.3:11434" } else { "192.168.1.2:11434" };
        let signed = key.authorization(&format!("http://{host}{path}"));
        let (status, _, body) = network.ask(&path, &[("authorization", &signed)]).await;
        (status, body)
    };
    let (status, body) = enter(false).await;
    assert!(status == 403 && body.contains("cairn mirror allow"), "{status} {body}");
    network.daemon.server.app().allow(&format!("{} laptop", key.public_line())).await.unwrap();
    assert_eq!(enter(true).await.0, 403, "a signature for another server");
    let (status, body) = enter(false).await;
    assert_eq!(status, 200, "{body}");
    let token: serde_json::Value = serde_json::from_str(&body).unwrap();
    let bearer = format!("Bearer {}", token["token"].as_str().unwrap());

    let (status, headers, _) = network.ask(manifest, &[("authorization", &bearer)]).await;
    assert_eq!(status, 200, "for a known key it is fetched");
    assert!(headers.contains_key("cairn-signature"), "and signed");
    assert_eq!(network.ask(&blob, &[]).await.0, 401, "contents begin to be fetched only for a known key, too");
    let (status, _, body) = network.ask(&blob, &[("authorization", &bearer)]).await;
    assert_eq!((status, body.len()), (200, 10_000), "which gets them");
    // Stock clients ask for the parts without any credentials.
    let (status, _, body) = network.ask(&blob, &[("range", "bytes=10-19")]).await;
    assert_eq!((status, &*body), (206, "0123456789"), "what has begun is for everybody");
    assert_eq!(network.origin.sent_bytes(&network.blob.to_string()), 10_000, "it left its origin once");
    let (wrong, ..) = network.ask("/v2/library/other/manifests/latest", &[("authorization", "Bearer x")]).await;
    assert_eq!(wrong, 401, "any token will not do");
}

/// The manifest's number as this machine gets it, and whether it is marked as stale.
async fn version(daemon: &Daemon) -> (u16, Option<u64>, bool) {
    let path = "/v2/library/far/manifests/latest";
    let request = Request::get(path).header(header::HOST, "localhost").body(Body::empty()).unwrap();
    let response = daemon.send(request).await;
    let stale = response.headers().contains_key(header::WARNING);
    let status = response.status().as_u16();
    let body = axum::body::to_bytes(response.into_body(), 1 << 20).await.unwrap();
    let body: serde_json::Value = serde_json::from_slice(&body).unwrap_or_default();
    (status, body["version"].as_u64(), stale)
}

#[tokio::test]
async fn an_origin_that_moved_a_tag_and_is_out_of_reach_then() {
    let network = Network::new();
    let a_minute = async || {
        // Only for this: time that goes on by itself would end every wait for the origin.
        tokio::time::pause();
        tokio::time::advance(Duration::from_secs(61)).await;
        tokio::time::resume();
    };
    assert_eq!(version(&network.daemon).await, (200, Some(1), false), "the origin's word");
    network.publish(2);
    assert_eq!(version(&network.daemon).await, (200, Some(1), false), "within a minute it is not asked again");
    assert_eq!(network.origin.requests().len(), 1, "once");
    a_minute().await;
    assert_eq!(version(&network.daemon).await, (200, Some(2), false), "after that the new one counts");
    a_minute().await;
    let Network { origin, daemon, .. } = network;
    drop(origin);
    assert_eq!(version(&daemon).await, (200, Some(2), true), "what is here, and marked");
    assert_eq!(daemon.server.app().mirror_counts().stale, 1, "and counted");
}

#[tokio::test]
async fn a_code_joins_once() {
    let network = Network::new();
    let app = network.daemon.server.app();
    assert!(app.invite().unwrap().code.len() == 23, "20 signs in groups");
    let key = Key::numbered(4, NOW).public_line();
    let request = format!(r#"{{"key":"{key}","label":"x","nonce":"0123456789abcdef","proof":"AAAA"}}"#);
    let mut asked =
        Request::post("/v2/_cairn/join").header(header::HOST, "192.168.1.2").body(Body::from(request)).unwrap();
    asked.extensions_mut().insert(ConnectInfo(SocketAddr::from(([192, 168, 1, 9], 5000))));
    let status = network.daemon.router.clone().oneshot(asked).await.unwrap().status().as_u16();
    assert_eq!(status, 401, "who does not know the code stays out");
    assert_eq!(app.known_peers().unwrap().0, [], "and nobody is known");
}

#[tokio::test]
async fn nothing_but_names_of_the_origin_leaves_this_machine() {
    let network = Network::new();
    let origin = network.origin.host();
    for path in [
        "/v2/library/..%2f..%2ftoken/manifests/latest".to_owned(),
        "/v2/library/%2e%2e/manifests/latest".to_owned(),
        "/v2/..%2flibrary/far/manifests/latest".to_owned(),
        "/v2/library/far/manifests/..%2f..%2fblobs".to_owned(),
        "/v2/library/far/manifests/latest%3Fx=1".to_owned(),
        "/v2/library/far/manifests/latest%23".to_owned(),
        "/v2/library/far%0d%0aX:%201/manifests/latest".to_owned(),
        "/v2/library/far/manifests/%00".to_owned(),
        format!("/v2/library/{}/manifests/latest", "a".repeat(400)),
        "/v2/library/f\u{430}r/manifests/latest".replace('\u{430}', "%D0%B0"),
        "/v2/other/far/manifests/latest".to_owned(),
        "/v2/library/far/manifests/latest?ns=registry.ollama.ai".to_owned(),
        "/v2/library/far/manifests/latest?ns=127.0.0.1:1".to_owned(),
        format!("/v2/library/far/manifests/latest?ns=x@{origin}"),
        format!("/v2/library/far/manifests/latest?ns={origin}/library"),
        format!("/v2/library/far/manifests/latest?ns=http://{origin}"),
        format!("/v2/library/far/manifests/latest?ns={origin}%00"),
        format!("/v2/library/far/blobs/sha256:{}", "0".repeat(64)),
        format!("/v2/library/far/blobs/{}", network.blob),
        "/v2/token".to_owned(),
        "/v2/_cairn/join/..%2f..%2fapp%2fmirror".to_owned(),
    ] {
        let heard = network.daemon.get(&path).await;
        assert!(heard.starts_with('4'), "{path}: {heard}");
    }
    let asked: Vec<String> = network.origin.requests().into_iter().map(|seen| seen.request.target).collect();
    assert_eq!(asked, [""; 0], "the origin was asked for nothing");
    assert!(network.daemon.server.app().downloads().is_empty(), "and nothing is on its way");
}
