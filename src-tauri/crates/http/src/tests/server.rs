//! Tests of `/app/server`: the log of requests and clients.

use std::time::Duration;

use cairn_wire::app::ServerResponse;
use tokio_stream::StreamExt;

use super::*;

async fn server_response(daemon: &Daemon) -> ServerResponse {
    let reply = daemon.authorized("GET", "/app/server", "").await;
    serde_json::from_str(reply.split_once('\n').unwrap().1).unwrap()
}

async fn post_as(daemon: &Daemon, agent: &str, path: &str, json: &str) -> String {
    let request = Request::post(path).header(header::USER_AGENT, agent);
    daemon.reply(request.body(Body::from(json.to_owned())).unwrap()).await
}

#[tokio::test]
async fn request_log_has_usage_and_no_prompts() {
    let daemon = Daemon::start();
    let chat = r#"{"model":"m","messages":[{"role":"user","content":"top secret"}],"options":{"temperature":0,"num_predict":3}}"#;
    post_as(&daemon, "editor/1.2 (x)", "/api/chat", chat).await;
    post_as(&daemon, "editor/1.3", "/api/chat", chat).await;
    daemon.get("/api/tags?secret=query").await;
    daemon.post("/api/generate", r#"{"model":"none","prompt":"top secret"}"#).await;
    daemon.authorized("GET", "/app/status", "").await;
    daemon.authorized("GET", "/api/ps", "").await;
    let preflight = Request::builder().method("OPTIONS").uri("/api/chat");
    daemon.reply(preflight.body(Body::empty()).unwrap()).await;
    let server = server_response(&daemon).await;
    let lines: Vec<_> = server.requests.iter().map(|r| (&*r.client, &*r.method, &*r.path, r.status)).collect();
    let expected = [
        ("unknown", "POST", "/api/generate", 404),
        ("unknown", "GET", "/api/tags", 200),
        ("editor", "POST", "/api/chat", 200),
        ("editor", "POST", "/api/chat", 200),
    ];
    assert_eq!(lines, expected, "the newest first, without queries of Cairn's own programs");
    let chat = &server.requests[2];
    assert_eq!(chat.model.as_deref(), Some("m"), "the model");
    assert_eq!((chat.prompt_tokens, chat.cached_tokens, chat.answer_tokens), (Some(23), Some(22), Some(3)), "{chat:?}");
    assert!(chat.first_token_ms.is_some() && chat.tokens_per_second > Some(0.0) && !chat.running, "{chat:?}");
    let clients: Vec<_> = server.clients.iter().map(|c| (&*c.name, &*c.address, c.requests, c.own)).collect();
    assert_eq!(clients, [("unknown", "127.0.0.1", 2, false), ("editor", "127.0.0.1", 2, false)], "the clients");
    let all = serde_json::to_string(&server).unwrap();
    assert!(!all.contains("secret"), "no prompt and no query string: {all}");
    assert!(server.url == "http://127.0.0.1:11434" && !server.lan && !server.share, "{server:?}");
}

#[tokio::test]
async fn request_of_a_disconnected_client_ends_with_status_499() {
    let daemon = Daemon::start();
    let endless = r#"{"model":"m","prompt":"hi","stream":false,"options":{"num_predict":100000,"num_ctx":2048}}"#;
    let answer = daemon.post("/api/generate", endless);
    assert!(tokio::time::timeout(Duration::from_millis(100), answer).await.is_err(), "the answer takes longer");
    let server = server_response(&daemon).await;
    assert_eq!((server.requests[0].status, server.requests[0].running), (499, false), "{:?}", server.requests[0]);
}

#[tokio::test]
async fn show_has_the_requested_name_for_an_editor() {
    let daemon = Daemon::start();
    let basename = async |agent: &str| {
        let shown = post_as(&daemon, agent, "/api/show", r#"{"model":"m"}"#).await;
        let shown: serde_json::Value = serde_json::from_str(shown.split_once('\n').unwrap().1).unwrap();
        shown["model_info"]["general.basename"].as_str().map(str::to_owned)
    };
    assert_eq!(basename("GitHubCopilotChat/0.31").await.as_deref(), Some("m"), "the editor");
    assert_ne!(basename("curl/8.5").await.as_deref(), Some("m"), "another client");
}

#[tokio::test]
async fn request_log_evicts_the_oldest_above_the_limit() {
    let daemon = Daemon::start();
    for _ in 0..510 {
        daemon.get("/api/version").await;
    }
    let server = server_response(&daemon).await;
    assert_eq!(server.requests.len(), 500, "the limit");
    assert_eq!((server.requests[0].id, server.clients[0].requests), (510, 510), "all requests are counted");
}

#[tokio::test]
async fn server_events_report_a_new_request() {
    let daemon = Daemon::start();
    let request = Request::get("/app/server/events")
        .header(header::HOST, format!("127.0.0.1:{PORT}"))
        .header(header::AUTHORIZATION, format!("Bearer {TOKEN}"));
    let mut lines = daemon.send(request.body(Body::empty()).unwrap()).await.into_body().into_data_stream();
    let mut next = async || {
        let bytes = lines.next().await.expect("the stream continues").expect("a chunk");
        serde_json::from_slice::<ServerResponse>(&bytes).expect("a whole line").requests.len()
    };
    assert_eq!(next().await, 0, "the current state");
    daemon.get("/api/version").await;
    assert_eq!(next().await, 1, "the state after the request");
}

#[tokio::test]
async fn log_has_the_last_lines_of_the_file() {
    let daemon = Daemon::start();
    let logs = daemon.server.app().settings().at_start().places().log_file();
    std::fs::create_dir_all(logs.parent().unwrap()).unwrap();
    assert!(daemon.authorized("GET", "/app/log?lines=x", "").await.starts_with("400 "), "no number");
    let empty = daemon.authorized("GET", "/app/log", "").await;
    assert!(empty.starts_with("200 ") && empty.contains(r#""lines":[]"#), "no daemon has logged: {empty}");
    std::fs::write(&logs, format!("one\ntwo\n{}\n", "x".repeat(5000))).unwrap();
    let reply = daemon.authorized("GET", "/app/log?lines=2", "").await;
    assert!(reply.contains(r#""lines":["two","xxx"#) && reply.contains(r#"x…"]"#), "lines are cut: {reply}");
    assert!(reply.len() < 2500, "{}", reply.len());
}
