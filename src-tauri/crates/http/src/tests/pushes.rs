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
    for (body, error) in [("{}", "model is required"), (r#"{"name":"a b"}"#, "invalid model name")] {
        check(body, 400, error, "model_name_invalid", serde_json::json!({"reason": error})).await;
    }
    for body in [r#"{"model":"absent"}"#, r#"{"model":"absent","stream":false}"#] {
        check(body, 404, "model 'absent' not found", "model_not_found", serde_json::json!({"model": "absent"})).await;
    }
}
