//! The Anthropic API.

use serde_json::{Value, json};

use super::*;

fn request(more: Value) -> Value {
    let mut request = json!({
        "model": "m", "messages": [{"role": "user", "content": "hi"}], "temperature": 0, "max_tokens": 3,
    });
    request.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    request
}

#[tokio::test]
async fn message_returns_one_object() {
    let daemon = Daemon::start();
    let reply = daemon.post("/v1/messages", &request(json!({})).to_string()).await;
    let mut response: Value = serde_json::from_str(reply.split_once('\n').unwrap().1).unwrap();
    let id = response.as_object_mut().unwrap().remove("id").unwrap();
    assert!(id.as_str().is_some_and(|id| id.starts_with("msg_") && id.len() == 28), "{id}");
    let expected = json!({
        "type": "message", "role": "assistant", "model": "m",
        "content": [{"type": "text", "text": "\u{b}\u{c}\r"}],
        "stop_reason": "max_tokens", "stop_sequence": null,
        "usage": {
            "input_tokens": 18, "cache_creation_input_tokens": 0, "cache_read_input_tokens": 0, "output_tokens": 3,
        },
    });
    assert_eq!(response, expected, "the same text as that of /api/chat");
}

#[tokio::test]
async fn message_streams_blocks() {
    let daemon = Daemon::start();
    let events = daemon.events("/v1/messages", request(json!({"stream": true, "max_tokens": 2}))).await;
    let parse = |event: &String| -> Value {
        let (name, data) = event.strip_prefix("event: ").unwrap().split_once("\ndata: ").unwrap();
        let data: Value = serde_json::from_str(data).unwrap();
        assert_eq!(data["type"], name, "the name of the event is its type");
        data
    };
    let mut events: Vec<Value> = events.iter().map(parse).collect();
    let start = events.remove(0);
    assert_eq!((&start["type"], &start["message"]["content"]), (&json!("message_start"), &json!([])), "{start}");
    assert_eq!(start["message"]["usage"]["input_tokens"], 18, "tokens of the prompt");
    let expected = [
        json!({"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}),
        json!({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "\u{b}"}}),
        json!({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "\u{c}"}}),
        json!({"type": "content_block_stop", "index": 0}),
        json!({"type": "message_delta", "delta": {"stop_reason": "max_tokens", "stop_sequence": null}, "usage": {
            "input_tokens": 18, "cache_creation_input_tokens": 0, "cache_read_input_tokens": 0, "output_tokens": 2,
        }}),
        json!({"type": "message_stop"}),
    ];
    assert_eq!(events, expected, "the events");
}

#[tokio::test]
async fn stop_sequence_is_reported() {
    let daemon = Daemon::start();
    let request = request(json!({"stop_sequences": ["zz", "\u{c}"]}));
    let reply = daemon.post("/v1/messages", &request.to_string()).await;
    let response: Value = serde_json::from_str(reply.split_once('\n').unwrap().1).unwrap();
    let found = (&response["content"][0]["text"], &response["stop_reason"], &response["stop_sequence"]);
    assert_eq!(found, (&json!("\u{b}"), &json!("stop_sequence"), &json!("\u{c}")), "{response}");
}

#[tokio::test]
async fn tokens_of_a_prompt_are_counted() {
    let daemon = Daemon::start();
    let reply = daemon.post("/v1/messages/count_tokens", &request(json!({})).to_string()).await;
    assert_eq!(reply, "200 application/json; charset=utf-8\n{\"input_tokens\":18}", "as many as the answer reports");
}

#[tokio::test]
async fn message_matches_its_format() {
    let daemon = Daemon::start();
    let schema = json!({"type": "object", "properties": {"n": {"type": "integer", "minimum": 3, "maximum": 5}},
        "required": ["n"], "additionalProperties": false});
    let config = json!({"format": {"type": "json_schema", "schema": schema}});
    let body = request(json!({"output_config": config, "max_tokens": 200}));
    let (status, response) = daemon.json("/v1/messages", body).await;
    assert_eq!((status, &response["stop_reason"]), (200, &json!("end_turn")), "{response}");
    let text = response["content"][0]["text"].as_str().unwrap();
    let value: Value = serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text:?}"));
    assert!(value["n"].as_u64().is_some_and(|n| (3..=5).contains(&n)), "{value}");
}

#[tokio::test]
async fn model_without_thinking_ignores_the_request_to_think() {
    let daemon = Daemon::start();
    let reply = daemon.post("/v1/messages", &request(json!({"thinking": {"type": "enabled"}})).to_string()).await;
    assert!(reply.starts_with("200 "), "{reply}");
}

#[tokio::test]
async fn errors_have_the_format_of_the_api() {
    let daemon = Daemon::start();
    let check = async |body: Value, expected: &str| {
        let reply = daemon.post("/v1/messages", &body.to_string()).await;
        assert_eq!(reply, expected, "{body}");
    };
    let bad = |text: &str| {
        format!(
            "400 application/json; charset=utf-8\n{{\"type\":\"error\",\"error\":{{\"type\":\"invalid_request_error\",\
             \"message\":\"{text}\"}}}}"
        )
    };
    check(json!({"model": "m"}), &bad("max_tokens is required and must be positive")).await;
    check(json!({"model": "m", "max_tokens": 1}), &bad("messages is required")).await;
    check(json!({"max_tokens": 1}), &bad("model is required")).await;
    let format = |format: Value| request(json!({"output_config": {"format": format}}));
    check(format(json!({"type": "json_schema"})), &bad("output_config.format has no schema")).await;
    let other = "invalid output_config.format: the type \\\"xml\\\" (must be \\\"json_schema\\\")";
    check(format(json!({"type": "xml"})), &bad(other)).await;
    let missing = "404 application/json; charset=utf-8\n{\"type\":\"error\",\"error\":{\"type\":\"not_found_error\",\
                   \"message\":\"model 'x' not found\"}}";
    check(request(json!({"model": "x"})), missing).await;
}
