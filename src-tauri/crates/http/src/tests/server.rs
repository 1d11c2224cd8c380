//! `/app/server`: who asked what.

use cairn_wire::app::ServerResponse;
use tokio_stream::StreamExt;

use super::*;

async fn told(daemon: &Daemon) -> ServerResponse {
    let heard = daemon.own("GET", "/app/server", "").await;
    serde_json::from_str(heard.split_once('\n').unwrap().1).unwrap()
}

async fn ask(daemon: &Daemon, agent: &str, path: &str, json: &str) -> String {
    let request = Request::post(path).header(header::USER_AGENT, agent);
    daemon.heard(request.body(Body::from(json.to_owned())).unwrap()).await
}

#[tokio::test]
async fn requests_are_told_without_what_was_said() {
    let daemon = Daemon::start();
    let chat = r#"{"model":"m","messages":[{"role":"user","content":"top secret"}],"options":{"temperature":0,"num_predict":3}}"#;
    ask(&daemon, "editor/1.2 (x)", "/api/chat", chat).await;
    ask(&daemon, "editor/1.3", "/api/chat", chat).await;
    daemon.get("/api/tags?secret=query").await;
    daemon.post("/api/generate", r#"{"model":"none","prompt":"top secret"}"#).await;
    daemon.own("GET", "/app/status", "").await;
    daemon.own("GET", "/api/ps", "").await;
    let preflight = Request::builder().method("OPTIONS").uri("/api/chat");
    daemon.heard(preflight.body(Body::empty()).unwrap()).await;
    let server = told(&daemon).await;
    let lines: Vec<_> = server.requests.iter().map(|r| (&*r.client, &*r.method, &*r.path, r.status)).collect();
    let expected = [
        ("unknown", "POST", "/api/generate", 404),
        ("unknown", "GET", "/api/tags", 200),
        ("editor", "POST", "/api/chat", 200),
        ("editor", "POST", "/api/chat", 200),
    ];
    assert_eq!(lines, expected, "the newest first, and nothing of what our own programs ask about the daemon");
    let again = &server.requests[2];
    assert_eq!(again.model.as_deref(), Some("m"), "the model");
    assert_eq!(
        (again.prompt_tokens, again.cached_tokens, again.answer_tokens),
        (Some(23), Some(22), Some(3)),
        "{again:?}"
    );
    assert!(again.first_token_ms.is_some() && again.tokens_per_second > Some(0.0) && !again.running, "{again:?}");
    let clients: Vec<_> = server.clients.iter().map(|c| (&*c.name, &*c.address, c.requests, c.own)).collect();
    assert_eq!(clients, [("unknown", "127.0.0.1", 2, false), ("editor", "127.0.0.1", 2, false)], "who asked");
    let all = serde_json::to_string(&server).unwrap();
    assert!(!all.contains("secret"), "nothing of what was said: {all}");
    assert!(server.url == "http://127.0.0.1:11434" && !server.lan && !server.share, "{server:?}");
}

#[tokio::test]
async fn only_the_last_ones_are_kept() {
    let daemon = Daemon::start();
    for _ in 0..510 {
        daemon.get("/api/version").await;
    }
    let server = told(&daemon).await;
    assert_eq!(server.requests.len(), 500, "no more");
    assert_eq!((server.requests[0].id, server.clients[0].requests), (510, 510), "of so many");
}

#[tokio::test]
async fn a_change_is_told() {
    let daemon = Daemon::start();
    let request = Request::get("/app/server/events")
        .header(header::HOST, format!("127.0.0.1:{PORT}"))
        .header(header::AUTHORIZATION, format!("Bearer {TOKEN}"));
    let mut lines = daemon.send(request.body(Body::empty()).unwrap()).await.into_body().into_data_stream();
    let mut next = async || {
        let bytes = lines.next().await.expect("it goes on").expect("it can be read");
        serde_json::from_slice::<ServerResponse>(&bytes).expect("a whole line").requests.len()
    };
    assert_eq!(next().await, 0, "as it is");
    daemon.get("/api/version").await;
    assert_eq!(next().await, 1, "as it became");
}
