//! Pushes as raw bodies: what is refused before anything is sent.

use super::*;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn refusals_have_a_status() {
    let daemon = Daemon::start();
    let check = async |body: &str, status: u16, error: &str| {
        let heard = daemon.post("/api/push", body).await;
        let refusal = format!("{status} application/json; charset=utf-8\n{}", serde_json::json!({"error": error}));
        assert_eq!(heard, refusal, "{body}");
    };
    check("{}", 400, "model is required").await;
    check(r#"{"name":"a b"}"#, 400, "invalid model name").await;
    check(r#"{"model":"nobody"}"#, 404, "model 'nobody' not found").await;
    check(r#"{"model":"nobody","stream":false}"#, 404, "model 'nobody' not found").await;
}
