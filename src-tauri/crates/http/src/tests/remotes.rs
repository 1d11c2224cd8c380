//! Tests of remotes with fake servers on real sockets.

use cairn_testkit::upstream::{Api, FakeUpstream, Step, ollama_answer, openai_answer};
use serde_json::{Value, json};

use super::*;

const OTHER_MACHINE: [u8; 4] = [192, 168, 0, 9];

impl Daemon {
    async fn add_remote(&self, name: &str, url: &str) -> String {
        self.authorized("POST", "/app/remotes", &json!({"name": name, "url": url}).to_string()).await
    }

    /// Sends a request from another machine.
    pub(super) async fn post_from(&self, peer: [u8; 4], path: &str, json: &str) -> String {
        let mut request = Request::post(path).body(Body::from(json.to_owned())).unwrap();
        request.extensions_mut().insert(ConnectInfo(SocketAddr::from((peer, 50_000))));
        request.headers_mut().insert(header::HOST, HeaderValue::from_static("192.168.0.1:11434"));
        let response = self.router.clone().oneshot(request).await.unwrap();
        let status = response.status().as_u16();
        let bytes = axum::body::to_bytes(response.into_body(), 1 << 24).await.unwrap();
        format!("{status}\n{}", String::from_utf8(bytes.to_vec()).unwrap())
    }
}

fn sent(steps: &[Step]) -> String {
    let text = |step: &Step| match step {
        Step::Send(text) => text.clone(),
        _ => String::new(),
    };
    steps.iter().map(text).collect()
}

fn body(reply: &str) -> &str {
    reply.split_once('\n').expect("a status and a body").1
}

fn chat(model: &str) -> String {
    json!({"model": model, "messages": [{"role": "user", "content": "Why?"}]}).to_string()
}

#[tokio::test]
async fn models_of_remotes_are_listed_and_described() {
    let daemon = Daemon::start();
    let ollama = FakeUpstream::start(Api::Ollama, &["llama3:latest", "m:latest"], Vec::new()).unwrap();
    let vllm = FakeUpstream::start(Api::OpenAi, &["Qwen/Qwen3-8B", "llama3"], Vec::new()).unwrap();
    let added = daemon.add_remote("nas", &ollama.url()).await;
    assert!(added.starts_with("200") && added.contains(r#""kind":"ollama""#), "{added}");
    assert!(added.contains(r#""hidden_models":["m:latest"]"#), "the local model takes precedence: {added}");
    assert!(daemon.add_remote("gpu", &format!("{}/v1", vllm.url())).await.contains(r#""kind":"openai""#));
    let tags: Value = serde_json::from_str(body(&daemon.get("/api/tags").await)).unwrap();
    let rows: Vec<_> =
        tags["models"].as_array().unwrap().iter().map(|model| (&model["name"], &model["remotes"])).collect();
    let expected = [
        (json!("m:latest"), Value::Null),
        (json!("Qwen/Qwen3-8B"), json!(["gpu"])),
        (json!("llama3"), json!(["gpu", "nas"])),
    ];
    assert_eq!(rows, expected.iter().map(|(name, remotes)| (name, remotes)).collect::<Vec<_>>(), "{tags}");
    let llama = &tags["models"][2];
    assert_eq!((&llama["size"], &llama["origin"]), (&json!(4_661_211_424_u64), &json!("remote")), "{llama}");
    assert_eq!(llama["capabilities"], json!(["completion", "tools"]), "of the server that reports them");
    let models = daemon.get("/v1/models").await;
    assert!(models.contains(r#""id":"Qwen/Qwen3-8B""#) && models.contains(r#""owned_by":"Qwen""#), "{models}");
    let shown = daemon.post("/api/show", r#"{"model":"LLAMA3"}"#).await;
    assert!(shown.starts_with("200") && shown.contains(r#""origin":"remote""#), "{shown}");
    let shown = daemon.get("/v1/models/Qwen/Qwen3-8B").await;
    assert!(shown.starts_with("200") && shown.contains(r#""id":"Qwen/Qwen3-8B""#), "{shown}");
    let missing = daemon.post("/api/show", r#"{"model":"absent"}"#).await;
    assert!(missing.starts_with("404") && missing.contains("model_not_found"), "{missing}");
}

#[tokio::test]
async fn another_daemon_gets_only_local_models() {
    let daemon = Daemon::start();
    let server = FakeUpstream::start(Api::Ollama, &["llama3"], Vec::new()).unwrap();
    daemon.add_remote("nas", &server.url()).await;
    for path in ["/api/tags", "/v1/models"] {
        assert!(daemon.get(path).await.contains("llama3"), "{path}");
        let request = Request::get(path).header("x-cairn-remote", "1").body(Body::empty()).unwrap();
        let listed = daemon.reply(request).await;
        assert!(!listed.contains("llama3") && listed.contains("\"m"), "{listed}");
    }
}

#[tokio::test]
async fn version_for_another_daemon_has_the_id_of_the_process() {
    let (daemon, other) = (Daemon::start(), Daemon::start());
    let version = async |daemon: &Daemon| {
        let request = Request::get("/api/version").header("x-cairn-remote", "1").body(Body::empty()).unwrap();
        let version: Value = serde_json::from_str(body(&daemon.reply(request).await)).unwrap();
        version["instance"].as_str().expect("an id").to_owned()
    };
    let instance = version(&daemon).await;
    assert_eq!(instance, version(&daemon).await, "of one process");
    assert_ne!(instance, version(&other).await, "of two");
    assert!(!daemon.get("/api/version").await.contains("instance"), "for other clients");
}

#[tokio::test]
async fn request_of_another_daemon_never_reaches_a_remote() {
    let daemon = Daemon::start();
    let server = FakeUpstream::start(Api::Ollama, &["llama3"], ollama_answer(&["So"])).unwrap();
    daemon.add_remote("nas", &server.url()).await;
    let messages = json!([{"role": "user", "content": "Why?"}]);
    let whole = r#"{"choices":[{"message":{"content":"So"},"text":"So","finish_reason":"stop"}]}"#;
    for (path, rest) in [
        ("/api/chat", json!({"messages": messages})),
        ("/api/generate", json!({"prompt": "Why?"})),
        ("/api/show", json!({})),
        ("/v1/chat/completions", json!({"messages": messages})),
        ("/v1/completions", json!({"prompt": "Why?"})),
        ("/v1/messages", json!({"messages": messages, "max_tokens": 9})),
        ("/v1/responses", json!({"input": "Why?"})),
        ("/api/embed", json!({"input": "Why?"})),
        ("/api/embeddings", json!({"prompt": "Why?"})),
        ("/v1/embeddings", json!({"input": "Why?"})),
    ] {
        let is_whole = path.ends_with("completions") || path.contains("embed");
        server.set_steps(if is_whole { vec![Step::Send(whole.to_owned())] } else { ollama_answer(&["So"]) });
        let mut request = rest;
        request["model"] = json!("llama3");
        let own = daemon.post(path, &request.to_string()).await;
        assert!(own.starts_with("200"), "{path}: {own}");
        let seen = server.seen().len();
        let request = Request::post(path).header("x-cairn-remote", "1").body(Body::from(request.to_string())).unwrap();
        let reply = daemon.reply(request).await;
        assert!(reply.starts_with("404"), "{path}: {reply}");
        assert_eq!(server.seen().len(), seen, "{path} is not forwarded");
    }
    let request = Request::get("/v1/models/llama3").header("x-cairn-remote", "1").body(Body::empty()).unwrap();
    let reply = daemon.reply(request).await;
    assert!(reply.starts_with("404"), "{reply}");
}

#[tokio::test]
async fn requests_with_the_api_of_the_remote_pass_through() {
    let daemon = Daemon::start();
    let lines = ollama_answer(&["So", "."]);
    let server = FakeUpstream::start(Api::Ollama, &["llama3:latest"], lines.clone()).unwrap();
    daemon.add_remote("nas", &server.url()).await;
    let reply = daemon.post("/api/chat", &chat("llama3")).await;
    assert_eq!(reply, format!("200 application/x-ndjson\n{}", sent(&lines)), "the bytes of the server");
    assert_eq!(
        server.seen()[0].body,
        json!({"model": "llama3:latest", "messages": [{"role": "user", "content": "Why?"}]})
    );
    let image = json!({"model": "llama3", "messages": [{"role": "user", "content": "What?", "images": ["aGk="]}]});
    let reply = daemon.post("/api/chat", &image.to_string()).await;
    assert!(reply.starts_with("200") && server.seen()[1].body["messages"][0]["images"][0] == "aGk=", "{reply}");
    let events = openai_answer(&["So", "."]);
    server.set_steps(events.clone());
    let request = json!({"model": "llama3", "stream": true, "messages": [{"role": "user", "content": "Why?"}],
        "stream_options": {"include_usage": true}});
    let reply = daemon.post("/v1/chat/completions", &request.to_string()).await;
    assert_eq!(reply, format!("200 text/event-stream\n{}", sent(&events)));
    server.set_steps(vec![Step::Send(
        r#"{"choices":[{"message":{"content":"So."},"finish_reason":"stop"}],"x":1.50}"#.to_owned(),
    )]);
    let reply = daemon.post("/v1/chat/completions", &chat("llama3")).await;
    assert!(reply.starts_with("200 application/json") && reply.ends_with(r#""x":1.50}"#), "{reply}");
    let log = daemon.authorized("GET", "/app/server", "").await;
    assert!(log.contains(r#""prompt_tokens":20"#) && log.contains(r#""cached_tokens":12"#), "usage is counted: {log}");
}

#[tokio::test]
async fn embeddings_and_rerank_of_remotes_pass_through() {
    let daemon = Daemon::start();
    let ollama = FakeUpstream::start(Api::Ollama, &["nomic:latest"], Vec::new()).unwrap();
    let vllm = FakeUpstream::start(Api::OpenAi, &["bge"], Vec::new()).unwrap();
    daemon.add_remote("nas", &ollama.url()).await;
    daemon.add_remote("gpu", &vllm.url()).await;
    let check = async |server: &FakeUpstream, path: &str, request: Value, model: &str, response: &str| {
        server.set_steps(vec![Step::Send(response.to_owned())]);
        let reply = daemon.post(path, &request.to_string()).await;
        assert_eq!(
            reply,
            format!("200 application/json; charset=utf-8\n{response}"),
            "the bytes of the server: {path}"
        );
        let (seen, mut expected) = (server.seen().pop().expect("a request"), request);
        expected["model"] = json!(model);
        assert_eq!((seen.head.target.as_str(), seen.body), (path, expected));
    };
    let vectors = r#"{"model":"nomic","embeddings":[[0.10,-2e-3]],"prompt_eval_count":7}"#;
    let input = json!({"model": "nomic", "input": ["a", "b"], "dimensions": 2, "x": 1});
    check(&ollama, "/api/embed", input, "nomic:latest", vectors).await;
    let log = daemon.authorized("GET", "/app/server", "").await;
    assert!(log.contains(r#""prompt_tokens":7"#) && log.contains(r#""model":"nomic""#), "usage is counted: {log}");
    let prompt = json!({"model": "nomic", "prompt": "a"});
    check(&ollama, "/api/embeddings", prompt, "nomic:latest", r#"{"embedding":[0.10]}"#).await;
    let list = r#"{"object":"list","data":[],"usage":{"prompt_tokens":8,"total_tokens":8}}"#;
    let input = json!({"model": "BGE", "input": [[1, 2]], "encoding_format": "base64"});
    check(&vllm, "/v1/embeddings", input, "bge", list).await;
    let ranked = r#"{"results":[{"index":0,"relevance_score":0.50}],"usage":{"total_tokens":9}}"#;
    check(&vllm, "/v1/rerank", json!({"model": "bge", "query": "a", "documents": ["b"]}), "bge", ranked).await;
    let metrics = daemon.authorized("GET", "/metrics", "").await;
    assert!(metrics.contains("cairn_remote_prompt_tokens_total{remote=\"gpu\"} 17"), "{metrics}");
}

#[tokio::test]
async fn endpoint_that_no_remote_serves_is_unsupported() {
    let daemon = Daemon::start();
    let ollama = FakeUpstream::start(Api::Ollama, &["nomic", "both"], Vec::new()).unwrap();
    let vllm = FakeUpstream::start(Api::OpenAi, &["bge", "both"], Vec::new()).unwrap();
    daemon.add_remote("nas", &ollama.url()).await;
    daemon.add_remote("gpu", &vllm.url()).await;
    let check = async |path: &str, model: &str, expected: &str| {
        let request = json!({"model": model, "input": "a", "prompt": "a", "query": "a", "documents": ["b"]});
        let reply = daemon.post(path, &request.to_string()).await;
        assert!(reply.starts_with("501") && reply.contains(r#""code":"unsupported""#), "{path}: {reply}");
        assert!(reply.contains(expected), "{path}: {reply}");
    };
    check("/api/embed", "bge", "the server has no /api/embed; send the request to /v1/embeddings").await;
    check("/api/embeddings", "bge", "the server has no /api/embeddings").await;
    check("/v1/rerank", "nomic", "the server has no /v1/rerank").await;
    assert!(ollama.seen().is_empty() && vllm.seen().is_empty(), "refused requests are not sent");
    for status in [404, 405, 501] {
        vllm.set_steps(vec![Step::Status(status, r#"{"detail":"Not Found"}"#.to_owned())]);
        check("/v1/embeddings", "bge", &format!("does not serve /v1/embeddings for this model (status {status}: Not"))
            .await;
    }
    assert!(!daemon.authorized("GET", "/app/remotes", "").await.contains("paused"), "the circuit is closed");
    ollama.set_steps(vec![Step::Status(404, r#"{"error":"model not found"}"#.to_owned())]);
    let absent = daemon.post("/api/embed", r#"{"model":"nomic","input":"a"}"#).await;
    assert!(absent.starts_with("404") && absent.contains("remote_refused"), "{absent}");
    ollama.set_steps(vec![Step::Send(r#"{"embeddings":[[1.0]]}"#.to_owned())]);
    let both = daemon.post("/api/embed", r#"{"model":"both","input":"a"}"#).await;
    assert!(both.starts_with("200"), "the server that has the endpoint: {both}");
}

#[tokio::test]
async fn requests_with_another_api_are_translated() {
    let daemon = Daemon::start();
    let server = FakeUpstream::start(Api::OpenAi, &["Org/M"], openai_answer(&["So", "."])).unwrap();
    daemon.add_remote("gpu", &server.url()).await;
    let reply = daemon.post("/api/chat", &chat("org/m")).await;
    let lines: Vec<Value> = body(&reply).lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines[0]["message"]["content"], "So", "{reply}");
    let last = lines.last().unwrap();
    assert_eq!((&last["done"], &last["prompt_eval_count"], &last["eval_count"]), (&json!(true), &json!(20), &json!(2)));
    assert_eq!((&server.seen()[0].body["model"], &last["model"]), (&json!("Org/M"), &json!("org/m")), "both spellings");
    let request = r#"{"model":"Org/M","prompt":"Why?","system":"Be short.","stream":false}"#;
    let reply = daemon.post("/api/generate", request).await;
    assert!(reply.contains(r#""response":"So.""#) && reply.contains(r#""done_reason":"stop""#), "{reply}");
    let request = r#"{"model":"Org/M","max_tokens":9,"messages":[{"role":"user","content":"Why?"}]}"#;
    let reply = daemon.post("/v1/messages", request).await;
    assert!(
        reply.starts_with("200") && reply.contains(r#""text":"So.""#) && reply.contains(r#""output_tokens":2"#),
        "{reply}"
    );
    for (path, request) in [
        ("/api/generate", json!({"model": "Org/M", "prompt": "x", "raw": true})),
        ("/api/generate", json!({"model": "Org/M", "prompt": "x", "suffix": "y"})),
        ("/api/chat", json!({"model": "Org/M", "messages": [{"role": "user", "content": "x", "images": ["aGk="]}]})),
        ("/api/chat", json!({"model": "Org/M", "messages": [{"role": "user", "content": "x"}], "logprobs": true})),
    ] {
        let reply = daemon.post(path, &request.to_string()).await;
        assert!(reply.starts_with("501") && reply.contains(r#""code":"unsupported""#), "{request}: {reply}");
    }
    let format = json!({"type": "json_schema", "schema": []});
    let messages = json!([{"role": "user", "content": "x"}]);
    let request = json!({"model": "Org/M", "max_tokens": 9, "messages": messages, "output_config": {"format": format}});
    let reply = daemon.post("/v1/messages", &request.to_string()).await;
    assert!(reply.starts_with("400") && reply.contains("must be an object or a boolean"), "{reply}");
    assert_eq!(server.seen().len(), 3, "refused requests are not sent");
    let loaded = daemon.post("/api/generate", r#"{"model":"Org/M"}"#).await;
    assert!(loaded.contains(r#""done_reason":"load""#), "{loaded}");
}

#[tokio::test]
async fn responses_of_remotes_are_translated() {
    let daemon = Daemon::start();
    let call = json!({"function": {"name": "weather", "arguments": {"city": "Oslo"}}});
    let line = json!({"message": {"role": "assistant", "content": "", "tool_calls": [call, call]}, "done": false});
    let lines = [vec![Step::Send(format!("{line}\n"))], ollama_answer(&["So", "."])].concat();
    let server = FakeUpstream::start(Api::Ollama, &["llama3:latest"], lines).unwrap();
    daemon.add_remote("nas", &server.url()).await;
    let respond = async |more: Value| {
        let tools = json!([{"type": "function", "name": "weather"}]);
        let mut request = json!({"model": "llama3", "input": "Why?", "tools": tools});
        request.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        daemon.post("/v1/responses", &request.to_string()).await
    };
    let types = |reply: &str| -> Vec<Value> {
        let response: Value = serde_json::from_str(body(reply)).unwrap_or_else(|_| panic!("{reply}"));
        response["output"].as_array().unwrap().iter().map(|item| item["type"].clone()).collect()
    };
    assert_eq!(types(&respond(json!({})).await), ["function_call", "function_call", "message"], "the whole answer");
    let single = respond(json!({"parallel_tool_calls": false})).await;
    assert_eq!(types(&single), ["function_call"], "the answer ends after its first call");
    assert_eq!(server.seen()[1].body["tools"][0]["function"]["name"], "weather", "the format of the server");
    let refused = respond(json!({"tool_choice": "required"})).await;
    assert!(refused.starts_with("501") && refused.contains("requiring a tool call"), "{refused}");
}

#[tokio::test]
async fn stored_chats_use_models_of_remotes() {
    let daemon = Daemon::start();
    let server = FakeUpstream::start(Api::OpenAi, &["Org/M"], openai_answer(&["So", "."])).unwrap();
    daemon.add_remote("gpu", &server.url()).await;
    let created = daemon.authorized("POST", "/app/chats", r#"{"model":"Org/M"}"#).await;
    let created: Value = serde_json::from_str(body(&created)).unwrap();
    let id = created["id"].as_str().or(created["chat"]["id"].as_str()).expect("an id").to_owned();
    let reply = daemon.authorized("POST", &format!("/app/chats/{id}/messages"), r#"{"content":"Why?"}"#).await;
    assert!(reply.contains(r#""content":"So.""#) && reply.contains(r#""prompt_tokens":20"#), "{reply}");
}

#[tokio::test]
async fn headers_are_sent_before_the_first_token() {
    let daemon = Daemon::start();
    let server = FakeUpstream::start(Api::Ollama, &["llama3"], vec![Step::Hold]).unwrap();
    daemon.add_remote("nas", &server.url()).await;
    for (path, kind) in [("/api/chat", "application/x-ndjson"), ("/v1/messages", "text/event-stream")] {
        let mut request: Value = serde_json::from_str(&chat("llama3")).unwrap();
        (request["stream"], request["max_tokens"]) = (json!(true), json!(9));
        let request = Request::post(path).body(Body::from(request.to_string())).unwrap();
        let response = tokio::time::timeout(Duration::from_secs(5), daemon.send(request)).await.expect("headers");
        assert_eq!(response.headers()[header::CONTENT_TYPE], kind, "{path}");
    }
    // The responses are dropped, as if their clients had disconnected.
    assert!(
        tokio::task::spawn_blocking(move || server.wait_for_closed(2)).await.unwrap(),
        "the server stops computing"
    );
}

#[tokio::test]
async fn failure_names_the_remote_and_never_its_address() {
    let daemon = Daemon::start();
    let server = FakeUpstream::start(Api::Ollama, &["llama3"], Vec::new()).unwrap();
    let address = server.url().replace("http://", "");
    daemon.add_remote("nas", &server.url()).await;
    let check = async |steps: Vec<Step>, stream: bool, status: &str, code: &str| {
        server.set_steps(steps);
        let mut request: Value = serde_json::from_str(&chat("llama3")).unwrap();
        request["stream"] = json!(stream);
        let reply = daemon.post_from(OTHER_MACHINE, "/api/chat", &request.to_string()).await;
        assert!(reply.starts_with(status) && reply.contains(code) && reply.contains("nas"), "{reply}");
        assert!(!reply.contains(&address) && !reply.contains("127.0.0.1"), "{reply}");
    };
    let text = json!({"error": format!("model not found at {address}")}).to_string();
    for stream in [true, false] {
        check(vec![Step::Status(400, text.clone())], stream, "400", "remote_refused").await;
        check(vec![Step::Status(404, text.clone())], stream, "404", "remote_refused").await;
    }
    check(vec![Step::Break], false, "502", "remote_unavailable").await;
    check(vec![Step::Break], true, "200", "remote_unavailable").await;
    drop(server);
    let reply = daemon.post_from(OTHER_MACHINE, "/api/chat", &chat("llama3")).await;
    assert!(reply.starts_with("50") && reply.contains("remote_unavailable") && !reply.contains(&address), "{reply}");
}

#[tokio::test]
async fn failure_after_the_first_token_is_the_last_part_of_the_stream() {
    let daemon = Daemon::start();
    let first = ollama_answer(&["So"]).remove(0);
    let server = FakeUpstream::start(Api::Ollama, &["llama3"], vec![first.clone(), Step::Break]).unwrap();
    daemon.add_remote("nas", &server.url()).await;
    let reply = daemon.post("/api/chat", &chat("llama3")).await;
    let (answer, last) = body(&reply).trim_end().rsplit_once('\n').unwrap();
    assert_eq!(format!("{answer}\n"), sent(&[first]));
    assert!(last.contains(r#""code":"remote_interrupted""#) && last.contains(r#""remote":"nas""#), "{last}");
}

#[tokio::test]
async fn only_this_machine_manages_remotes() {
    let daemon = Daemon::start();
    let server = FakeUpstream::start(Api::Ollama, &["llama3"], ollama_answer(&["So"])).unwrap();
    daemon.add_remote("nas", &server.url()).await;
    for path in ["/app/remotes", "/app/remotes/remove", "/app/remotes/check"] {
        let reply = daemon.post_from(OTHER_MACHINE, path, r#"{"name":"nas","url":"http://x"}"#).await;
        assert!(reply.starts_with("401"), "{path}: {reply}");
    }
    let reply = daemon.post_from(OTHER_MACHINE, "/api/chat", &chat("llama3")).await;
    assert!(reply.starts_with("200"), "its models are for all clients: {reply}");
}

#[tokio::test]
async fn remotes_are_added_checked_and_removed() {
    let daemon = Daemon::start();
    let server = FakeUpstream::start(Api::Ollama, &["llama3"], ollama_answer(&["So"])).unwrap();
    let check = async |request: Value, status: &str, code: &str| {
        let reply = daemon.authorized("POST", "/app/remotes", &request.to_string()).await;
        assert!(
            reply.starts_with(status) && reply.contains(code) && !reply.contains("sk-secret"),
            "{request}: {reply}"
        );
    };
    check(json!({"name": "a b", "url": server.url()}), "400", "remote_name_invalid").await;
    check(json!({"name": "..", "url": server.url()}), "400", "remote_name_invalid").await;
    check(json!({"name": "a", "url": "ftp://x"}), "400", "remote_url_invalid").await;
    check(json!({"name": "a", "url": "http://192.168.9.9:1", "key": "sk-secret"}), "400", "remote_key_plain").await;
    check(json!({"name": "a", "url": server.url(), "key": "sk secret"}), "400", "remote_key_invalid").await;
    check(json!({"name": "a", "url": "http://127.0.0.1:9"}), "502", "remote_not_a_server").await;
    check(json!({"name": "a", "url": "http://127.0.0.1:9"}), "502", r#""failure":"remote_unreachable""#).await;
    check(json!({"name": "a", "url": server.url(), "key": "sk-secret"}), "200", "\"up\"").await;
    check(json!({"name": "a", "url": server.url()}), "409", "remote_name_taken").await;
    server.set_list_status(500);
    let checked = daemon.authorized("POST", "/app/remotes/check", "{}").await;
    assert!(checked.contains(r#""state":"down""#) && checked.contains("status 500"), "{checked}");
    assert!(checked.contains(r#""code":"remote_status","params":{"reason":"not now","status":"500"}"#), "{checked}");
    assert!(!daemon.get("/api/tags").await.contains("llama3"), "a model that cannot be used is not listed");
    server.set_list_status(200);
    let checked = daemon.authorized("POST", "/app/remotes/check", r#"{"name":"a"}"#).await;
    assert!(checked.contains(r#""state":"up""#), "{checked}");
    let missing = daemon.authorized("POST", "/app/remotes/check", r#"{"name":"b"}"#).await;
    assert!(missing.starts_with("404") && missing.contains("remote_not_found"), "{missing}");
    let removed = daemon.authorized("POST", "/app/remotes/remove", r#"{"name":"a"}"#).await;
    assert!(removed.ends_with(r#"{"remotes":[]}"#), "{removed}");
    let gone = daemon.post("/api/chat", &chat("llama3")).await;
    assert!(gone.starts_with("404") && gone.contains("model_not_found"), "{gone}");
}

// The paused clock does not advance while blocking work runs. Otherwise it advances to the next timer when nothing else
// can run, so that the order of timers does not depend on the speed of the machine.
#[tokio::test(start_paused = true)]
async fn remote_that_never_responds_delays_the_first_list_only_a_short_time() {
    let server = FakeUpstream::start(Api::Ollama, &["llama3"], ollama_answer(&["So"])).unwrap();
    // Its connections are opened, and never accepted.
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let silent_url = format!("http://{}", silent.local_addr().unwrap());
    let remote = |url: String| json!({"url": url, "kind": "ollama"});
    let stored = json!({"version": 1, "remotes": {"a": remote(silent_url), "b": remote(server.url())}});
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("remotes.json"), stored.to_string()).unwrap();
    let (release, released) = std::sync::mpsc::channel::<()>();
    let stopped_clock = tokio::task::spawn_blocking(move || released.recv());
    let daemon = Daemon::start_in(folder, None, &[]);
    let end = Instant::now() + Duration::from_secs(60);
    loop {
        let remotes = daemon.authorized("GET", "/app/remotes", "").await;
        if remotes.contains(r#""state":"up""#) {
            break;
        }
        assert!(Instant::now() < end, "the other remote is checked: {remotes}");
        tokio::task::spawn_blocking(|| std::thread::sleep(Duration::from_millis(5))).await.unwrap();
    }
    drop(release);
    assert!(stopped_clock.await.unwrap().is_err(), "nothing was sent");
    let listed = daemon.get("/api/tags").await;
    let remotes = daemon.authorized("GET", "/app/remotes", "").await;
    assert!(remotes.contains(r#""state":"unknown""#), "the check of the silent remote takes 5 s: {remotes}");
    assert!(listed.contains(r#""remotes":["b"]"#), "the list has what is there: {listed}");
    // The paused clock would skip the time that the answer takes.
    tokio::time::resume();
    let reply = daemon.post("/api/chat", &chat("llama3")).await;
    assert!(reply.starts_with("200"), "{reply}");
}

#[tokio::test]
async fn removed_remote_is_gone_although_the_client_disconnects() {
    let daemon = Daemon::start();
    let server = FakeUpstream::start(Api::Ollama, &["llama3"], ollama_answer(&["So"])).unwrap();
    daemon.add_remote("nas", &server.url()).await;
    let remotes = daemon.server.app().remotes();
    {
        let removal = std::pin::pin!(remotes.remove("nas"));
        tokio::select! {
            biased;
            _ = removal => {}
            // The removal is dropped after its first poll, as after a disconnection.
            () = std::future::ready(()) => {}
        }
    }
    let end = Instant::now() + Duration::from_secs(10);
    loop {
        let reply = daemon.post("/api/chat", &chat("llama3")).await;
        if reply.starts_with("404") {
            break;
        }
        assert!(Instant::now() < end, "the removed remote answers: {reply}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test]
async fn added_remote_leaves_the_affinity_of_others() {
    let daemon = Daemon::start();
    let servers: Vec<_> =
        (0..3).map(|_| FakeUpstream::start(Api::Ollama, &["llama3"], ollama_answer(&["So"])).unwrap()).collect();
    daemon.add_remote("b", &servers[0].url()).await;
    let long = json!({"model": "llama3", "messages": [{"role": "user", "content": "word ".repeat(2000)}]}).to_string();
    daemon.post("/api/chat", &long).await;
    daemon.add_remote("a", &servers[1].url()).await;
    daemon.post("/api/chat", &long).await;
    daemon.add_remote("c", &servers[2].url()).await;
    daemon.post("/api/chat", &long).await;
    let counts: Vec<_> = servers.iter().map(|server| server.seen().len()).collect();
    assert_eq!(counts, [3, 0, 0], "the conversation stays at its server");
}

#[tokio::test]
async fn affinity_is_the_same_for_all_spellings_of_a_model() {
    let daemon = Daemon::start();
    let servers: Vec<_> =
        (0..2).map(|_| FakeUpstream::start(Api::Ollama, &["llama3"], ollama_answer(&["So"])).unwrap()).collect();
    daemon.add_remote("a", &servers[0].url()).await;
    daemon.add_remote("b", &servers[1].url()).await;
    let content = "word ".repeat(2000);
    for name in ["llama3", "llama3:latest", "LLAMA3"] {
        let request = json!({"model": name, "messages": [{"role": "user", "content": content}]}).to_string();
        daemon.post("/api/chat", &request).await;
        let request = json!({"model": name, "max_tokens": 9, "messages": [{"role": "user", "content": content}]});
        daemon.post("/v1/messages", &request.to_string()).await;
    }
    let metrics = daemon.authorized("GET", "/metrics", "").await;
    let count = |name: &str| -> u64 {
        let lines = metrics.lines().filter(|line| line.starts_with(&format!("cairn_remote_prefix_{name}_total{{")));
        lines.map(|line| line.rsplit(' ').next().unwrap().parse::<u64>().expect("a count")).sum()
    };
    assert_eq!(count("hit_blocks") * 3, count("blocks") * 2, "all but the first spelling hit: {metrics}");
}

#[tokio::test]
async fn metrics_count_requests_and_tokens_of_remotes() {
    let daemon = Daemon::start();
    let server = FakeUpstream::start(Api::Ollama, &["llama3"], ollama_answer(&["So", "."])).unwrap();
    daemon.add_remote("nas", &server.url()).await;
    daemon.post("/api/chat", &chat("llama3")).await;
    let metrics = daemon.authorized("GET", "/metrics", "").await;
    for line in [
        "cairn_remote_requests_total{remote=\"nas\"} 1",
        "cairn_remote_prompt_tokens_total{remote=\"nas\"} 20",
        "cairn_remote_cached_tokens_total{remote=\"nas\"} 12",
        "cairn_remote_answer_tokens_total{remote=\"nas\"} 2",
        "cairn_remote_up{remote=\"nas\"} 1",
    ] {
        assert!(metrics.contains(line), "{line}: {metrics}");
    }
}
