//! A mirror as machines of its network see it: what they may read, and what they must sign in for.

use cairn_testkit::ollama_client::ClientKey;
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
        Self::with(&[])
    }

    /// One with more settings.
    fn with(settings: &[(&str, &str)]) -> Self {
        let origin = FakeRegistry::start(1, Faults::default()).unwrap();
        let contents = b"0123456789".repeat(1000);
        let blob = cairn_store::Digest::of(&contents);
        origin.put_blob(&blob.to_string(), contents.into());
        let origins = format!("http://{}/library", origin.host());
        let own = [("CAIRN_SHARE", "1"), ("CAIRN_MIRROR", "1"), ("CAIRN_MIRROR_ORIGINS", &*origins)];
        let daemon = Daemon::with(&[&own[..], settings].concat());
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
        self.ask_from([192, 168, 1, 9], path, headers).await
    }

    async fn ask_from(
        &self,
        from: [u8; 4],
        path: &str,
        headers: &[(&str, &str)],
    ) -> (u16, axum::http::HeaderMap, String) {
        let mut request = Request::get(path).header(header::HOST, "192.168.1.2:11434");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let mut request = request.body(Body::empty()).unwrap();
        request.extensions_mut().insert(ConnectInfo(SocketAddr::from((from, 5000))));
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

    let key = ClientKey::from_number(3, NOW);
    let enter = async |forged: bool| {
        let path = format!("/v2/token?{}", key.token_query("cairn", "repository:library/far:pull"));
        let host = if forged { "192.168.1.3:11434" } else { "192.168.1.2:11434" };
        let signed = key.authorization(&format!("http://{host}{path}"));
        let (status, _, body) = network.ask(&path, &[("authorization", &signed)]).await;
        (status, body)
    };
    let (status, body) = enter(false).await;
    assert!(status == 403 && body.contains("cairn mirror allow"), "{status} {body}");
    network.daemon.server.app().transfers().allow(&format!("{} laptop", key.public_line())).await.unwrap();
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
    let other = "/v2/library/other/manifests/latest";
    assert_eq!(network.ask(other, &[("authorization", &bearer)]).await.0, 404, "the token is good");
    assert_eq!(
        network.daemon.server.app().transfers().forget_peer("laptop").await.unwrap(),
        1,
        "its owner is forgotten"
    );
    assert_eq!(network.ask(other, &[("authorization", &bearer)]).await.0, 401, "and out at once");
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
    assert_eq!(daemon.server.app().transfers().mirror_counts().stale, 1, "and counted");
}

#[tokio::test]
async fn a_code_joins_once() {
    let network = Network::new();
    let app = network.daemon.server.app();
    assert!(app.transfers().invite().unwrap().code.len() == 23, "20 signs in groups");
    let key = ClientKey::from_number(4, NOW).public_line();
    let request = format!(r#"{{"key":"{key}","label":"x","nonce":"0123456789abcdef","proof":"AAAA"}}"#);
    let mut asked =
        Request::post("/v2/_cairn/join").header(header::HOST, "192.168.1.2").body(Body::from(request)).unwrap();
    asked.extensions_mut().insert(ConnectInfo(SocketAddr::from(([192, 168, 1, 9], 5000))));
    let status = network.daemon.router.clone().oneshot(asked).await.unwrap().status().as_u16();
    assert_eq!(status, 401, "who does not know the code stays out");
    assert_eq!(app.transfers().known_peers().unwrap().0, [], "and nobody is known");
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
    assert!(network.daemon.server.app().transfers().downloads().is_empty(), "and nothing is on its way");
}

#[tokio::test]
async fn strangers_cause_no_question_to_an_origin() {
    let network = Network::new();
    let copied = network.daemon.server.app().library().copy("m", &format!("{}/library/far", network.origin.host()));
    copied.unwrap();
    let (status, headers, body) = network.ask("/v2/library/far/manifests/latest", &[]).await;
    assert_eq!(status, 200, "what is here they get: {body}");
    assert!(!headers.contains_key(header::WARNING) && body.contains("image.model"), "as it is here: {body}");
    assert_eq!(network.origin.requests().len(), 0, "and nobody is asked for them");
}

/// The manifest of a model here, as it is stored.
fn stored(network: &Network, model: &str) -> Option<String> {
    let host = network.origin.host();
    let manifests = network.daemon.folder.path().join("models/manifests");
    std::fs::read_to_string(manifests.join(host).join("library").join(model).join("latest")).ok()
}

#[tokio::test]
async fn a_model_that_was_made_here_is_not_replaced_for_clients() {
    let network = Network::new();
    let app = network.daemon.server.app();
    app.library().copy("m", &format!("{}/library/far", network.origin.host())).unwrap();
    let made = stored(&network, "far").expect("it is there");
    let blob = format!("/v2/library/far/blobs/{}", network.blob);
    let get = async |path: &str| {
        let request = Request::get(path).header(header::HOST, "localhost").body(Body::empty()).unwrap();
        let response = network.daemon.send(request).await;
        let status = response.status().as_u16();
        (status, axum::body::to_bytes(response.into_body(), 1 << 20).await.unwrap().len())
    };
    assert_eq!(version(&network.daemon).await, (200, Some(1), false), "clients get the origin's word");
    assert_eq!(get(&blob).await, (200, 10_000), "and its contents");
    // Another model of the origin, whose arrival shows that this one had its time.
    let contents = b"another".to_vec();
    let digest = cairn_store::Digest::of(&contents);
    let layer = format!(r#"{{"mediaType":"application/vnd.ollama.image.license","digest":"{digest}","size":7}}"#);
    let manifest = format!(r#"{{"schemaVersion":2,"layers":[{layer}]}}"#);
    network.origin.put_manifest("library/next", "latest", manifest.as_bytes());
    network.origin.put_blob(&digest.to_string(), contents.into());
    assert_eq!(get("/v2/library/next/manifests/latest").await.0, 200, "another is told of");
    assert_eq!(get(&format!("/v2/library/next/blobs/{digest}")).await, (200, 7), "and fetched");
    let deadline = Instant::now() + Duration::from_secs(20);
    while stored(&network, "next").is_none() {
        assert!(Instant::now() < deadline, "what nobody made here is brought here: {:?}", app.transfers().downloads());
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert_eq!(stored(&network, "far").as_deref(), Some(&*made), "what its user made stays");
    assert!(app.transfers().downloads().iter().all(|row| !row.model.contains("far")), "nothing is to take its place");
}

#[tokio::test]
async fn a_model_that_came_from_its_origin_is_renewed_for_clients() {
    let network = Network::new();
    let name = format!("{}/library/far", network.origin.host());
    let app = network.daemon.server.app();
    let mut events =
        app.transfers().pull(cairn_app::transfers::Pull { name, insecure: true, sources: Vec::new() }).unwrap();
    while events.next().await.is_some() {}
    let contents = b"newer".to_vec();
    let digest = cairn_store::Digest::of(&contents);
    let layer = format!(r#"{{"mediaType":"application/vnd.ollama.image.license","digest":"{digest}","size":5}}"#);
    let manifest = format!(r#"{{"schemaVersion":2,"version":2,"layers":[{layer}]}}"#);
    network.origin.put_manifest("library/far", "latest", manifest.as_bytes());
    network.origin.put_blob(&digest.to_string(), contents.into());
    assert_eq!(version(&network.daemon).await, (200, Some(2), false), "the origin has a new one");
    let path = format!("/v2/library/far/blobs/{digest}");
    let request = Request::get(path).header(header::HOST, "localhost").body(Body::empty()).unwrap();
    assert_eq!(network.daemon.send(request).await.status(), 200, "which is fetched");
    let deadline = Instant::now() + Duration::from_secs(20);
    while stored(&network, "far").as_deref() != Some(&*manifest) {
        assert!(Instant::now() < deadline, "and takes the old one's place: {:?}", app.transfers().downloads());
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test]
async fn behind_a_proxy_each_client_is_itself() {
    const PROXY: [u8; 4] = [127, 0, 0, 1];
    let (manifest, token) = ("/v2/library/far/manifests/latest", "/v2/token");
    let forwarded =
        [("x-forwarded-for", "198.51.100.7"), ("x-forwarded-proto", "https"), ("x-forwarded-host", "models.example")];
    // One that nobody named lets nobody in as a program of this machine.
    let network = Network::new();
    let (status, headers, _) = network.ask_from(PROXY, manifest, &forwarded).await;
    assert_eq!(status, 401, "a request that was forwarded is none of this machine's");
    let realm = headers[header::WWW_AUTHENTICATE].to_str().unwrap();
    assert!(realm.contains("\"http://192.168.1.2:11434/v2/token\""), "and its headers are not believed: {realm}");
    assert_eq!(network.ask_from(PROXY, manifest, &[]).await.0, 200, "this machine's own programs need no key");

    let network = Network::with(&[("CAIRN_TRUSTED_PROXIES", "127.0.0.1")]);
    let (status, headers, _) = network.ask_from(PROXY, manifest, &forwarded).await;
    let realm = headers[header::WWW_AUTHENTICATE].to_str().unwrap();
    assert!(status == 401 && realm.contains("\"https://models.example/v2/token\""), "{status} {realm}");
    let key = ClientKey::from_number(3, NOW);
    network.daemon.server.app().transfers().allow(&key.public_line()).await.unwrap();
    let token = format!("{token}?{}", key.token_query("cairn", "repository:library/far:pull"));
    let signed = key.authorization(&format!("https://models.example{token}"));
    let with = |more: (&'static str, String)| -> Vec<(&'static str, String)> {
        forwarded.iter().map(|(name, value)| (*name, (*value).to_owned())).chain([more]).collect()
    };
    let ask = async |path: &str, headers: Vec<(&'static str, String)>| {
        let headers: Vec<(&str, &str)> = headers.iter().map(|(name, value)| (*name, &**value)).collect();
        network.ask_from(PROXY, path, &headers).await
    };
    let (status, _, body) = ask(&token, with(("authorization", signed))).await;
    assert_eq!(status, 200, "what was signed is the address as the client knows it: {body}");
    let token: serde_json::Value = serde_json::from_str(&body).unwrap();
    let bearer = format!("Bearer {}", token["token"].as_str().unwrap());
    assert_eq!(ask(manifest, with(("authorization", bearer.clone()))).await.0, 200, "it is fetched");
    let blob = format!("/v2/library/far/blobs/{}", network.blob);
    let (status, headers, _) = ask(&blob, with(("authorization", bearer))).await;
    let location = headers[header::LOCATION].to_str().unwrap();
    assert_eq!((status, location), (200, &*format!("https://models.example{blob}")), "parts are asked for there, too");
    let counted = network.daemon.server.app().transfers().peers().list();
    let rows: Vec<(String, u64)> = counted.iter().map(|peer| (peer.address.to_string(), peer.sent_bytes)).collect();
    assert_eq!(rows, [("198.51.100.7".to_owned(), 10_000)], "and counted for the client, not for the proxy");
}
