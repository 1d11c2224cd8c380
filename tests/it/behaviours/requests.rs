//! Defaults and errors of requests.

use cairn_gguf::DType;
use cairn_testkit::registry::{FakeRegistry, Faults};
use cairn_testkit::{ModelSpec, Types, tiny_llama};
use serde_json::{Value, json};

use super::{home, post, post_json, store};
use crate::pulls::published::Published;

fn messages() -> Value {
    json!([{"role": "user", "content": "hi"}])
}

/// Adds properties to a request.
fn with(mut request: Value, more: &Value) -> Value {
    request.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
    request
}

/// Behaviour 1.
#[test]
fn absent_stream_parameter_streams_only_the_native_api() {
    let registry = FakeRegistry::start(1, Faults::default()).expect("loopback has free ports");
    let published = Published::tiny(&registry, "published", 1);
    let home = home();
    let _daemon = home.serve();
    let options = json!({"num_predict": 3, "temperature": 0});
    let native = [
        ("/api/chat", json!({"model": "m", "messages": messages(), "options": options})),
        ("/api/generate", json!({"model": "m", "prompt": "hi", "options": options})),
        ("/api/create", json!({"model": "made", "from": "m", "system": "Be brief."})),
        ("/api/pull", json!({"model": published.name, "insecure": true})),
    ];
    for (path, request) in native {
        let lines = |request: &Value| {
            let (status, reply) = post(&home, path, request);
            assert_eq!(status, 200, "{path}: {reply}");
            let is_json = |line: &str| serde_json::from_str::<Value>(line).is_ok_and(|value| value.is_object());
            assert!(reply.lines().all(is_json), "{path}: a JSON object in each line: {reply}");
            reply.lines().count()
        };
        assert!(lines(&request) > 1, "{path} streams");
        assert_eq!(lines(&with(request, &json!({"stream": false}))), 1, "{path} returns one object");
    }
    let request = json!({"model": "m", "messages": messages(), "prompt": "hi", "max_tokens": 3});
    for path in ["/v1/chat/completions", "/v1/completions", "/v1/messages"] {
        let (status, reply) = post(&home, path, &request);
        assert!(status == 200 && serde_json::from_str::<Value>(&reply).is_ok(), "{path} returns one object: {reply}");
        let (_, reply) = post(&home, path, &with(request.clone(), &json!({"stream": true})));
        assert!(reply.matches("data: ").count() > 3, "{path} streams events on request: {reply}");
    }
}

/// Behaviour 2.
#[test]
fn absent_temperature_is_that_of_the_model_or_1_in_the_openai_api() {
    // Answers are equal on all machines.
    let home = home().with("CAIRN_KERNEL", "scalar");
    // Without a likely next token, so that each temperature has another answer.
    let types = Types::By(|name| if name == "output.weight" { DType::F16 } else { DType::F32 });
    let model = cairn_testkit::write(&ModelSpec { types, ..tiny_llama() });
    store(&home, "greedy", &[("model", &model), ("params", br#"{"temperature":0,"top_p":0.1}"#)]);
    let _daemon = home.serve();
    let request = || json!({"model": "greedy", "messages": messages(), "prompt": "hi", "max_tokens": 20, "seed": 7});
    let native = |options: Value| {
        let options = with(json!({"num_predict": 20, "seed": 7}), &options);
        post_json(&home, "/api/chat", with(request(), &json!({"options": options})))["message"]["content"].take()
    };
    let openai = |more: Value| {
        let path = "/v1/chat/completions";
        post_json(&home, path, with(request(), &more))["choices"][0]["message"]["content"].take()
    };
    let completion =
        |more: Value| post_json(&home, "/v1/completions", with(request(), &more))["choices"][0]["text"].take();
    let (greedy, random) = (native(json!({})), native(json!({"temperature": 1, "top_p": 1})));
    assert_ne!(greedy, random, "the temperature decides");
    assert_eq!(native(json!({"temperature": 0})), greedy, "the model's parameters");
    assert_eq!(openai(json!({})), random, "1 for both, whatever the model has");
    assert_ne!(openai(json!({"temperature": 0.8, "top_p": 0.9})), random, "Ollama's other defaults differ");
    assert_eq!(openai(json!({"temperature": 0})), greedy, "a value of the request");
    assert_eq!(completion(json!({})), completion(json!({"temperature": 1, "top_p": 1})), "completions too");
    assert_ne!(completion(json!({})), completion(json!({"temperature": 0})), "the temperature decides");
}

/// Behaviour 8.
#[test]
fn missing_model_error_has_the_quotes_of_its_endpoint() {
    let home = home();
    let _daemon = home.serve();
    let check = |path: &str, request: Value, status: u16, expected: &str| {
        let (found, reply) = post(&home, path, &request);
        let error: Value = serde_json::from_str(&reply).unwrap_or_else(|_| panic!("{path}: {reply}"));
        let text = error["error"].as_str().or_else(|| error["error"]["message"].as_str());
        assert_eq!((found, text), (status, Some(expected)), "{request} to {path}");
    };
    let single = "model 'X:1b' not found";
    check("/api/generate", json!({"model": "X:1b", "prompt": "hi"}), 404, single);
    check("/api/chat", json!({"model": "X:1b", "messages": messages()}), 404, single);
    check("/api/show", json!({"model": "X:1b"}), 404, single);
    check("/api/embed", json!({"model": "X:1b", "input": "hi"}), 404, single);
    check("/v1/chat/completions", json!({"model": "X:1b", "messages": messages()}), 404, single);
    check("/api/copy", json!({"source": "X:1b", "destination": "y"}), 404, "model \"X:1b\" not found");
    // Ollama: `model "X:1b" not found, try pulling it first`.
    check("/api/embeddings", json!({"model": "X:1b", "prompt": "hi"}), 404, single);
    check("/api/chat", json!({"messages": messages()}), 400, "model is required");
    // Ollama: `model is required`, and for generate 404 with `model 'a b' not found`.
    check("/api/chat", json!({"model": "a b", "messages": messages()}), 400, "invalid model name");
    check("/api/generate", json!({"model": "a b", "prompt": "hi"}), 400, "invalid model name");
}

/// Behaviour 9.
#[test]
fn error_has_a_status_before_the_stream_and_is_its_last_line_afterwards() {
    let registry = FakeRegistry::start(1, Faults::default()).expect("loopback has free ports");
    let home = home();
    let _daemon = home.serve();
    let missing = json!({"model": format!("{}/library/none", registry.host()), "insecure": true});
    let expected = "pull model manifest: file does not exist";
    let (status, reply) = post(&home, "/api/pull", &missing);
    let lines: Vec<Value> = reply.lines().map(|line| serde_json::from_str(line).expect("valid JSON")).collect();
    assert_eq!((status, lines.first()), (200, Some(&json!({"status": "pulling manifest"}))), "{reply}");
    let last = lines.last().and_then(|line| line["error"].as_str());
    assert!(last.is_some_and(|error| error.starts_with(expected)), "{reply}");
    let (status, reply) = post(&home, "/api/pull", &with(missing, &json!({"stream": false})));
    assert!(status == 500 && reply.contains(expected), "{status} {reply}");
    let (status, reply) = post(&home, "/api/chat", &json!({"model": "none", "messages": messages()}));
    assert!(status == 404 && reply.starts_with("{\"error\":"), "{status} {reply}");
}
