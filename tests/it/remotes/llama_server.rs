//! llama-server of llama.cpp as a remote. `cargo xtask prove remotes` builds it and fails without it. Without the path in
//! `CAIRN_LLAMA_SERVER`, these tests do nothing.

use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use cairn_testkit::families::BERT;
use cairn_testkit::{CALLER_RESULT, ModelSpec, slow_llama, tiny_bert, tiny_llama, tool_caller};
use serde_json::{Value, json};

use super::{answer, chat};
use crate::cairn::{Home, exchange, kill, send, succeeded};

/// Environment variable with the path of the program.
const SERVER_VARIABLE: &str = "CAIRN_LLAMA_SERVER";
/// Name of the remote. No other text of a response contains it.
const REMOTE: &str = "gpu-7";
/// Timeout for a start, and for an effect of a lost connection.
const TIMEOUT: Duration = Duration::from_secs(30);

/// A running llama-server; killed when dropped.
struct LlamaServer {
    child: Child,
    port: u16,
}

impl LlamaServer {
    /// Starts a server of one model and waits until it is ready.
    fn start(server: &Path, model: &Path, port: u16, flags: &[&str]) -> Self {
        let name = model.file_stem().expect("a name of a file");
        let log = std::fs::File::create(model.with_extension("log")).expect("the folder is writable");
        let child = Command::new(server)
            .args(["--host", "127.0.0.1", "--threads", "1", "--parallel", "1", "--port", &port.to_string()])
            .arg("--model")
            .arg(model)
            .arg("--alias")
            .arg(name)
            .args(flags)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .expect("llama-server starts");
        let server = Self { child, port };
        wait("llama-server is ready", || server.get("/health").is_some_and(|(status, _)| status == 200));
        let (_, properties) = server.get("/props").expect("a response");
        assert_eq!(json(&properties)["model_path"], json!(model), "another server has the port: {properties}");
        server
    }

    fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    fn get(&self, path: &str) -> Option<(u16, String)> {
        exchange(self.port, "GET", path, &[], "")
    }

    /// Whether an answer is in progress.
    fn is_busy(&self) -> bool {
        let (status, slots) = self.get("/slots").expect("a response");
        assert_eq!(status, 200, "{slots}");
        slots.contains("\"is_processing\":true")
    }
}

impl Drop for LlamaServer {
    fn drop(&mut self) {
        // It may have ended; that is not an error.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Returns the program; `None` without the variable, which skips a test.
///
/// # Panics
/// If the variable names a file that does not exist.
fn llama_server() -> Option<PathBuf> {
    #[expect(clippy::disallowed_methods, reason = "the path is a setting of the test machine")]
    let configured = std::env::var_os(SERVER_VARIABLE).map(PathBuf::from);
    let Some(server) = configured else {
        eprintln!("SKIPPED: {SERVER_VARIABLE} is not set; `cargo xtask prove remotes` builds llama-server and sets it");
        return None;
    };
    assert!(server.exists(), "{SERVER_VARIABLE}: {} does not exist", server.display());
    Some(server)
}

/// A home, and a free port for the server.
fn home_and_port() -> (Home, u16) {
    (Home::new(), Home::new().port)
}

#[track_caller]
fn wait(what: &str, is_done: impl Fn() -> bool) {
    let deadline = Instant::now() + TIMEOUT;
    while !is_done() {
        assert!(Instant::now() < deadline, "{what}: not within {TIMEOUT:?}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

fn write(home: &Home, model: &ModelSpec, name: &str) -> PathBuf {
    let path = home.folder.path().join(format!("{name}.gguf"));
    cairn_testkit::write_file(model, &path).expect("the home is writable");
    path
}

/// Sends a POST and returns the status and the body.
fn post(port: u16, path: &str, body: &Value) -> (u16, String) {
    exchange(port, "POST", path, &[], &body.to_string()).expect("a response")
}

/// The data of the events of a streamed response of OpenAI's API, without the marker of the end.
fn events(body: &str) -> Vec<Value> {
    let data = body.lines().filter_map(|line| line.strip_prefix("data: ")).filter(|data| *data != "[DONE]");
    data.map(|data| serde_json::from_str(data).unwrap_or_else(|error| panic!("{error}: {data}"))).collect()
}

fn json(body: &str) -> Value {
    serde_json::from_str(body).unwrap_or_else(|error| panic!("{error}: {body}"))
}

#[test]
fn llama_server_answers_through_all_apis() {
    let Some(program) = llama_server() else { return };
    let (home, port) = home_and_port();
    let server = LlamaServer::start(&program, &write(&home, &tiny_llama(), "tiny"), port, &["--ctx-size", "1024"]);
    let _daemon = home.serve();
    let added = succeeded(&home.run(&["remote", "add", REMOTE, &server.url()]));
    assert!(added.contains("openai") && added.contains("tiny"), "{added}");
    let listed = succeeded(&home.run(&["list"]));
    assert!(listed.contains("tiny") && listed.contains(&format!("at {REMOTE}")), "{listed}");
    let shown = succeeded(&home.run(&["show", "tiny"]));
    assert!(shown.contains("1024"), "the context of the server: {shown}");

    let messages = [json!({"role": "user", "content": "hello"})];
    let mut openai = json!({"model": "tiny", "max_tokens": 8, "temperature": 0, "messages": messages});
    let (status, direct) = post(port, "/v1/chat/completions", &openai);
    let direct = json(&direct);
    let expected = direct["choices"][0]["message"]["content"].as_str().expect("a text").to_owned();
    assert_eq!((status, &direct["usage"]["completion_tokens"]), (200, &json!(8)), "{direct}");

    let (_, streamed) = post(home.port, "/api/chat", &chat("tiny", 8));
    assert_eq!(answer(&streamed), expected, "streamed lines");
    assert!(streamed.lines().count() > 3, "{streamed}");
    let last = json(streamed.lines().last().expect("a line"));
    let (tokens, reason) = (&last["eval_count"], &last["done_reason"]);
    assert_eq!((tokens, reason), (&json!(8), &json!("length")), "{last}");
    assert_eq!(last["prompt_eval_count"], direct["usage"]["prompt_tokens"], "{last}");
    let mut whole = chat("tiny", 8);
    whole["stream"] = json!(false);
    assert_eq!(answer(&post(home.port, "/api/chat", &whole).1), expected, "one object");

    let (_, body) = post(home.port, "/v1/chat/completions", &openai);
    let body = json(&body);
    assert_eq!(body["choices"][0]["message"]["content"], json!(expected), "passed through");
    assert_eq!(body["usage"]["completion_tokens"], 8, "{body}");
    let (_, message) = post(home.port, "/v1/messages", &openai);
    assert!(message.contains("\"output_tokens\":8") && json(&message)["content"][0]["text"] == expected, "{message}");
    openai["stream"] = json!(true);
    let (_, body) = post(home.port, "/v1/chat/completions", &openai);
    let deltas = events(&body);
    let text: String = deltas.iter().filter_map(|event| event["choices"][0]["delta"]["content"].as_str()).collect();
    assert_eq!(text, expected, "streamed events");
    assert!(body.contains("data: [DONE]") && !body.contains("\"usage\""), "as requested: {body}");

    let schema = json!({"type": "object", "properties": {"a": {"type": "boolean"}}, "required": ["a"]});
    let mut structured = chat("tiny", 200);
    structured["format"] = schema;
    let text = answer(&post(home.port, "/api/chat", &structured).1);
    assert!(json(&text)["a"].is_boolean(), "an answer with the format: {text}");
}

#[test]
fn llama_server_errors_reach_the_client() {
    let Some(program) = llama_server() else { return };
    let (home, port) = home_and_port();
    let server = LlamaServer::start(&program, &write(&home, &tiny_llama(), "tiny"), port, &["--ctx-size", "1024"]);
    let _daemon = home.serve();
    succeeded(&home.run(&["remote", "add", REMOTE, &server.url()]));
    let mut long = chat("tiny", 1);
    long["messages"][0]["content"] = json!("hello ".repeat(2000));
    let too_long = "exceeds the available context size (1024 tokens)";
    for path in ["/v1/chat/completions", "/api/chat"] {
        let (status, body) = post(home.port, path, &long);
        assert_eq!(status, 400, "{path}: {body}");
        assert!(body.contains(too_long) && body.contains("remote_refused") && body.contains(REMOTE), "{path}: {body}");
    }
    for (path, body) in [
        ("/v1/embeddings", json!({"model": "tiny", "input": "hello"})),
        ("/v1/rerank", json!({"model": "tiny", "query": "hello", "documents": ["world"]})),
    ] {
        let (status, body) = post(home.port, path, &body);
        assert_eq!(status, 501, "{path}: {body}");
        assert!(body.contains(&format!("does not serve {path} for this model")), "{path}: {body}");
    }
    let (status, body) = post(home.port, "/api/embed", &json!({"model": "tiny", "input": "hello"}));
    assert!(status == 501 && body.contains("send the request to /v1/embeddings"), "{status}: {body}");
}

#[test]
fn llama_server_calls_tools() {
    let Some(program) = llama_server() else { return };
    let (home, port) = home_and_port();
    let model = home.folder.path().join("caller.gguf");
    std::fs::write(&model, tool_caller()).expect("the home is writable");
    let server = LlamaServer::start(&program, &model, port, &["--ctx-size", "2048", "--jinja"]);
    let _daemon = home.serve();
    succeeded(&home.run(&["remote", "add", REMOTE, &server.url()]));
    let tool = |name: &str| {
        let city = json!({"city": {"type": "string"}, "days": {"type": "integer"}});
        json!({"type": "function", "function": {"name": name, "description": name,
            "parameters": {"type": "object", "properties": if name == "weather" { city } else { json!({}) }}}})
    };
    let mut request = chat("caller", 200);
    request["tools"] = json!([tool("weather"), tool("clock")]);
    let (_, body) = post(home.port, "/api/chat", &request);
    let lines: Vec<Value> = body.lines().map(json).collect();
    let calls: Vec<&Value> = lines.iter().flat_map(|line| line["message"]["tool_calls"].as_array()).flatten().collect();
    let functions: Vec<_> =
        calls.iter().map(|call| (&call["function"]["name"], &call["function"]["arguments"])).collect();
    let weather = (&json!("weather"), &json!({"city": "Oslo", "days": 2}));
    assert_eq!(functions, [weather, (&json!("clock"), &json!({}))], "{body}");
    assert_eq!(answer(&body).trim(), "Let me look.", "the text before the calls");

    let mut next = request.clone();
    let result = json!({"role": "tool", "tool_name": "weather", "content": "3 degrees"});
    let asked = json!({"role": "assistant", "content": "", "tool_calls": [calls[0]]});
    next["messages"] = json!([request["messages"][0], asked, result]);
    assert_eq!(answer(&post(home.port, "/api/chat", &next).1), CALLER_RESULT, "the answer to the result");

    request["stream"] = json!(true);
    let (_, body) = post(home.port, "/v1/chat/completions", &request);
    let events = events(&body);
    let parts = events.iter().flat_map(|event| event["choices"][0]["delta"]["tool_calls"].as_array()).flatten();
    let names: Vec<&str> = parts.filter_map(|part| part["function"]["name"].as_str()).collect();
    assert_eq!(names, ["weather", "clock"], "streamed calls are passed through: {body}");
}

#[test]
fn llama_server_vectors_equal_local_ones() {
    let Some(program) = llama_server() else { return };
    let (home, port) = home_and_port();
    let model = write(&home, &tiny_bert(&BERT), "vectors");
    let flags = ["--embeddings", "--ctx-size", "128", "--ubatch-size", "128"];
    let server = LlamaServer::start(&program, &model, port, &flags);
    let _daemon = home.serve();
    succeeded(&home.run(&["import", &model.to_string_lossy(), "here"]));
    succeeded(&home.run(&["remote", "add", REMOTE, &server.url()]));
    let request = |model: &str| json!({"model": model, "input": ["hello world", "a stone in the river"]});
    let vectors = |model: &str| {
        let (status, body) = post(home.port, "/v1/embeddings", &request(model));
        assert_eq!(status, 200, "{model}: {body}");
        json(&body)
    };
    let (there, here) = (vectors("vectors"), vectors("here"));
    assert_eq!(there["usage"], here["usage"], "the same tokens");
    for at in 0..2 {
        let vector = |response: &Value| -> Vec<f64> {
            let elements = response["data"][at]["embedding"].as_array().expect("a vector");
            elements.iter().map(|element| element.as_f64().expect("a number")).collect()
        };
        let (a, b) = (vector(&there), vector(&here));
        // Both have the length 1.
        let cosine: f64 = a.iter().zip(&b).map(|(a, b)| a * b).sum();
        assert!(a.len() == b.len() && cosine > 0.9999, "text {at}: a cosine of {cosine}");
    }
    let (status, body) = post(home.port, "/api/chat", &chat("vectors", 1));
    assert!(status >= 400 && body.contains(REMOTE), "no chat with an embedding model: {status}: {body}");
}

#[test]
fn llama_server_ends_the_answer_of_a_client_that_disconnects() {
    let Some(program) = llama_server() else { return };
    let (home, port) = home_and_port();
    let server = LlamaServer::start(&program, &write(&home, &slow_llama(), "slow"), port, &["--ctx-size", "32768"]);
    let _daemon = home.serve();
    succeeded(&home.run(&["remote", "add", REMOTE, &server.url()]));
    let mut openai = chat("slow", 0);
    (openai["stream"], openai["max_tokens"]) = (json!(true), json!(30_000));
    for (path, body) in [("/api/chat", chat("slow", 30_000)), ("/v1/chat/completions", openai)] {
        let mut stream = BufReader::new(begin(&home, path, &body));
        assert!(server.is_busy(), "{path}: the answer is in progress");
        let mut line = String::new();
        stream.read_line(&mut line).expect("a line");
        drop(stream);
        wait(path, || !server.is_busy());
    }
}

/// Sends a request and reads until the first part of the answer.
fn begin(home: &Home, path: &str, body: &Value) -> std::net::TcpStream {
    let mut stream = send(home.port, "POST", path, &[], &body.to_string()).expect("the daemon accepts connections");
    let (mut read, mut bytes) = (String::new(), [0; 1024]);
    while !read.contains("\"content\":\"") {
        let count = stream.read(&mut bytes).expect("the answer begins");
        assert!(count > 0, "the answer begins: {read}");
        read += &String::from_utf8_lossy(&bytes[..count]);
    }
    stream
}

#[test]
fn killed_llama_server_ends_answers_with_an_error_and_serves_again_after_its_restart() {
    let Some(program) = llama_server() else { return };
    let (home, port) = home_and_port();
    let model = write(&home, &slow_llama(), "slow");
    let flags = ["--ctx-size", "32768", "--parallel", "2"];
    let server = LlamaServer::start(&program, &model, port, &flags);
    let _daemon = home.serve();
    succeeded(&home.run(&["remote", "add", REMOTE, &server.url()]));
    let mut openai = chat("slow", 0);
    (openai["stream"], openai["max_tokens"]) = (json!(true), json!(10_000));
    let mut lines = begin(&home, "/api/chat", &chat("slow", 10_000));
    let mut events = begin(&home, "/v1/chat/completions", &openai);
    kill(server.child.id(), "-KILL");
    drop(server);
    let rest = |stream: &mut std::net::TcpStream| {
        let mut rest = Vec::new();
        stream.read_to_end(&mut rest).expect("the response ends");
        String::from_utf8_lossy(&rest).into_owned()
    };
    for rest in [rest(&mut lines), rest(&mut events)] {
        // The lines after it are those of chunks.
        let last = rest.lines().rfind(|line| line.contains('{')).expect("a line").to_owned();
        assert!(last.contains("remote_interrupted") && last.contains(REMOTE), "{last}");
    }

    wait("the circuit opens", || {
        let (status, body) = post(home.port, "/api/chat", &chat("slow", 2));
        assert!(status >= 500 && body.contains("remote_unavailable"), "{status}: {body}");
        body.contains("failed repeatedly; retry in")
    });

    let _server = LlamaServer::start(&program, &model, port, &flags);
    wait("the circuit closes", || post(home.port, "/api/chat", &chat("slow", 2)).1.contains("\"done\":true"));
    let checked = succeeded(&home.run(&["remote", "check", REMOTE]));
    assert!(checked.contains("up"), "{checked}");
}
