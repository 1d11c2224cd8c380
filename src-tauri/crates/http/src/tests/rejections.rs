//! Tests of the status and text of rejected requests.

use serde_json::{Value, json};

use super::*;

async fn check(path: &str, request: &str, expected: &str) {
    let reply = Daemon::start().post(path, request).await;
    let (head, body) = reply.split_once('\n').unwrap();
    let status = head.split(' ').next().unwrap();
    let error: cairn_wire::ErrorBody = serde_json::from_str(body).unwrap_or_else(|_| panic!("{reply}"));
    assert_eq!(format!("{status} {}", error.error), expected, "{request} to {path}");
}

#[tokio::test]
async fn body_errors_match_ollama() {
    check("/api/chat", "", "400 missing request body").await;
    check("/api/generate", " \n", "400 missing request body").await;
    check("/api/chat", "{", "400 EOF while parsing an object at line 1 column 1").await;
    check(
        "/api/chat",
        r#"{"model":"m","think":"very"}"#,
        concat!(
            "400 invalid think value: \"very\" (must be \"high\", \"medium\", \"low\", \"max\", true, or false)",
            " at line 1 column 27"
        ),
    )
    .await;
    check("/api/chat", "null", "400 invalid type: null, expected a JSON object at line 1 column 4").await;
    check("/api/show", "[[]]", "400 cannot decode the request body: expected a JSON object, found a list").await;
    let duration = "400 time: missing unit in duration \"-1\" at line 1 column 30";
    check("/api/chat", r#"{"model":"m","keep_alive":"-1"}"#, duration).await;
}

#[tokio::test]
async fn name_errors_match_ollama() {
    check("/api/chat", r#"{"model":"Nope"}"#, "404 model 'Nope' not found").await;
    check("/api/generate", r#"{"model":"nope:1b","prompt":"x"}"#, "404 model 'nope:1b' not found").await;
    check("/api/show", r#"{"model":"nope"}"#, "404 model 'nope' not found").await;
    check("/api/chat", "{}", "400 model is required").await;
    check("/api/show", "{}", "400 model is required").await;
    check("/api/generate", r#"{"model":"../../etc"}"#, "400 invalid model name").await;
}

#[tokio::test]
async fn unsupported_features_are_rejected() {
    let format = r#"{"model":"m","prompt":"x","format":"xml"}"#;
    let expected = r#"400 invalid format: "xml"; expected "json" or a valid JSON Schema object"#;
    check("/api/generate", format, expected).await;
    let suffix = r#"{"model":"m","prompt":"x","suffix":"y"}"#;
    let lacks = "400 registry.ollama.ai/library/m:latest does not support insert";
    check("/api/generate", suffix, lacks).await;
    let template = r#"{"model":"m","prompt":"x","template":"{{ .Prompt"}"#;
    let reply = Daemon::start().post("/api/generate", template).await;
    assert!(reply.starts_with("400 ") && reply.contains("template_invalid"), "{reply}");
}

#[tokio::test]
async fn empty_fields_of_unsupported_features_are_accepted() {
    let daemon = Daemon::start();
    let request = r#"{"model":"m","messages":[{"role":"user","content":"x","images":[],"tool_calls":null}],"tools":[],
                      "format":"","logprobs":false,"think":false,"stream":false,"options":{"num_predict":1,"num_ctx":null}}"#;
    let reply = daemon.post("/api/chat", request).await;
    assert!(reply.starts_with("200 "), "{reply}");
    let request =
        r#"{"model":"m","messages":[{"role":null,"content":null}],"stream":false,"options":{"num_predict":1}}"#;
    let reply = daemon.post("/api/chat", request).await;
    assert!(reply.starts_with("200 "), "{reply}");
    let reply = daemon.post("/api/generate", r#"{"model":"m","prompt":null,"system":null,"options":null}"#).await;
    assert!(reply.contains(r#""done_reason":"load""#), "{reply}");
}

#[tokio::test]
async fn options_above_the_limits_are_clamped() {
    let daemon = Daemon::start();
    for options in [r#"{"num_thread":1000000000}"#, r#"{"num_ctx":1000000000000}"#, r#"{"num_thread":-1,"num_ctx":0}"#]
    {
        let request = format!(r#"{{"model":"m","prompt":"","options":{options}}}"#);
        let reply = daemon.post("/api/generate", &request).await;
        assert!(reply.starts_with("200 "), "{options}: {reply}");
    }
    assert!(
        daemon.get("/api/ps").await.contains(r#""context_length":2048"#),
        "the model's training context is the limit"
    );
}

#[tokio::test]
async fn value_errors_have_status_400() {
    let options = r#"{"model":"m","prompt":"x","options":{"num_ctx":"big"}}"#;
    check("/api/generate", options, "400 option \"num_ctx\" must be of type integer").await;
    let reply = Daemon::start().post("/api/chat", r#"{"model":"m","messages":[{"role":"user","content":"x"}],"stream":false,"options":{"temperature":"hot"}}"#).await;
    let code = r#""code":"option_invalid","params":{"option":"temperature","#;
    assert!(reply.starts_with("400 ") && reply.contains(code), "the error names the option: {reply}");
    let logprobs = r#"{"model":"m","prompt":"x","top_logprobs":21}"#;
    check("/api/generate", logprobs, "400 top_logprobs must be between 0 and 20").await;
    let think = r#"{"model":"m","prompt":"x","think":true}"#;
    check("/api/generate", think, "400 \"m\" does not support thinking").await;
    let raw = r#"{"model":"m","prompt":"x","raw":true,"system":"y"}"#;
    check("/api/generate", raw, "400 raw mode does not support template, system, or context").await;
    let foreign = r#"{"model":"m","prompt":"x","context":[512]}"#;
    check("/api/generate", foreign, "400 context has the token 512, which the model does not have").await;
    let long = format!(r#"{{"model":"m","prompt":"{}","shift":false,"options":{{"num_ctx":16}}}}"#, "x ".repeat(50));
    let reply = Daemon::start().post("/api/generate", &long).await;
    let expected =
        "the prompt is longer than the context length currently available to the model; shorten the prompt, ";
    assert!(reply.starts_with("400") && reply.contains(expected), "{reply}");
}

#[tokio::test]
async fn model_file_without_gguf_header_fails() {
    let daemon = Daemon::start();
    daemon.store("text", &[("model", b"once upon a time")]);
    let reply = daemon.post("/api/generate", r#"{"model":"text","prompt":"x"}"#).await;
    assert!(reply.starts_with("500 ") && reply.contains("not a GGUF file"), "{reply}");
}

#[tokio::test]
async fn long_texts_of_a_request_are_cut_in_its_error() {
    let daemon = Daemon::start();
    let long = "x".repeat(20_000);
    let check = async |path: &str, fields: Value| {
        let question = json!([{"role": "user", "content": "x"}]);
        let mut request = json!({"model": "m", "prompt": "x", "input": "x", "messages": question, "max_tokens": 1});
        request.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        let reply = daemon.post(path, &request.to_string()).await;
        assert!(reply.starts_with("400 ") && reply.contains('…') && reply.len() < 1000, "{path}: {reply}");
    };
    let tools = json!([{"type": "function", "function": {"name": "f"}}]);
    check("/api/show", json!({"model": long})).await;
    check("/api/chat", json!({"format": long})).await;
    check("/api/chat", json!({"think": long})).await;
    check("/api/chat", json!({"keep_alive": long})).await;
    check("/api/chat", json!({"stream": long})).await;
    check("/api/generate", json!({"options": {"kv_cache_type": long}})).await;
    check("/api/generate", json!({"options": {"context_shift": long}})).await;
    check("/api/create", json!({"model": "new", "from": "m", "quantize": long, "stream": false})).await;
    let chat = "/v1/chat/completions";
    check(chat, json!({"reasoning_effort": long})).await;
    check(chat, json!({"response_format": {"type": long}})).await;
    check(chat, json!({"tools": [{"type": long, "function": {"name": "f"}}]})).await;
    check(chat, json!({"tools": tools, "tool_choice": long})).await;
    check(chat, json!({"tools": tools, "tool_choice": {"function": {"name": long}}})).await;
    check(chat, json!({"messages": [{"role": long}]})).await;
    check(chat, json!({"messages": [{"role": "user", "content": [{"type": long}]}]})).await;
    check("/v1/completions", json!({"guided_json": {"$ref": long}})).await;
    check("/v1/responses", json!({"input": [{"type": long}]})).await;
    check("/v1/responses", json!({"text": {"format": {"type": long}}})).await;
    let namespace = |tools: Value| json!({"tools": [{"type": "namespace", "name": "n", "tools": tools}]});
    check("/v1/responses", namespace(json!([{"type": long, "name": "f"}]))).await;
    let named = json!({"type": "function", "name": long});
    check("/v1/responses", namespace(json!([named, named]))).await;
    check("/v1/embeddings", json!({"encoding_format": long})).await;
    let messages = "/v1/messages";
    check(messages, json!({"messages": [{"role": long, "content": "x"}]})).await;
    check(messages, json!({"thinking": {"type": long}})).await;
    check(messages, json!({"output_config": {"effort": long}})).await;
    check(messages, json!({"output_config": {"format": {"type": long}}})).await;
    check(messages, json!({"tools": [{"type": long, "name": "f"}]})).await;
    check(messages, json!({"tools": [{"name": "f"}], "tool_choice": {"type": long}})).await;
    check(messages, json!({"tools": [{"name": "f"}], "tool_choice": {"type": "tool", "name": long}})).await;
}

#[tokio::test]
async fn value_of_a_wrong_type_is_refused_with_the_accepted_forms() {
    let daemon = Daemon::start();
    let check = async |path: &str, request: Value, expected: &str| {
        let reply = daemon.post(path, &request.to_string()).await.replace('\\', "");
        assert!(reply.starts_with("400 ") && reply.contains(expected), "{path}: {reply}");
        assert!(!reply.contains("expected struct "), "the name of a Rust type: {reply}");
    };
    check("/api/chat", json!({"model": "m", "format": 5}), r#"expected "json" or a valid JSON Schema object"#).await;
    let chat = "/v1/chat/completions";
    check(chat, json!({"response_format": "json"}), r#"expected response_format as {"type": "json_object"} or"#).await;
    check(chat, json!({"structured_outputs": "json"}), "expected structured_outputs, which is a JSON object").await;
    check(chat, json!({"stream_options": true}), "expected stream_options").await;
    check(chat, json!({"reasoning": "low"}), "expected reasoning").await;
    check(chat, json!({"tools": ["f"]}), "expected a tool, which is a JSON object").await;
    let text = r#"expected text.format as {"type": "json_object"} or {"type": "json_schema", "schema": {...}}"#;
    check("/v1/responses", json!({"text": {"format": "json"}}), text).await;
    check("/v1/responses", json!({"text": "json"}), "expected text as").await;
    let format = r#"expected output_config.format as {"type": "json_schema", "schema": {...}}"#;
    check("/v1/messages", json!({"output_config": {"format": "json"}}), format).await;
    check("/v1/messages", json!({"output_config": "json"}), "expected output_config").await;
    check("/v1/messages", json!({"thinking": "enabled"}), "expected thinking as").await;
    let reply = daemon.authorized("POST", "/app/remotes", "5").await;
    assert!(reply.contains("invalid type: integer `5`, expected a JSON object"), "{reply}");
}
