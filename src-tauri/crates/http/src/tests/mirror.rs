//! Tests of a mirror as other machines use it: access with and without a sign-in.

use cairn_testkit::ollama_client::ClientKey;
use cairn_testkit::registry::{FakeRegistry, Faults};

use super::*;

/// Time of the test daemons' clock in seconds since 1970.
const NOW: u64 = 1_767_323_045;

/// Origin with one model, and a daemon that mirrors and shares it.
struct Network {
    origin: FakeRegistry,
    daemon: Daemon,
    blob: cairn_store::Digest,
}

impl Network {
    fn new() -> Self {
        Self::with(&[])
    }

    /// Starts a network whose daemon has additional settings.
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

    /// Publishes a manifest of the model with a version number.
    fn publish(&self, version: u32) {
        let layer =
            format!(r#"{{"mediaType":"application/vnd.ollama.image.license","digest":"{}","size":10000}}"#, self.blob);
        let manifest = format!(r#"{{"schemaVersion":2,"version":{version},"layers":[{layer}]}}"#);
        self.origin.put_manifest("library/far", "latest", manifest.as_bytes());
    }

    /// Sends a request from another machine.
    async fn get(&self, path: &str, headers: &[(&str, &str)]) -> (u16, axum::http::HeaderMap, String) {
        self.get_from([192, 168, 1, 9], path, headers).await
    }

    async fn get_from(
        &self,
        from: [u8; 4],
        path: &str,
        headers: &[(&str, &str)],
    ) -> (u16, axum::http::HeaderMap, String) {
        let mut request = Request::get(path);
        if !headers.iter().any(|(name, _)| *name == "host") {
            request = request.header(header::HOST, "192.168.1.2:11434");
        }
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let mut request = request.body(Body::empty()).unwrap();
        request.extensions_mut().insert(LocalAddress(([192, 168, 1, 2], PORT).into()));
        request.extensions_mut().insert(ConnectInfo(SocketAddr::from((from, 5000))));
        let response = self.daemon.router.clone().oneshot(request).await.unwrap();
        let (parts, body) = response.into_parts();
        let body = axum::body::to_bytes(body, 1 << 24).await.unwrap();
        (parts.status.as_u16(), parts.headers, String::from_utf8_lossy(&body).into_owned())
    }
}

#[tokio::test]
async fn remote_fetch_requires_trusted_key() {
    let network = Network::new();
    let (manifest, blob) = ("/v2/library/far/manifests/latest", format!("/v2/library/far/blobs/{}", network.blob));
    let (status, headers, _) = network.get(manifest, &[]).await;
    assert_eq!(status, 401, "an unknown client cannot fetch a model");
    let challenge = headers[header::WWW_AUTHENTICATE].to_str().unwrap();
    let expected =
        r#"Bearer realm="http://192.168.1.2:11434/v2/token",service="cairn",scope="repository:library/far:pull""#;
    assert_eq!(challenge, expected, "the challenge");
    assert!(network.origin.requests().is_empty(), "no request to the origin");

    let key = ClientKey::from_number(3, NOW);
    let sign_in = async |forged: bool| {
        let path = format!("/v2/token?{}", key.token_query("cairn", "repository:library/far:pull"));
        let host = if forged { "192.168.1.3:11434" } else { "192.168.1.2:11434" };
        let signed = key.authorization(&format!("http://{host}{path}"));
        let (status, _, body) = network.get(&path, &[("authorization", &signed)]).await;
        (status, body)
    };
    let (status, body) = sign_in(false).await;
    assert!(status == 403 && body.contains("cairn mirror allow"), "{status} {body}");
    network.daemon.server.app().transfers().allow(&format!("{} laptop", key.public_line())).await.unwrap();
    assert_eq!(sign_in(true).await.0, 403, "a signature for another server");
    let (status, body) = sign_in(false).await;
    assert_eq!(status, 200, "{body}");
    let token: serde_json::Value = serde_json::from_str(&body).unwrap();
    let bearer = format!("Bearer {}", token["token"].as_str().unwrap());

    let (status, headers, _) = network.get(manifest, &[("authorization", &bearer)]).await;
    assert_eq!(status, 200, "a client with a trusted key can fetch the manifest");
    assert!(headers.contains_key("cairn-signature"), "the manifest is signed");
    assert_eq!(network.get(&blob, &[]).await.0, 401, "a fetch of a blob needs a trusted key, too");
    let (status, _, body) = network.get(&blob, &[("authorization", &bearer)]).await;
    assert_eq!((status, body.len()), (200, 10_000), "a client with a trusted key gets the blob");
    // Stock clients request ranges without credentials.
    let (status, _, body) = network.get(&blob, &[("range", "bytes=10-19")]).await;
    assert_eq!((status, &*body), (206, "0123456789"), "a blob that was fetched is open to all clients");
    assert_eq!(network.origin.sent_bytes(&network.blob.to_string()), 10_000, "the origin sent the blob once");
    let (wrong, ..) = network.get("/v2/library/other/manifests/latest", &[("authorization", "Bearer x")]).await;
    assert_eq!(wrong, 401, "an invalid token");
    let other = "/v2/library/other/manifests/latest";
    assert_eq!(network.get(other, &[("authorization", &bearer)]).await.0, 404, "a valid token");
    assert_eq!(network.daemon.server.app().transfers().forget_peer("laptop").await.unwrap(), 1, "the key is removed");
    assert_eq!(
        network.get(other, &[("authorization", &bearer)]).await.0,
        401,
        "the token of a removed key is invalid at once"
    );
}

/// A client signs in at a rogue mirror, which forwards the request unchanged: with the name that the client used.
#[tokio::test]
async fn sign_in_that_another_mirror_forwards_is_refused() {
    let network = Network::with(&[("CAIRN_NAMES", "models.example")]);
    let key = ClientKey::from_number(3, NOW);
    network.daemon.server.app().transfers().allow(&key.public_line()).await.unwrap();
    let sign_in_at = async |host: &str| {
        let path = format!("/v2/token?{}", key.token_query("cairn", "repository:library/far:pull"));
        let signed = key.authorization(&format!("http://{host}{path}"));
        let (status, _, body) = network.get(&path, &[("host", host), ("authorization", &signed)]).await;
        (status, body)
    };
    for rogue in ["192.168.1.66:11434", "192.168.1.2:5000", "127.0.0.1:11434", "localhost:11434", "127.0.0.2"] {
        let (status, body) = sign_in_at(rogue).await;
        assert!(
            status == 403 && body.contains("CAIRN_NAMES") && !body.contains("token\":"),
            "{rogue}: {status} {body}"
        );
    }
    for own in ["192.168.1.2:11434", "models.example", "models.example:8080"] {
        let (status, body) = sign_in_at(own).await;
        assert_eq!(status, 200, "{own}: {body}");
    }
    let manifest = "/v2/library/far/manifests/latest";
    let (status, headers, body) = network.get(manifest, &[("host", "192.168.1.66:11434")]).await;
    assert!(status == 403 && body.contains("CAIRN_NAMES"), "no sign-in is offered there: {status} {body}");
    assert!(!headers.contains_key(header::WWW_AUTHENTICATE), "no challenge with the name of another machine");
    assert!(network.origin.requests().is_empty(), "no request to the origin");
}

/// Returns the status, the manifest's version and whether the response is marked as stale, for a local client.
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
async fn mirror_revalidates_tags_and_serves_stale_manifests() {
    let network = Network::new();
    let advance_minute = async || {
        // Paused only here: with auto-advance every wait for the origin would time out.
        tokio::time::pause();
        tokio::time::advance(Duration::from_secs(61)).await;
        tokio::time::resume();
    };
    assert_eq!(version(&network.daemon).await, (200, Some(1), false), "the origin's manifest");
    network.publish(2);
    assert_eq!(version(&network.daemon).await, (200, Some(1), false), "the manifest is fresh for a minute");
    assert_eq!(network.origin.requests().len(), 1, "one request to the origin");
    advance_minute().await;
    assert_eq!(version(&network.daemon).await, (200, Some(2), false), "the new manifest after a minute");
    advance_minute().await;
    let Network { origin, daemon, .. } = network;
    drop(origin);
    assert_eq!(version(&daemon).await, (200, Some(2), true), "the stored manifest, marked as stale");
    assert_eq!(daemon.server.app().transfers().mirror_counts().stale, 1, "stale responses are counted");
}

#[tokio::test]
async fn join_request_with_wrong_proof_of_code_is_rejected() {
    let network = Network::new();
    let app = network.daemon.server.app();
    assert!(app.transfers().invite().unwrap().code.len() == 23, "20 characters in groups");
    let key = ClientKey::from_number(4, NOW).public_line();
    let request = format!(r#"{{"key":"{key}","label":"x","nonce":"0123456789abcdef","proof":"AAAA"}}"#);
    let mut request =
        Request::post("/v2/_cairn/join").header(header::HOST, "192.168.1.2").body(Body::from(request)).unwrap();
    request.extensions_mut().insert(ConnectInfo(SocketAddr::from(([192, 168, 1, 9], 5000))));
    let status = network.daemon.router.clone().oneshot(request).await.unwrap().status().as_u16();
    assert_eq!(status, 401, "a client without the code is rejected");
    assert_eq!(app.transfers().known_peers().unwrap().0, [], "no key is trusted");
}

#[tokio::test]
async fn mirror_sends_no_invalid_names_to_the_origin() {
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
        let reply = network.daemon.get(&path).await;
        assert!(reply.starts_with('4'), "{path}: {reply}");
    }
    let targets: Vec<String> = network.origin.requests().into_iter().map(|entry| entry.request.target).collect();
    assert_eq!(targets, [""; 0], "no request to the origin");
    assert!(network.daemon.server.app().transfers().downloads().is_empty(), "no download");
}

#[tokio::test]
async fn unknown_clients_cause_no_request_to_the_origin() {
    let network = Network::new();
    let copied = network.daemon.server.app().library().copy("m", &format!("{}/library/far", network.origin.host()));
    copied.unwrap();
    let (status, headers, body) = network.get("/v2/library/far/manifests/latest", &[]).await;
    assert_eq!(status, 200, "a stored manifest is open to all clients: {body}");
    assert!(!headers.contains_key(header::WARNING) && body.contains("image.model"), "the stored manifest: {body}");
    assert_eq!(network.origin.requests().len(), 0, "no request to the origin");
}

/// Returns the stored manifest of a model.
fn stored(network: &Network, model: &str) -> Option<String> {
    let host = network.origin.host();
    let manifests = network.daemon.folder.path().join("models/manifests");
    std::fs::read_to_string(manifests.join(host).join("library").join(model).join("latest")).ok()
}

#[tokio::test]
async fn model_created_here_is_not_replaced_by_the_mirror() {
    let network = Network::new();
    let app = network.daemon.server.app();
    app.library().copy("m", &format!("{}/library/far", network.origin.host())).unwrap();
    let created = stored(&network, "far").expect("the copy is stored");
    let blob = format!("/v2/library/far/blobs/{}", network.blob);
    let get = async |path: &str| {
        let request = Request::get(path).header(header::HOST, "localhost").body(Body::empty()).unwrap();
        let response = network.daemon.send(request).await;
        let status = response.status().as_u16();
        (status, axum::body::to_bytes(response.into_body(), 1 << 20).await.unwrap().len())
    };
    assert_eq!(version(&network.daemon).await, (200, Some(1), false), "clients get the origin's manifest");
    assert_eq!(get(&blob).await, (200, 10_000), "clients get the origin's blob");
    // When this second model is stored, a wrong replacement of the first would be stored, too.
    let contents = b"another".to_vec();
    let digest = cairn_store::Digest::of(&contents);
    let layer = format!(r#"{{"mediaType":"application/vnd.ollama.image.license","digest":"{digest}","size":7}}"#);
    let manifest = format!(r#"{{"schemaVersion":2,"layers":[{layer}]}}"#);
    network.origin.put_manifest("library/next", "latest", manifest.as_bytes());
    network.origin.put_blob(&digest.to_string(), contents.into());
    assert_eq!(get("/v2/library/next/manifests/latest").await.0, 200, "the manifest of the second model");
    assert_eq!(get(&format!("/v2/library/next/blobs/{digest}")).await, (200, 7), "the blob of the second model");
    let deadline = Instant::now() + Duration::from_secs(20);
    while stored(&network, "next").is_none() {
        assert!(Instant::now() < deadline, "the second model is not stored: {:?}", app.transfers().downloads());
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert_eq!(stored(&network, "far").as_deref(), Some(&*created), "the created model is unchanged");
    assert!(app.transfers().downloads().iter().all(|row| !row.model.contains("far")), "no download of the model");
}

#[tokio::test]
async fn model_pulled_from_its_origin_is_updated_by_the_mirror() {
    let network = Network::new();
    let name = format!("{}/library/far", network.origin.host());
    let app = network.daemon.server.app();
    let mut events =
        app.transfers().pull(cairn_app::transfers::Pull { name, insecure: true, ..Default::default() }).unwrap();
    while events.next().await.is_some() {}
    let contents = b"newer".to_vec();
    let digest = cairn_store::Digest::of(&contents);
    let layer = format!(r#"{{"mediaType":"application/vnd.ollama.image.license","digest":"{digest}","size":5}}"#);
    let manifest = format!(r#"{{"schemaVersion":2,"version":2,"layers":[{layer}]}}"#);
    network.origin.put_manifest("library/far", "latest", manifest.as_bytes());
    network.origin.put_blob(&digest.to_string(), contents.into());
    assert_eq!(version(&network.daemon).await, (200, Some(2), false), "the origin's new manifest");
    let path = format!("/v2/library/far/blobs/{digest}");
    let request = Request::get(path).header(header::HOST, "localhost").body(Body::empty()).unwrap();
    assert_eq!(network.daemon.send(request).await.status(), 200, "the new blob is fetched");
    let deadline = Instant::now() + Duration::from_secs(20);
    while stored(&network, "far").as_deref() != Some(&*manifest) {
        assert!(Instant::now() < deadline, "the new manifest is not stored: {:?}", app.transfers().downloads());
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test]
async fn proxied_clients_are_identified_by_forwarded_address() {
    const PROXY: [u8; 4] = [127, 0, 0, 1];
    let (manifest, token) = ("/v2/library/far/manifests/latest", "/v2/token");
    let forwarded =
        [("x-forwarded-for", "198.51.100.7"), ("x-forwarded-proto", "https"), ("x-forwarded-host", "models.example")];
    // A proxy that is not configured: its clients do not count as local.
    let network = Network::new();
    let (status, headers, _) = network.get_from(PROXY, manifest, &forwarded).await;
    assert_eq!(status, 401, "a forwarded request is not local");
    let realm = headers[header::WWW_AUTHENTICATE].to_str().unwrap();
    assert!(realm.contains("\"http://192.168.1.2:11434/v2/token\""), "the forwarding headers are ignored: {realm}");
    assert_eq!(network.get_from(PROXY, manifest, &[]).await.0, 200, "local programs need no key");

    let network = Network::with(&[("CAIRN_TRUSTED_PROXIES", "127.0.0.1"), ("CAIRN_NAMES", "models.example")]);
    let (status, headers, _) = network.get_from(PROXY, manifest, &forwarded).await;
    let realm = headers[header::WWW_AUTHENTICATE].to_str().unwrap();
    assert!(status == 401 && realm.contains("\"https://models.example/v2/token\""), "{status} {realm}");
    let key = ClientKey::from_number(3, NOW);
    network.daemon.server.app().transfers().allow(&key.public_line()).await.unwrap();
    let token = format!("{token}?{}", key.token_query("cairn", "repository:library/far:pull"));
    let signed = key.authorization(&format!("https://models.example{token}"));
    let with = |more: (&'static str, String)| -> Vec<(&'static str, String)> {
        forwarded.iter().map(|(name, value)| (*name, (*value).to_owned())).chain([more]).collect()
    };
    let get = async |path: &str, headers: Vec<(&'static str, String)>| {
        let headers: Vec<(&str, &str)> = headers.iter().map(|(name, value)| (*name, &**value)).collect();
        network.get_from(PROXY, path, &headers).await
    };
    let (status, _, body) = get(&token, with(("authorization", signed))).await;
    assert_eq!(status, 200, "the signature covers the URL that the client used: {body}");
    let token: serde_json::Value = serde_json::from_str(&body).unwrap();
    let bearer = format!("Bearer {}", token["token"].as_str().unwrap());
    assert_eq!(get(manifest, with(("authorization", bearer.clone()))).await.0, 200, "the manifest is fetched");
    let blob = format!("/v2/library/far/blobs/{}", network.blob);
    let (status, headers, _) = get(&blob, with(("authorization", bearer))).await;
    let location = headers[header::LOCATION].to_str().unwrap();
    assert_eq!(
        (status, location),
        (200, &*format!("https://models.example{blob}")),
        "ranges are requested through the proxy"
    );
    let counted = network.daemon.server.app().transfers().peers().list();
    let rows: Vec<(String, u64)> = counted.iter().map(|peer| (peer.address.to_string(), peer.sent_bytes)).collect();
    assert_eq!(rows, [("198.51.100.7".to_owned(), 10_000)], "bytes are counted for the client, not for the proxy");
}
