//! Tests of the raw responses, with a small random model. The model runs on the scalar kernels, so its output is the
//! same on every machine.

mod access;
mod access_matrix;
mod anthropic;
mod blobs;
mod bodies;
mod chats;
mod collections;
mod damaged_chats;
mod discover;
mod documents;
mod embeddings;
mod formats;
mod hardware;
mod keys;
mod libraries;
mod logins;
mod logprobs;
mod metrics;
mod mirror;
mod models;
mod ollama_layouts;
mod openai;
mod operations;
mod overflow;
mod panics;
mod pictures;
mod pulls;
mod pushes;
mod registry;
mod rejections;
mod remote_clients;
mod remotes;
mod responses;
mod server;
mod settings;
mod speeds;
mod tool_choice;
mod tool_servers;
mod tools;
mod ui;

use std::net::SocketAddr;
use std::time::{Duration, Instant, SystemTime};

use axum::body::Body;
use axum::extract::ConnectInfo;
use axum::http::{HeaderValue, Request, Response, StatusCode, header};
use cairn_app::documents::Extractor;
use cairn_app::secret::SecretDigest;
use cairn_app::settings::{Env, Places, Settings, System};
use cairn_app::{App, Clock, Describe};
use cairn_hardware::Machine;
use tower::ServiceExt;

use super::*;

const TOKEN: &str = "secret";
const PORT: u16 = 11434;

/// Daemon without a socket.
struct Daemon {
    folder: tempfile::TempDir,
    router: Router,
    server: Server,
}

impl Daemon {
    fn start() -> Self {
        Self::with(&[])
    }

    /// Starts a daemon with additional settings.
    fn with(settings: &[(&str, &str)]) -> Self {
        Self::start_on(None, settings)
    }

    /// Starts a daemon on a machine of this name.
    fn named(machine: &str, settings: &[(&str, &str)]) -> Self {
        Self::start_on(Some(machine.to_owned()), settings)
    }

    fn start_on(machine: Option<String>, settings: &[(&str, &str)]) -> Self {
        Self::start_in(tempfile::tempdir().unwrap(), machine, settings)
    }

    /// Starts a daemon with this folder as its home.
    fn start_in(folder: tempfile::TempDir, machine: Option<String>, settings: &[(&str, &str)]) -> Self {
        let home = folder.path().to_str().unwrap();
        let defaults =
            [("CAIRN_HOME", home), ("CAIRN_KERNEL", "scalar"), ("CAIRN_HIDE_PEBBLE", "1"), ("OLLAMA_KV_TIERING", "0")];
        let env = Env::of(defaults.into_iter().chain(settings.iter().copied()));
        let settings = Settings::load(&env, &Places::of(&env, System::Xdg).unwrap());
        let clock = Clock::fixed(SystemTime::UNIX_EPOCH + Duration::from_nanos(1_767_323_045_678_901_000));
        let app = App::start(
            settings,
            Machine::probe(),
            clock,
            1,
            Describe { chats: chat_error, collections: collection_error },
            Extractor::of_cairn("/nonexistent/cairn".into()),
        )
        .unwrap();
        let address: SocketAddr = ([127, 0, 0, 1], PORT).into();
        let server =
            Server::new(app, Activity::new(Instant::now()), vec![address], SecretDigest::of(TOKEN), 7, machine);
        let daemon = Self { folder, router: router(server.clone()), server };
        daemon.store("m", &[("model", &cairn_testkit::write(&cairn_testkit::tiny_llama()))]);
        daemon
    }

    /// Adds a model to the library.
    fn store(&self, name: &str, layers: &[(&str, &[u8])]) {
        let root = self.folder.path().join("models");
        std::fs::create_dir_all(root.join("blobs")).unwrap();
        let layers: Vec<String> = layers
            .iter()
            .map(|(kind, contents)| {
                let digest = cairn_store::Digest::of(contents);
                std::fs::write(root.join("blobs").join(digest.file_name()), contents).unwrap();
                let size = contents.len();
                format!(r#"{{"mediaType":"application/vnd.ollama.image.{kind}","digest":"{digest}","size":{size}}}"#)
            })
            .collect();
        let manifest = root.join("manifests/registry.ollama.ai/library").join(name).join("latest");
        std::fs::create_dir_all(manifest.parent().unwrap()).unwrap();
        std::fs::write(manifest, format!(r#"{{"layers":[{}]}}"#, layers.join(","))).unwrap();
    }

    async fn send(&self, mut request: Request<Body>) -> Response<Body> {
        let peer: SocketAddr = ([127, 0, 0, 1], 50_000).into();
        request.extensions_mut().insert(ConnectInfo(peer));
        let own = HeaderValue::from_static("127.0.0.1:11434");
        request.headers_mut().entry(header::HOST).or_insert(own);
        self.router.clone().oneshot(request).await.unwrap()
    }

    /// Sends a request without a body from an address and returns the status.
    async fn status_from(&self, peer: [u8; 4], request: axum::http::request::Builder) -> StatusCode {
        let mut request = request.body(Body::empty()).unwrap();
        request.extensions_mut().insert(ConnectInfo(SocketAddr::from((peer, 50_000))));
        self.router.clone().oneshot(request).await.unwrap().status()
    }

    /// Sends a request and returns the status and content type in one line, followed by the body.
    async fn reply(&self, request: Request<Body>) -> String {
        let response = self.send(request).await;
        let kind = response.headers().get(header::CONTENT_TYPE).map_or("-", |kind| kind.to_str().unwrap()).to_owned();
        let status = response.status().as_u16();
        let bytes = axum::body::to_bytes(response.into_body(), 1 << 24).await.unwrap();
        format!("{status} {kind}\n{}", String::from_utf8(bytes.to_vec()).unwrap())
    }

    async fn get(&self, path: &str) -> String {
        self.reply(Request::get(path).body(Body::empty()).unwrap()).await
    }

    async fn post(&self, path: &str, json: &str) -> String {
        self.reply(Request::post(path).body(Body::from(json.to_owned())).unwrap()).await
    }

    /// Sends a request with the daemon's token.
    async fn authorized(&self, method: &str, path: &str, json: &str) -> String {
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header(header::HOST, format!("127.0.0.1:{PORT}"))
            .header(header::AUTHORIZATION, format!("Bearer {TOKEN}"));
        self.reply(request.body(Body::from(json.to_owned())).unwrap()).await
    }
}

/// Compares a reply with a snapshot in which durations, times, paths and digests are replaced by placeholders.
macro_rules! check {
    ($reply:expr, @$expected:literal) => {{
        let reply = $reply;
        insta::with_settings!({filters => [
            (r#"_duration":\d+"#, r#"_duration":NS"#),
            (r#""modified_at":"[^"]+""#, r#""modified_at":"TIME""#),
            (r#""expires_at":"[^"]+""#, r#""expires_at":"TIME""#),
            (r#"[0-9a-f]{64}"#, "DIGEST"),
            (r#"FROM /[^\\]+"#, "FROM PATH"),
        ]}, { insta::assert_snapshot!(reply, @$expected) })
    }};
}
// Makes the macro importable by path in the submodules.
use check;

#[tokio::test]
async fn server_answers_version_and_rejects_unknown_paths() {
    let daemon = Daemon::start();
    check!(daemon.get("/").await, @r##"
    200 text/plain; charset=utf-8
    Ollama is running
    "##);
    check!(daemon.reply(Request::head("/").body(Body::empty()).unwrap()).await, @"200 text/plain; charset=utf-8");
    check!(daemon.get("/api/version").await, @r##"
    200 application/json; charset=utf-8
    {"version":"0.12.11","cairn":"0.1.0"}
    "##);
    let check = async |reply: String, status: &str, text: &str| {
        let head = format!("{status} application/json; charset=utf-8\n");
        assert!(reply.starts_with(&head) && reply.contains(text), "{reply}");
    };
    let missing = r#"404 page not found: this server has no path \"/nowhere\""#;
    check(daemon.get("/nowhere").await, "404", missing).await;
    let paths =
        "(models, chat/completions, completions, embeddings, rerank, responses, messages, messages/count_tokens)";
    check(daemon.get("/v1/nowhere").await, "404", paths).await;
    check(daemon.get("/api/chat").await, "405", "405 method not allowed").await;
    let head = daemon.reply(Request::head("/api/ps").body(Body::empty()).unwrap()).await;
    check(head, "405", "").await;
}

#[tokio::test]
async fn chat_streams_and_reuses_the_cached_prompt() {
    let daemon = Daemon::start();
    let request =
        r#"{"model":"m","messages":[{"role":"user","content":"hi"}],"options":{"temperature":0,"num_predict":3}}"#;
    check!(daemon.post("/api/chat", request).await, @r##"
    200 application/x-ndjson
    {"model":"m","created_at":"2026-01-02T03:04:05.678901Z","message":{"role":"assistant","content":"\u000b"},"done":false}
    {"model":"m","created_at":"2026-01-02T03:04:05.678901Z","message":{"role":"assistant","content":"\f"},"done":false}
    {"model":"m","created_at":"2026-01-02T03:04:05.678901Z","message":{"role":"assistant","content":"\r"},"done":false}
    {"model":"m","created_at":"2026-01-02T03:04:05.678901Z","message":{"role":"assistant","content":""},"done":true,"done_reason":"length","total_duration":NS,"load_duration":NS,"prompt_eval_count":18,"prompt_eval_duration":NS,"eval_count":3,"eval_duration":NS}
    "##);
    // The whole prompt except its last token is cached.
    check!(daemon.post("/api/chat", request).await, @r##"
    200 application/x-ndjson
    {"model":"m","created_at":"2026-01-02T03:04:05.678901Z","message":{"role":"assistant","content":"\u000b"},"done":false}
    {"model":"m","created_at":"2026-01-02T03:04:05.678901Z","message":{"role":"assistant","content":"\f"},"done":false}
    {"model":"m","created_at":"2026-01-02T03:04:05.678901Z","message":{"role":"assistant","content":"\r"},"done":false}
    {"model":"m","created_at":"2026-01-02T03:04:05.678901Z","message":{"role":"assistant","content":""},"done":true,"done_reason":"length","total_duration":NS,"prompt_eval_count":18,"prompt_eval_duration":NS,"eval_count":3,"eval_duration":NS,"cached_tokens":17}
    "##);
}

#[tokio::test]
async fn chat_without_stream_returns_one_object() {
    let daemon = Daemon::start();
    let request = r#"{"model":"M:latest","messages":[{"role":"user","content":"hi"}],"stream":false,
                      "options":{"temperature":0,"num_predict":3},"unknown":1}"#;
    check!(daemon.post("/api/chat", request).await, @r##"
    200 application/json; charset=utf-8
    {"model":"M:latest","created_at":"2026-01-02T03:04:05.678901Z","message":{"role":"assistant","content":"\u000b\f\r"},"done":true,"done_reason":"length","total_duration":NS,"load_duration":NS,"prompt_eval_count":18,"prompt_eval_duration":NS,"eval_count":3,"eval_duration":NS}
    "##);
}

#[tokio::test]
async fn generate_streams_and_continues_from_context() {
    let daemon = Daemon::start();
    let request = r#"{"model":"m","prompt":"hi","options":{"temperature":0,"num_predict":2}}"#;
    check!(daemon.post("/api/generate", request).await, @r##"
    200 application/x-ndjson
    {"model":"m","created_at":"2026-01-02T03:04:05.678901Z","response":"\u000b","done":false}
    {"model":"m","created_at":"2026-01-02T03:04:05.678901Z","response":"\f","done":false}
    {"model":"m","created_at":"2026-01-02T03:04:05.678901Z","response":"","done":true,"done_reason":"length","context":[509,510,117,115,273,10,104,105,511,10,510,308,115,289,116,264,116,10,11,12],"total_duration":NS,"load_duration":NS,"prompt_eval_count":18,"prompt_eval_duration":NS,"eval_count":2,"eval_duration":NS}
    "##);
    let request =
        r#"{"model":"m","prompt":"hi","raw":true,"stream":false,"options":{"temperature":0,"num_predict":2}}"#;
    check!(daemon.post("/api/generate", request).await, @r##"
    200 application/json; charset=utf-8
    {"model":"m","created_at":"2026-01-02T03:04:05.678901Z","response":"jk","done":true,"done_reason":"length","total_duration":NS,"prompt_eval_count":3,"prompt_eval_duration":NS,"eval_count":2,"eval_duration":NS,"cached_tokens":1}
    "##);
    let request =
        r#"{"model":"m","prompt":"hi","context":[1,2],"stream":false,"options":{"temperature":0,"num_predict":1}}"#;
    check!(daemon.post("/api/generate", request).await, @r##"
    200 application/json; charset=utf-8
    {"model":"m","created_at":"2026-01-02T03:04:05.678901Z","response":"\u000b","done":true,"done_reason":"length","context":[1,2,510,117,115,273,10,104,105,511,10,510,308,115,289,116,264,116,10,11],"total_duration":NS,"prompt_eval_count":19,"prompt_eval_duration":NS,"eval_count":1,"eval_duration":NS}
    "##);
}

#[tokio::test]
async fn empty_request_loads_or_unloads_the_model() {
    let daemon = Daemon::start();
    check!(daemon.post("/api/generate", r#"{"model":"m","prompt":""}"#).await, @r##"
    200 application/json; charset=utf-8
    {"model":"m","created_at":"2026-01-02T03:04:05.678901Z","response":"","done":true,"done_reason":"load"}
    "##);
    check!(daemon.get("/api/ps").await, @r##"
    200 application/json; charset=utf-8
    {"models":[{"name":"m:latest","model":"m:latest","size":5772288,"digest":"DIGEST","details":{"parent_model":"","format":"gguf","family":"llama","families":["llama"],"parameter_size":"1.44M","quantization_level":"F32","context_length":2048,"embedding_length":256},"expires_at":"TIME","size_vram":0,"context_length":2048}]}
    "##);
    check!(daemon.post("/api/chat", r#"{"model":"m","messages":[],"keep_alive":-1}"#).await, @r##"
    200 application/json; charset=utf-8
    {"model":"m","created_at":"2026-01-02T03:04:05.678901Z","message":{"role":"assistant","content":""},"done":true,"done_reason":"load"}
    "##);
    let never = daemon.get("/api/ps").await;
    assert!(never.contains(r#""expires_at":"2318-"#), "never is 292 years from now: {never}");
    check!(daemon.post("/api/chat", r#"{"model":"m","messages":null,"keep_alive":0}"#).await, @r##"
    200 application/json; charset=utf-8
    {"model":"m","created_at":"2026-01-02T03:04:05.678901Z","message":{"role":"assistant","content":""},"done":true,"done_reason":"unload"}
    "##);
    check!(daemon.post("/api/generate", r#"{"model":"m","keep_alive":"0"}"#).await, @r##"
    200 application/json; charset=utf-8
    {"model":"m","created_at":"2026-01-02T03:04:05.678901Z","response":"","done":true,"done_reason":"unload"}
    "##);
    check!(daemon.get("/api/ps").await, @r##"
    200 application/json; charset=utf-8
    {"models":[]}
    "##);
}

#[tokio::test]
async fn models_are_listed_and_shown() {
    let daemon = Daemon::start();
    check!(daemon.get("/api/tags").await, @r##"
    200 application/json; charset=utf-8
    {"models":[{"name":"m:latest","model":"m:latest","modified_at":"TIME","size":5785792,"digest":"DIGEST","details":{"parent_model":"","format":"","family":"","families":null,"parameter_size":"","quantization_level":""}}]}
    "##);
    daemon.store(
        "n",
        &[
            ("model", &cairn_testkit::write(&cairn_testkit::tiny_llama())),
            ("system", b"Be brief."),
            ("params", br#"{"stop":["<|x|>"],"temperature":0.5}"#),
            ("license", b"MIT"),
        ],
    );
    let shown = daemon.post("/api/show", r#"{"model":"n"}"#).await;
    let (head, tensors) = shown.split_once(r#","tensors":["#).unwrap();
    check!(head, @r##"
    200 application/json; charset=utf-8
    {"license":"MIT","modelfile":"# Modelfile generated by \"cairn show\"\n# To build a new Modelfile based on this, replace FROM with:\n# FROM n:latest\n\nFROM PATH\nSYSTEM Be brief.\nPARAMETER stop <|x|>\nPARAMETER temperature 0.5\nLICENSE MIT\n","parameters":"stop                           \"<|x|>\"\ntemperature                    0.5","template":"{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>' + '\\n' }}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}","template_reason":"Jinja: the file's own","system":"Be brief.","details":{"parent_model":"","format":"gguf","family":"llama","families":["llama"],"parameter_size":"1.44M","quantization_level":"F32","context_length":2048,"embedding_length":256},"model_info":{"general.architecture":"llama","general.type":"model","general.file_type":0,"general.quantization_version":2,"llama.block_count":2,"llama.context_length":2048,"llama.embedding_length":256,"llama.feed_forward_length":512,"llama.attention.head_count":4,"llama.attention.head_count_kv":2,"llama.attention.layer_norm_rms_epsilon":0.00001,"llama.attention.key_length":64,"llama.attention.value_length":64,"llama.rope.freq_base":10000.0,"llama.rope.dimension_count":64,"llama.vocab_size":512,"tokenizer.ggml.model":"gpt2","tokenizer.ggml.pre":"llama-bpe","tokenizer.ggml.tokens":null,"tokenizer.ggml.token_type":null,"tokenizer.ggml.merges":null,"tokenizer.ggml.bos_token_id":509,"tokenizer.ggml.eos_token_id":511,"tokenizer.ggml.padding_token_id":509,"tokenizer.ggml.add_bos_token":true,"general.parameter_count":1443072}
    "##);
    check!(tensors.split_once("},").unwrap().0, @r#"{"name":"token_embd.weight","type":"F32","shape":[256,512]"#);
    let verbose = daemon.post("/api/show", r#"{"name":"n","verbose":true}"#).await;
    assert!(verbose.contains(r#""tokenizer.ggml.tokens":["#), "verbose adds arrays");
}

#[tokio::test]
async fn system_message_of_the_model_is_a_default() {
    let daemon = Daemon::start();
    daemon.store("s", &[("model", &cairn_testkit::write(&cairn_testkit::tiny_llama())), ("system", b"Be brief.")]);
    let count = async |messages: &str| {
        let options = r#"{"num_predict":1}"#;
        let request = format!(r#"{{"model":"s","messages":{messages},"stream":false,"options":{options}}}"#);
        let reply = daemon.post("/api/chat", &request).await;
        let after = reply.split_once(r#""prompt_eval_count":"#).unwrap_or_else(|| panic!("{reply}")).1;
        after.split(',').next().unwrap().parse::<u32>().unwrap()
    };
    let default = count(r#"[{"role":"user","content":"hi"}]"#).await;
    let own = count(r#"[{"role":"System","content":"Be brief."},{"role":"user","content":"hi"}]"#).await;
    let other = count(r#"[{"role":"system","content":""},{"role":"user","content":"hi"}]"#).await;
    assert_eq!(default, own, "the model's system message is used if the request has none");
    assert!(other < own, "a system message of the request replaces it: {other} tokens, not {own}");
}

#[tokio::test]
async fn client_disconnect_cancels_the_answer() {
    let daemon = Daemon::start();
    let request = r#"{"model":"m","prompt":"hi","options":{"num_predict":100000,"num_ctx":2048}}"#;
    let request = Request::post("/api/generate").body(Body::from(request)).unwrap();
    let response = daemon.send(request).await;
    assert_eq!(response.status(), StatusCode::OK, "the response streams");
    assert_eq!(daemon.server.activity().in_progress(), 1, "the answer is in progress after the response's head");
    drop(response);
    for _ in 0..200 {
        if daemon.server.activity().in_progress() == 0 {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("the answer continues without its client");
}

#[tokio::test]
async fn own_clients_open_files_and_stop_the_daemon() {
    let daemon = Daemon::start();
    check!(daemon.authorized("GET", "/app/status", "").await, @r##"
    200 application/json; charset=utf-8
    {"version":"0.1.0","pid":7,"started_at":"2026-01-02T03:04:05.678901Z","addresses":["127.0.0.1:11434"],"active_requests":0,"loaded_models":0}
    "##);
    let path = daemon.folder.path().join("my.gguf");
    cairn_testkit::write_file(&cairn_testkit::tiny_qwen3(), &path).unwrap();
    let opened = daemon.authorized("POST", "/app/open", &format!("{{\"path\":{path:?}}}")).await;
    let name = opened.split('"').nth(3).unwrap().to_owned();
    assert!(name.starts_with("file/my:"), "{opened}");
    let request = format!(r#"{{"model":"{name}","prompt":"hi","stream":false,"options":{{"num_predict":1}}}}"#);
    let answer = daemon.post("/api/generate", &request).await;
    assert!(answer.contains(r#""done":true,"done_reason":"length""#), "{answer}");
    check!(daemon.authorized("POST", "/app/load", r#"{"model":"m","force":true}"#).await, @"204 -");
    check!(daemon.authorized("POST", "/app/open", r#"{"path":"my.gguf"}"#).await, @r##"
    400 application/json; charset=utf-8
    {"error":"path must be absolute","code":"invalid_request","params":{"reason":"path must be absolute"}}
    "##);
    check!(daemon.authorized("POST", "/app/stop", "").await, @"202 -");
    tokio::time::timeout(Duration::from_secs(1), daemon.server.stopping()).await.expect("a shutdown was requested");
}

/// Template that opens the thinking section unless `enable_thinking` is false.
const THINKING_TEMPLATE: &str = "{{ messages[-1].content }}{% if enable_thinking is not defined or enable_thinking %}\
                                 <think>{% endif %}{# until </think> #}";

#[tokio::test]
async fn thinking_is_separate_from_the_answer() {
    let daemon = Daemon::start();
    let mut file = cairn_testkit::write(&cairn_testkit::tiny_llama());
    let template = cairn_testkit::vocabulary::CHAT_TEMPLATE.as_bytes();
    let at = file.windows(template.len()).position(|window| window == template).unwrap();
    // Overwrites the file's template with one padded to the same length, so that no offset in the file changes.
    file[at..at + template.len()].copy_from_slice(format!("{THINKING_TEMPLATE:>0$}", template.len()).as_bytes());
    daemon.store("thinker", &[("model", &file)]);
    let answer = async |path: &str, think: &str, stream: bool| {
        let request = format!(
            r#"{{"model":"thinker","prompt":"hi","messages":[{{"role":"user","content":"hi"}}],"stream":{stream},
                "options":{{"temperature":0,"num_predict":3}}{think}}}"#
        );
        let reply = daemon.post(path, &request).await;
        assert!(reply.starts_with("200 "), "{reply}");
        let lines: Vec<serde_json::Value> =
            reply.lines().skip(1).map(|line| serde_json::from_str(line).unwrap()).collect();
        let all = |key: &str| -> String {
            let texts = lines.iter().filter_map(|line| line["message"].get(key).or_else(|| line.get(key))?.as_str());
            texts.collect()
        };
        (all("thinking"), all("content") + &all("response"))
    };
    for path in ["/api/chat", "/api/generate"] {
        for stream in [true, false] {
            let (thinking, text) = answer(path, "", stream).await;
            assert!(!thinking.is_empty() && text.is_empty(), "{path} {stream}: thinking {thinking:?}, text {text:?}");
            assert_eq!(answer(path, r#","think":"high""#, stream).await.0, thinking, "a level enables thinking");
            let (thinking, text) = answer(path, r#","think":false"#, stream).await;
            assert!(thinking.is_empty() && !text.is_empty(), "{path} {stream}: unexpected thinking {thinking:?}");
        }
    }
    let shown = daemon.post("/api/show", r#"{"model":"thinker"}"#).await;
    assert!(shown.contains(r#""capabilities":["completion","thinking"]"#), "the capability is shown: {shown}");
}
