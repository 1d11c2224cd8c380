//! Tests of `/api/pull` and `/app/downloads`: invalid requests, errors and access.

use cairn_store::Digest;
use cairn_testkit::registry::{FakeRegistry, Faults};

use super::*;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pull_errors_match_ollama() {
    let daemon = Daemon::start();
    let registry = FakeRegistry::start(1, Faults::default()).unwrap();
    let name = format!("{}/library/nothing", registry.host());
    let request = |stream: bool| format!(r#"{{"model":"{name}","insecure":true,"stream":{stream}}}"#);
    let missing = format!(
        "pull model manifest: file does not exist ({} has no {name}:latest; check the spelling and the tag, and whether the \
         model is public)",
        registry.host()
    );
    let body = serde_json::json!({
        "error": missing,
        "code": "registry_model_not_found",
        "params": {"host": registry.host(), "model": format!("{name}:latest")}
    });
    let streamed = daemon.post("/api/pull", &request(true)).await;
    let lines = format!("200 application/x-ndjson\n{{\"status\":\"pulling manifest\"}}\n{body}\n",);
    assert_eq!(streamed, lines, "a stream has the error in its last line");
    let whole = daemon.post("/api/pull", &request(false)).await;
    let expected = format!("500 application/json; charset=utf-8\n{body}");
    assert_eq!(whole, expected, "without a stream the error has its status");
    let missing = serde_json::json!({"error": "model is required", "code": "model_name_missing"});
    let params = serde_json::json!({"name": "a b"});
    let invalid = serde_json::json!({"error": "invalid model name", "code": "model_name_invalid", "params": params});
    for (body, expected) in [(r#"{"model":""}"#, missing), (r#"{"name":"a b"}"#, invalid)] {
        let refused = daemon.post("/api/pull", body).await;
        assert_eq!(refused, format!("400 application/json; charset=utf-8\n{expected}"), "{body}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn download_routes_reject_missing_daemon_token_and_invalid_requests() {
    let daemon = Daemon::start();
    let refused = daemon.get("/app/downloads").await;
    assert!(refused.starts_with("401 ") || refused.starts_with("403 "), "{refused}");
    let check = async |method: &str, path: &str, body: &str, expected: &str| {
        let reply = daemon.authorized(method, &format!("/app/downloads{path}"), body).await;
        assert!(reply.contains(expected), "{method} {path}: {reply}");
    };
    check("GET", "", "", "200 application/json; charset=utf-8\n{\"downloads\":[]}").await;
    check("POST", "/cap", r#"{"bytes_per_second":5000}"#, "\"limit_bytes_per_second\":5000").await;
    check("POST", "/cap", "{}", "{\"downloads\":[]}").await;
    for verb in ["pause", "resume", "cancel", "discard"] {
        check("POST", &format!("/{verb}"), r#"{"download":"m"}"#, "404 ").await;
    }
    check("POST", "/reorder", r#"{"download":"1","position":0}"#, "there is no download").await;
    check("POST", "", r#"{"model":"a b"}"#, "invalid model name").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn model_that_cannot_run_is_refused_with_a_code_unless_forced() {
    let daemon = Daemon::start();
    let registry = FakeRegistry::start(1, Faults::default()).unwrap();
    // Version 3, no tensors, one text.
    let key = b"general.architecture";
    let mut file = [b"GGUF".as_slice(), &3_u32.to_le_bytes(), &0_u64.to_le_bytes(), &1_u64.to_le_bytes()].concat();
    file.extend([(key.len() as u64).to_le_bytes().as_slice(), key, &8_u32.to_le_bytes()].concat());
    file.extend([5_u64.to_le_bytes().as_slice(), b"lorem"].concat());
    file.resize(file.len().next_multiple_of(32), 0);
    let (digest, size) = (Digest::of(&file).to_string(), file.len());
    registry.put_blob(&digest, file.into());
    let layer = format!(r#"{{"mediaType":"application/vnd.ollama.image.model","digest":"{digest}","size":{size}}}"#);
    let manifest = format!(r#"{{"schemaVersion":2,"layers":[{layer}]}}"#);
    registry.put_manifest("library/odd", "latest", manifest.as_bytes());
    let name = format!("{}/library/odd", registry.host());
    let request = |more: &str| format!(r#"{{"model":"{name}","insecure":true{more}}}"#);

    let streamed = daemon.post("/api/pull", &request("")).await;
    let last: serde_json::Value = serde_json::from_str(streamed.lines().last().unwrap()).unwrap();
    let params = serde_json::json!({"model": format!("{name}:latest"), "reason": "architecture lorem", "size_bytes": size.to_string()});
    assert_eq!((&last["code"], &last["params"]), (&"model_cannot_run".into(), &params), "{streamed}");
    assert!(last["error"].as_str().is_some_and(|text| text.contains(r#""force": true"#)), "what to do: {streamed}");
    let whole = daemon.post("/api/pull", &request(r#","stream":false"#)).await;
    assert!(whole.starts_with("500 ") && whole.contains("model_cannot_run"), "with its status: {whole}");
    let listed = daemon.authorized("GET", "/app/downloads", "").await;
    assert!(listed.contains("model_cannot_run"), "the list has the code too: {listed}");
    let forced = daemon.post("/api/pull", &request(r#","stream":false,"force":true"#)).await;
    assert_eq!(forced, "200 application/json; charset=utf-8\n{\"status\":\"success\"}");
    let detached = daemon.authorized("POST", "/app/downloads", &format!(r#"{{"model":"{name}x","force":true}}"#)).await;
    assert!(detached.starts_with("202 "), "{detached}");
}
