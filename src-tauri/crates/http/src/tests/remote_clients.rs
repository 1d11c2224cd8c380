//! Tests of pulls, pushes and creations by clients on other machines: the addresses that the daemon connects to for
//! them.

use cairn_app::transfers::Pull;
use cairn_testkit::registry::{FakeRegistry, Faults};
use cairn_wire::app::KeyScope;

use super::*;

/// Sends a request from the address `from`, optionally with a forwarding header of a proxy. An empty `key` is not sent.
async fn post_from(
    daemon: &Daemon,
    (from, forwarded): ([u8; 4], bool),
    key: &str,
    path: &str,
    json: &serde_json::Value,
) -> String {
    let mut request = Request::post(path).header(header::HOST, "localhost");
    if !key.is_empty() {
        request = request.header("x-api-key", key);
    }
    if forwarded {
        request = request.header("x-forwarded-for", "192.0.2.9");
    }
    let mut request = request.body(Body::from(json.to_string())).unwrap();
    request.extensions_mut().insert(ConnectInfo(SocketAddr::from((from, 5000))));
    let response = daemon.router.clone().oneshot(request).await.unwrap();
    let status = response.status().as_u16();
    let bytes = axum::body::to_bytes(response.into_body(), 1 << 20).await.unwrap();
    format!("{status} {}", String::from_utf8_lossy(&bytes))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn remote_clients_cannot_make_daemon_send_requests() {
    let daemon = Daemon::with(&[("CAIRN_TRUSTED_PROXIES", "127.0.0.9")]);
    let registry = FakeRegistry::start(1, Faults::default()).unwrap();
    let name = format!("{}/library/m", registry.host());
    daemon.post("/api/copy", &serde_json::json!({"source": "m", "destination": &name}).to_string()).await;
    let absent = format!("{}/library/other", registry.host());
    let requests = [
        ("/api/pull", serde_json::json!({"model": &name, "insecure": true})),
        ("/api/pull", serde_json::json!({"model": &name, "stream": false})),
        ("/api/pull", serde_json::json!({"model": format!("http://{name}")})),
        ("/api/pull", serde_json::json!({"model": "m", "sources": [format!("http://{}", registry.host())]})),
        ("/api/push", serde_json::json!({"model": &name, "insecure": true})),
        ("/api/push", serde_json::json!({"model": format!("http://{name}"), "stream": false})),
        ("/api/create", serde_json::json!({"model": "new", "from": &absent})),
        ("/api/create", serde_json::json!({"model": "new", "from": format!("http://{absent}"), "stream": false})),
    ];
    let keys = daemon.server.app().keys();
    let key = keys.create("models", &[KeyScope::Models]).unwrap();
    for (path, body) in &requests {
        for from in [([192, 168, 1, 9], false), ([127, 0, 0, 1], true), ([127, 0, 0, 9], true)] {
            let reply = post_from(&daemon, from, "", path, body).await;
            assert!(reply.starts_with("401 ") && reply.contains("api_key_missing"), "{path} {body}: {reply}");
            let reply = post_from(&daemon, from, &key, path, body).await;
            assert!(reply.starts_with("403 ") && reply.contains("remote_fetch_forbidden"), "{path} {body}: {reply}");
        }
    }
    assert!(registry.requests().is_empty(), "no request was sent: {:?}", registry.requests());
    let reply = post_from(&daemon, ([127, 0, 0, 1], false), "", requests[0].0, &requests[0].1).await;
    assert!(reply.starts_with("200 ") && !registry.requests().is_empty(), "local programs have access: {reply}");
}

#[tokio::test]
async fn remote_clients_can_reach_public_and_configured_registries() {
    let daemon = Daemon::with(&[
        ("CAIRN_MIRROR_ORIGINS", "registry.ollama.ai/library,http://127.0.0.3:5000/a"),
        ("CAIRN_MIRRORS", "127.0.0.4:1=http://127.0.0.5:1"),
    ]);
    let check = async |name: &str, insecure: bool, refusal: Option<&str>| {
        let pull = Pull { name: name.to_owned(), insecure, ..Pull::default() };
        let reply = daemon.server.app().transfers().allow_remote_client(&pull).await.map_err(|error| error.to_string());
        let as_expected = match (&reply, refusal) {
            (Ok(()), None) => true,
            (Err(text), Some(part)) => text.contains(part),
            _ => false,
        };
        assert!(as_expected, "{name} {insecure}: {reply:?}");
    };
    for name in ["llama3.2", "someone/llama3.2:1b", "1.1.1.1/a/b", "127.0.0.4:1/a/b", "no name"] {
        check(name, false, None).await;
    }
    check("127.0.0.3:5000/a/b", true, None).await;
    check("127.0.0.3:5000/other/b", true, Some("insecure")).await;
    check("llama3.2", true, Some("insecure")).await;
    check("http://1.1.1.1/a/b", false, Some("http://")).await;
    for host in ["127.0.0.2:8080", "10.0.0.1", "192.168.1.1", "169.254.169.254", "localhost:80", "2130706433", "0x7f.1"]
    {
        check(&format!("{host}/a/b"), false, Some("inside of a network")).await;
    }
}
