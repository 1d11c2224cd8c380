//! Tests of API keys from other machines: statuses, error formats, revocation, settings, the log and cache scopes.

use cairn_wire::app::{KeyScope, ServerResponse};
use serde_json::{Value, json};

use super::*;

const OTHER_MACHINE: [u8; 4] = [192, 168, 0, 9];
const THIS_MACHINE: [u8; 4] = [127, 0, 0, 1];

/// A reply: status, `WWW-Authenticate` and JSON body.
type Reply = (u16, Option<String>, Value);

impl Daemon {
    fn key(&self, name: &str, scopes: &[KeyScope]) -> String {
        self.server.app().keys().create(name, scopes).unwrap()
    }

    async fn post_with(&self, from: [u8; 4], header: Option<(&str, &str)>, path: &str, body: &Value) -> Reply {
        let mut request = Request::post(path).header(header::HOST, "192.168.0.7:11434");
        if let Some((name, value)) = header {
            request = request.header(name, value);
        }
        let mut request = request.body(Body::from(body.to_string())).unwrap();
        request.extensions_mut().insert(ConnectInfo(SocketAddr::from((from, 50_000))));
        let response = self.router.clone().oneshot(request).await.unwrap();
        let status = response.status().as_u16();
        let challenge =
            response.headers().get(header::WWW_AUTHENTICATE).map(|value| value.to_str().unwrap().to_owned());
        let bytes = axum::body::to_bytes(response.into_body(), 1 << 24).await.unwrap();
        (status, challenge, serde_json::from_slice(&bytes).unwrap_or_default())
    }

    /// Sends a prompt and returns the status and the cached tokens.
    async fn cached_tokens(&self, from: [u8; 4], key: Option<&str>) -> (u16, u64) {
        let body = json!({"model": "m", "prompt": "a b c d e f g h", "stream": false, "options": {"num_predict": 1}});
        let (status, _, answer) = self.post_with(from, key.map(|key| ("x-api-key", key)), "/api/generate", &body).await;
        (status, answer["cached_tokens"].as_u64().unwrap_or(0))
    }
}

/// A text in the form of a key that no key has.
const WRONG_KEY: &str = "cairn_0000000000000000000000000000000000000000000000000000000000000000";

#[tokio::test]
async fn refusals_have_the_format_of_each_api() {
    let daemon = Daemon::with(&[("CAIRN_REQUIRE_KEY", "all")]);
    let metrics = daemon.key("grafana", &[KeyScope::Metrics]);
    let check = async |path: &str, key: Option<&str>, status: u16, expected: Value| {
        let (found, challenge, body) =
            daemon.post_with(OTHER_MACHINE, key.map(|key| ("x-api-key", key)), path, &json!({})).await;
        assert_eq!(found, status, "{path} {key:?}: {body}");
        assert_eq!(challenge.as_deref(), (status == 401).then_some("Bearer"), "{path} {key:?}");
        for (pointer, value) in expected.as_object().unwrap() {
            assert_eq!(body.pointer(pointer), Some(value), "{path} {key:?}: {body}");
        }
    };
    let ollama = |code: &str| json!({"/code": code});
    check("/api/chat", None, 401, json!({"/code": "api_key_missing", "/params/scope": "chat"})).await;
    check("/api/chat", Some("wrong"), 401, ollama("api_key_invalid")).await;
    check("/api/chat", Some(&metrics), 403, json!({"/code": "api_key_scope", "/params/scope": "chat"})).await;
    check("/api/pull", Some(&metrics), 403, json!({"/code": "api_key_scope", "/params/scope": "models"})).await;
    check("/app/stop", Some(&metrics), 403, json!({"/code": "api_key_scope", "/params/scope": "admin"})).await;
    check("/api/show", None, 401, json!({"/code": "api_key_missing", "/params/scope": "chat or models"})).await;
    let openai = |kind: &str, code: &str| json!({"/error/type": kind, "/error/code": code});
    for path in ["/v1/chat/completions", "/v1/completions"] {
        check(path, None, 401, openai("authentication_error", "api_key_missing")).await;
        check(path, Some("wrong"), 401, openai("authentication_error", "api_key_invalid")).await;
        check(path, Some(&metrics), 403, openai("permission_error", "api_key_scope")).await;
    }
    let anthropic = |kind: &str| json!({"/type": "error", "/error/type": kind});
    for path in ["/v1/messages", "/v1/messages/count_tokens"] {
        check(path, None, 401, anthropic("authentication_error")).await;
        check(path, Some("wrong"), 401, anthropic("authentication_error")).await;
        check(path, Some(&metrics), 403, anthropic("permission_error")).await;
    }
}

#[tokio::test]
async fn revoked_key_is_refused_by_the_next_request() {
    let daemon = Daemon::start();
    let key = daemon.key("phone", &[KeyScope::Models]);
    let copy = json!({"source": "m", "destination": "n"});
    let bearer = format!("Bearer {key}");
    let send = async || daemon.post_with(OTHER_MACHINE, Some(("authorization", &bearer)), "/api/copy", &copy).await.0;
    assert_eq!(send().await, 200, "a key for models");
    daemon.authorized("POST", "/app/keys/revoke", r#"{"name":"phone"}"#).await;
    assert_eq!(send().await, 401, "revoked");
}

#[tokio::test]
async fn stream_of_events_ends_when_its_key_is_revoked() {
    let daemon = Daemon::start();
    let open = async |key: &str| {
        let request = Request::get("/app/chats/events").header(header::HOST, "192.168.0.7:11434");
        let mut request = request.header("x-api-key", key).body(Body::empty()).unwrap();
        request.extensions_mut().insert(ConnectInfo(SocketAddr::from((OTHER_MACHINE, 50_000))));
        let response = daemon.router.clone().oneshot(request).await.unwrap();
        assert_eq!(response.status(), 200);
        response.into_body()
    };
    let rest = |body| axum::body::to_bytes(body, 1 << 20);
    let revoked = open(&daemon.key("phone", &[KeyScope::Admin])).await;
    let valid = open(&daemon.key("tablet", &[KeyScope::Admin])).await;
    daemon.authorized("POST", "/app/keys/revoke", r#"{"name":"phone"}"#).await;
    tokio::time::timeout(Duration::from_secs(10), rest(revoked)).await.expect("the stream ends").unwrap();
    let wait = tokio::time::timeout(Duration::from_millis(50), rest(valid)).await;
    assert!(wait.is_err(), "the stream of another key continues");
}

#[tokio::test]
async fn any_text_is_accepted_as_key_on_this_machine() {
    let daemon = Daemon::with(&[("CAIRN_REQUIRE_KEY", "all")]);
    for (key, expected) in [(None, 0), (Some("ollama"), 16), (Some("cairn_00"), 16)] {
        let (status, cached) = daemon.cached_tokens(THIS_MACHINE, key).await;
        assert!(status == 200 && cached >= expected, "{key:?}: status {status}, {cached} cached tokens");
    }
}

#[tokio::test]
async fn setting_applies_to_the_next_request() {
    let daemon = Daemon::start();
    let copy = json!({"source": "m", "destination": "n"});
    let statuses = async || {
        let generate = daemon.cached_tokens(OTHER_MACHINE, None).await.0;
        let text = daemon.cached_tokens(OTHER_MACHINE, Some("ollama")).await.0;
        let wrong = daemon.cached_tokens(OTHER_MACHINE, Some(WRONG_KEY)).await.0;
        (generate, text, wrong, daemon.post_with(OTHER_MACHINE, None, "/api/copy", &copy).await.0)
    };
    let set = async |value: &str| {
        let change = format!(r#"{{"server.require_key":"{value}"}}"#);
        let reply = daemon.authorized("PATCH", "/app/settings", &change).await;
        assert!(reply.starts_with("200"), "{reply}");
    };
    assert_eq!(statuses().await, (200, 200, 401, 401), "by default, keys are required for changes");
    set("all").await;
    assert_eq!(statuses().await, (401, 401, 401, 401), "keys are required for all");
    set("off").await;
    assert_eq!(statuses().await, (200, 200, 200, 200), "as in Ollama");
    let settings = daemon.post_with(OTHER_MACHINE, None, "/app/settings", &json!({})).await.0;
    assert_eq!(settings, 401, "Cairn's own API always needs a key");
}

#[tokio::test]
async fn request_log_names_the_key() {
    let daemon = Daemon::start();
    let key = daemon.key("phone", &[KeyScope::Chat]);
    for key in [key.as_str(), WRONG_KEY] {
        daemon.cached_tokens(OTHER_MACHINE, Some(key)).await;
    }
    let reply = daemon.authorized("GET", "/app/server", "").await;
    assert!(!reply.contains(&key), "no key's text");
    let server: ServerResponse = serde_json::from_str(reply.split_once('\n').unwrap().1).unwrap();
    let logged: Vec<_> = server.requests.iter().map(|request| (request.key.as_deref(), request.status)).collect();
    assert_eq!(logged, [(None, 401), (Some("phone"), 200)], "the newest first");
}

#[tokio::test]
async fn admin_key_administers_from_another_machine() {
    let daemon = Daemon::start();
    let key = daemon.key("laptop", &[KeyScope::Admin]);
    let create = json!({"name": "phone", "scopes": ["chat"]});
    let (status, _, created) = daemon.post_with(OTHER_MACHINE, Some(("x-api-key", &key)), "/app/keys", &create).await;
    assert_eq!(status, 200, "{created}");
    let phone = created["key"].as_str().unwrap();
    assert_eq!(daemon.cached_tokens(OTHER_MACHINE, Some(phone)).await.0, 200, "the new key is valid");
    let (status, _, refused) = daemon.post_with(OTHER_MACHINE, Some(("x-api-key", phone)), "/app/keys", &create).await;
    assert_eq!((status, refused["code"].as_str()), (403, Some("api_key_scope")), "{refused}");
    let token = format!("Bearer {TOKEN}");
    let from_elsewhere = daemon.post_with(OTHER_MACHINE, Some(("authorization", &token)), "/app/keys", &create).await;
    assert_eq!(from_elsewhere.0, 403, "the daemon token is for this machine only");
}

#[tokio::test]
async fn keys_do_not_share_cached_prefixes() {
    for from in [OTHER_MACHINE, THIS_MACHINE] {
        let daemon = Daemon::start();
        let (ann, bob) = (daemon.key("ann", &[KeyScope::Chat]), daemon.key("bob", &[KeyScope::Chat]));
        let before = daemon.cached_tokens(from, Some(&ann)).await;
        let whole = daemon.cached_tokens(from, Some(&ann)).await.1;
        assert!(before == (200, 0) && whole > 16, "{before:?}, then {whole} cached tokens");
        assert_eq!(daemon.cached_tokens(from, Some(&bob)).await, (200, 0), "another key");
        assert_eq!(daemon.cached_tokens(from, None).await, (200, 0), "no key");
        assert_eq!(daemon.cached_tokens(from, Some(&ann)).await, (200, whole), "the first key");
    }
}
