//! Tool calls through all APIs, with a model that recites two calls, and another text after a tool's result.

use cairn_testkit::{CALLER_ANSWER as CALLS, tool_caller};
use serde_json::{Value, json};

use super::*;

/// Starts a daemon with the model `calls`.
fn daemon() -> Daemon {
    let daemon = Daemon::start();
    daemon.store("calls", &[("model", &tool_caller())]);
    daemon
}

fn tools() -> Value {
    let parameters = json!({"type": "object", "properties": {"city": {"type": "string"}, "days": {"type": "integer"}}});
    let weather = json!({"name": "weather", "description": "The weather of a city.", "parameters": parameters});
    let clock = json!({"name": "clock", "parameters": {"type": "object", "properties": {}}});
    json!([{"type": "function", "function": weather}, {"type": "function", "function": clock}])
}

fn question() -> Value {
    json!({"role": "user", "content": "How is the weather?"})
}

/// Returns the JSON of a reply.
fn parse(reply: &str) -> Value {
    let (head, body) = reply.split_once('\n').unwrap();
    assert!(head.starts_with("200 "), "{reply}");
    serde_json::from_str(body).unwrap_or_else(|_| panic!("{reply}"))
}

#[tokio::test]
async fn ollama_chat_calls_tools_and_reads_their_results() {
    let daemon = daemon();
    let request = json!({"model": "calls", "messages": [question()], "tools": tools()});
    let reply = daemon.post("/api/chat", &request.to_string()).await;
    let chunks: Vec<Value> = reply.lines().skip(1).map(|line| serde_json::from_str(line).unwrap()).collect();
    let text: String = chunks.iter().map(|chunk| chunk["message"]["content"].as_str().unwrap()).collect();
    assert_eq!(text, "Let me look.", "no part of a call is text: {reply}");
    let mut calls: Vec<Value> = chunks
        .iter()
        .flat_map(|chunk| chunk["message"]["tool_calls"].as_array().cloned().unwrap_or_default())
        .collect();
    for call in &mut calls {
        let id = call.as_object_mut().unwrap().remove("id").unwrap();
        assert!(id.as_str().is_some_and(|id| id.starts_with("call_") && id.len() == 13), "{id}");
    }
    let expected = json!([
        {"function": {"index": 0, "name": "weather", "arguments": {"city": "Oslo", "days": 2}}},
        {"function": {"index": 1, "name": "clock", "arguments": {}}},
    ]);
    assert_eq!(Value::from(calls), expected, "two calls in order");
    assert_eq!(chunks.last().unwrap()["done_reason"], "stop", "{reply}");

    let called = json!({"role": "assistant", "content": "Let me look.", "tool_calls": [
        {"function": {"name": "weather", "arguments": {"city": "Oslo", "days": 2}}},
    ]});
    let result = json!({"role": "tool", "tool_name": "weather", "content": "3"});
    let request = json!({
        "model": "calls", "messages": [question(), called, result], "tools": tools(), "stream": false,
    });
    let answer = parse(&daemon.post("/api/chat", &request.to_string()).await);
    assert_eq!(answer["message"]["content"], "It is 3 degrees.", "{answer}");
    assert!(answer["message"].get("tool_calls").is_none(), "{answer}");
}

#[tokio::test]
async fn answer_without_tools_keeps_its_text() {
    let request = json!({"model": "calls", "messages": [question()], "stream": false});
    let answer = parse(&daemon().post("/api/chat", &request.to_string()).await);
    assert_eq!(answer["message"]["content"], CALLS, "nothing is parsed");
}

#[tokio::test]
async fn openai_chat_calls_tools_and_reads_their_results() {
    let daemon = daemon();
    let request = json!({"model": "calls", "messages": [question()], "tools": tools()});
    let whole = parse(&daemon.post("/v1/chat/completions", &request.to_string()).await);
    let choice = &whole["choices"][0];
    assert_eq!(
        (&choice["message"]["content"], &choice["finish_reason"]),
        (&json!("Let me look."), &json!("tool_calls"))
    );
    let functions: Vec<&Value> =
        choice["message"]["tool_calls"].as_array().unwrap().iter().map(|call| &call["function"]).collect();
    let expected = [
        json!({"name": "weather", "arguments": "{\"city\":\"Oslo\",\"days\":2}"}),
        json!({"name": "clock", "arguments": "{}"}),
    ];
    assert_eq!(functions, expected.iter().collect::<Vec<_>>(), "arguments are texts: {whole}");

    let mut streamed = request.clone();
    streamed["stream"] = json!(true);
    let events = daemon.events("/v1/chat/completions", streamed).await;
    let chunks: Vec<Value> =
        events[..events.len() - 1].iter().map(|event| serde_json::from_str(&event[6..]).unwrap()).collect();
    let of_chunks: Vec<Value> = chunks
        .iter()
        .flat_map(|chunk| chunk["choices"][0]["delta"]["tool_calls"].as_array().cloned().unwrap_or_default())
        .map(|call| json!([call["index"], call["type"], call["function"]]))
        .collect();
    let expected = [json!([0, "function", expected[0]]), json!([1, "function", expected[1]])];
    assert_eq!(of_chunks, expected, "each call is one delta: {events:?}");
    assert_eq!(chunks.last().unwrap()["choices"][0]["finish_reason"], "tool_calls", "{events:?}");

    let assistant = &choice["message"];
    let result = json!({"role": "tool", "tool_call_id": assistant["tool_calls"][0]["id"], "content": "3"});
    let request = json!({"model": "calls", "messages": [question(), assistant, result], "tools": tools()});
    let answer = parse(&daemon.post("/v1/chat/completions", &request.to_string()).await);
    let choice = &answer["choices"][0];
    assert_eq!((&choice["message"]["content"], &choice["finish_reason"]), (&json!("It is 3 degrees."), &json!("stop")));
}

#[tokio::test]
async fn tool_choice_selects_the_tools_that_the_model_sees() {
    let daemon = daemon();
    let content = async |choice: Value| {
        let request = json!({"model": "calls", "messages": [question()], "tools": tools(), "tool_choice": choice});
        parse(&daemon.post("/v1/chat/completions", &request.to_string()).await)["choices"][0]["message"].clone()
    };
    assert_eq!(content(json!("none")).await["content"], CALLS, "no tool, so that nothing is parsed");
    let prompt_tokens = async |choice: Value| {
        let request = json!({"model": "calls", "messages": [question()], "tools": tools(), "tool_choice": choice});
        let reply = parse(&daemon.post("/v1/chat/completions", &request.to_string()).await);
        reply["usage"]["prompt_tokens"].as_u64().unwrap()
    };
    let (none, all) = (prompt_tokens(json!("none")).await, prompt_tokens(json!("auto")).await);
    let one = prompt_tokens(json!({"type": "function", "function": {"name": "clock"}})).await;
    assert!(none < one && one < all, "the prompt lists no, one or two tools: {none} {one} {all}");
    let request = json!({"model": "calls", "messages": [question()], "tools": tools(), "tool_choice": {"function": {"name": "x"}}});
    let refused = daemon.post("/v1/chat/completions", &request.to_string()).await;
    assert!(refused.starts_with("400 ") && refused.contains("not in tools"), "{refused}");
}

#[tokio::test]
async fn anthropic_message_calls_tools_and_reads_their_results() {
    let daemon = daemon();
    let schema = json!({"type": "object", "properties": {"city": {"type": "string"}, "days": {"type": "integer"}}});
    let tools = json!([
        {"name": "weather", "description": "The weather of a city.", "input_schema": schema},
        {"name": "clock", "input_schema": {"type": "object"}},
    ]);
    let request = json!({"model": "calls", "max_tokens": 500, "messages": [question()], "tools": tools});
    let whole = parse(&daemon.post("/v1/messages", &request.to_string()).await);
    assert_eq!(whole["stop_reason"], "tool_use", "{whole}");
    let mut blocks = whole["content"].clone();
    let ids: Vec<Value> =
        blocks.as_array_mut().unwrap().iter_mut().filter_map(|b| b.as_object_mut().unwrap().remove("id")).collect();
    let expected = json!([
        {"type": "text", "text": "Let me look."},
        {"type": "tool_use", "name": "weather", "input": {"city": "Oslo", "days": 2}},
        {"type": "tool_use", "name": "clock", "input": {}},
    ]);
    assert_eq!((blocks, ids.len()), (expected, 2), "{whole}");

    let mut streamed = request.clone();
    streamed["stream"] = json!(true);
    let events = daemon.events("/v1/messages", streamed).await;
    let parts: Vec<Value> = events
        .iter()
        .filter_map(|event| {
            serde_json::from_str::<Value>(event.split_once("\ndata: ").unwrap().1).unwrap()["delta"]["partial_json"]
                .as_str()
                .map(Value::from)
        })
        .collect();
    assert_eq!(parts, ["{\"city\":\"Oslo\",\"days\":2}", "{}"], "arguments are parts of JSON: {events:?}");

    let result = json!({"role": "user", "content": [{"type": "tool_result", "tool_use_id": ids[0], "content": "3"}]});
    let assistant = json!({"role": "assistant", "content": whole["content"]});
    let request =
        json!({"model": "calls", "max_tokens": 500, "messages": [question(), assistant, result], "tools": tools});
    let answer = parse(&daemon.post("/v1/messages", &request.to_string()).await);
    assert_eq!(answer["content"], json!([{"type": "text", "text": "It is 3 degrees."}]), "{answer}");
    assert_eq!(answer["stop_reason"], "end_turn", "{answer}");
}

#[tokio::test]
async fn tools_and_images_are_refused_by_models_without_them() {
    let daemon = daemon();
    let check = async |path: &str, request: Value, capability: &str| {
        let reply = daemon.post(path, &request.to_string()).await;
        // Ollama checks tools, and its text has the name with the registry.
        let name = if capability == "tools" { "registry.ollama.ai/library/m:latest" } else { "m:latest" };
        let text = format!("\"{name} does not support {capability}\"");
        assert!(reply.starts_with("400 ") && reply.contains(&text), "{reply}");
    };
    check("/api/chat", json!({"model": "m", "messages": [question()], "tools": tools()}), "tools").await;
    check("/v1/chat/completions", json!({"model": "m", "messages": [question()], "tools": tools()}), "tools").await;
    let image = json!({"role": "user", "content": "x", "images": ["aGk="]});
    check("/api/chat", json!({"model": "m", "messages": [image]}), "vision").await;
    let part = json!({"type": "image_url", "image_url": {"url": "data:image/png;base64,aGk="}});
    let message = json!({"role": "user", "content": [part]});
    check("/v1/chat/completions", json!({"model": "m", "messages": [message]}), "vision").await;
    let source = json!({"type": "base64", "media_type": "image/png", "data": "aGk="});
    let message = json!({"role": "user", "content": [{"type": "image", "source": source}]});
    check("/v1/messages", json!({"model": "m", "max_tokens": 1, "messages": [message]}), "vision").await;
}
