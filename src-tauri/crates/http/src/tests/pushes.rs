//! Tests of `/api/push`: errors before the transfer starts.

use super::*;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn push_errors_have_a_status() {
    let daemon = Daemon::start();
    let check = async |body: &str, status: u16, error: &str, code: &str, params: serde_json::Value| {
        let reply = daemon.post("/api/push", body).await;
        let expected = serde_json::json!({"error": error, "code": code, "params": params});
        assert_eq!(reply, format!("{status} application/json; charset=utf-8\n{expected}"), "{body}");
    };
    let reply = daemon.post("/api/push", "{}").await;
    let expected = serde_json::json!({"error": "model is required", "code": "model_name_missing"});
    assert_eq!(reply, format!("400 application/json; charset=utf-8\n{expected}"), "no name");
    let name = serde_json::json!({"name": "a b"});
    check(r#"{"name":"a b"}"#, 400, "invalid model name", "model_name_invalid", name).await;
    for body in [r#"{"model":"absent"}"#, r#"{"model":"absent","stream":false}"#] {
        check(body, 404, "model 'absent' not found", "model_not_found", serde_json::json!({"model": "absent"})).await;
    }
}
