//! Required tool calls, with models that would answer with text: only the constraint can make them call.

use cairn_testkit::{Script, scripted};
use serde_json::{Value, json};

use super::*;

/// A template that lists tools, and writes calls as `call` is written.
fn template(call: &str) -> String {
    format!(
        "{{% if tools %}}{{{{ tools | tojson }}}}{{% endif %}}{{# {call} #}}{{% for message in messages %}}{{{{ message.content }}}}{{% endfor %}}<|script0|>"
    )
}

/// Starts a daemon with the model `text`, which answers with a text and knows calls in a syntax.
fn daemon(call: &str, text: &str, control: &[&str]) -> Daemon {
    let daemon = Daemon::start();
    let file = scripted(&template(call), &[Script { begin: "<|script0|>", text }], control);
    daemon.store("text", &[("model", &file)]);
    daemon
}

/// Parameters with few values: a model without sense completes a call in 450 tokens, even with the most white space.
fn parameters() -> Value {
    json!({
        "type": "object",
        "properties": {"city": {"$ref": "#/$defs/city"}, "days": {"type": "integer", "minimum": 1, "maximum": 3}},
        "required": ["city", "days"],
        "additionalProperties": false,
        "$defs": {"city": {"enum": ["Oslo", "Rome"]}},
    })
}

fn functions() -> Value {
    json!([
        {"type": "function", "function": {"name": "weather", "parameters": parameters()}},
        {"type": "function", "function": {"name": "clock"}},
    ])
}

fn question() -> Value {
    json!([{"role": "user", "content": "How is the weather?"}])
}

/// Sends a request and returns the JSON of its response.
async fn post(daemon: &Daemon, path: &str, request: Value) -> Value {
    let reply = daemon.post(path, &request.to_string()).await;
    assert!(reply.starts_with("200 "), "{reply}");
    serde_json::from_str(reply.split_once('\n').unwrap().1).unwrap_or_else(|_| panic!("{reply}"))
}

/// Checks the arguments of a call of `weather`.
fn check_arguments(arguments: &Value) {
    let keys: Vec<&String> = arguments.as_object().unwrap_or_else(|| panic!("{arguments}")).keys().collect();
    assert_eq!(keys, ["city", "days"], "{arguments}");
    assert!(["Oslo", "Rome"].contains(&arguments["city"].as_str().unwrap()), "{arguments}");
    assert!(arguments["days"].as_u64().is_some_and(|days| (1..=3).contains(&days)), "{arguments}");
}

const SYNTAXES: [(&str, &str, &[&str]); 4] = [
    ("<tool_call>", "It is warm.", &[]),
    ("<|python_tag|>", "It is warm.", &[]),
    ("[TOOL_CALLS]", "It [TOOL_CALLS] is warm.", &["[TOOL_CALLS]"]),
    ("<｜tool▁call▁begin｜>", "It is warm.", &[]),
];

#[tokio::test]
async fn named_tool_is_called_with_arguments_of_its_schema() {
    for (call, text, control) in SYNTAXES {
        let daemon = daemon(call, text, control);
        let choice = json!({"type": "function", "function": {"name": "weather"}});
        let request = json!({
            "model": "text", "messages": question(), "tools": functions(), "tool_choice": choice, "max_tokens": 450,
            "parallel_tool_calls": false,
        });
        let response = post(&daemon, "/v1/chat/completions", request).await;
        let answer = &response["choices"][0];
        assert_eq!(answer["finish_reason"], "tool_calls", "{call}: {response}");
        let calls = answer["message"]["tool_calls"].as_array().unwrap();
        assert_eq!((calls.len(), &calls[0]["function"]["name"]), (1, &json!("weather")), "{call}: {response}");
        let arguments = calls[0]["function"]["arguments"].as_str().unwrap();
        check_arguments(&serde_json::from_str(arguments).unwrap());
    }
}

#[tokio::test]
async fn required_call_is_made_through_each_api() {
    let daemon = daemon("<tool_call>", "It is warm.", &[]);
    let limits = |request: Value| -> Value {
        let mut request = request;
        let more = json!({"model": "text", "temperature": 1.5});
        request.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        request
    };
    let flat = json!([{"type": "function", "name": "weather", "parameters": parameters()}]);
    let request = json!({"input": "How?", "tools": flat, "tool_choice": "required", "parallel_tool_calls": false});
    let response = post(&daemon, "/v1/responses", limits(request)).await;
    let output = response["output"].as_array().unwrap();
    assert_eq!((output.len(), &output[0]["type"]), (1, &json!("function_call")), "{response}");
    check_arguments(&serde_json::from_str(output[0]["arguments"].as_str().unwrap()).unwrap());

    let tools = json!([{"name": "weather", "input_schema": parameters()}, {"name": "clock"}]);
    let choice = json!({"type": "tool", "name": "weather", "disable_parallel_tool_use": true});
    let request = json!({"messages": question(), "tools": tools, "tool_choice": choice, "max_tokens": 450});
    let response = post(&daemon, "/v1/messages", limits(request.clone())).await;
    assert_eq!((&response["stop_reason"], &response["content"][0]["type"]), (&json!("tool_use"), &json!("tool_use")));
    check_arguments(&response["content"][0]["input"]);
    let mut any = request;
    any["tool_choice"] = json!({"type": "any", "disable_parallel_tool_use": true});
    let response = post(&daemon, "/v1/messages", limits(any)).await;
    let blocks = response["content"].as_array().unwrap();
    assert!(!blocks.is_empty() && blocks.iter().all(|block| block["type"] == "tool_use"), "{response}");
}

#[tokio::test]
async fn format_beside_tools_allows_a_call_or_an_answer_of_the_format() {
    let daemon = daemon("<tool_call>", "It is warm.", &[]);
    let schema = json!({"type": "object", "properties": {"mood": {"enum": ["good", "bad"]}}, "required": ["mood"],
        "additionalProperties": false});
    let format = json!({"type": "json_schema", "json_schema": {"name": "mood", "schema": schema}});
    let (mut calls, mut answers) = (0, 0);
    for seed in 0..24 {
        let request = json!({
            "model": "text", "messages": question(), "tools": functions(), "response_format": format, "max_tokens": 450,
            "parallel_tool_calls": false, "temperature": 60, "seed": seed,
        });
        let response = post(&daemon, "/v1/chat/completions", request).await;
        let message = &response["choices"][0]["message"];
        match message["tool_calls"].as_array() {
            Some(list) => {
                assert_eq!(list.len(), 1, "{response}");
                calls += 1;
            }
            None => {
                let value: Value = serde_json::from_str(message["content"].as_str().unwrap()).unwrap();
                assert!(["good", "bad"].contains(&value["mood"].as_str().unwrap()), "{response}");
                answers += 1;
            }
        }
    }
    assert!(calls > 0 && answers > 0, "both occur: {calls} calls, {answers} answers");
}

#[tokio::test]
async fn parallel_calls_are_cut_after_the_first() {
    let daemon = Daemon::start();
    daemon.store("calls", &[("model", &cairn_testkit::tool_caller())]);
    let request = json!({"model": "calls", "messages": question(), "tools": functions(), "parallel_tool_calls": false});
    let response = post(&daemon, "/v1/chat/completions", request).await;
    let choice = &response["choices"][0];
    assert_eq!(choice["message"]["tool_calls"].as_array().map(Vec::len), Some(1), "{response}");
    assert_eq!(
        (&choice["finish_reason"], &choice["message"]["content"]),
        (&json!("tool_calls"), &json!("Let me look."))
    );
    assert!(response["usage"]["completion_tokens"].as_u64().is_some_and(|tokens| tokens > 5), "{response}");
}

#[tokio::test]
async fn tool_choice_that_cannot_be_served_is_refused() {
    let daemon = daemon("<function= <parameter=", "It is warm.", &[]);
    let check = async |path: &str, more: Value, expected: &str| {
        let mut request = json!({"model": "text", "messages": question(), "max_tokens": 9});
        request.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let reply = daemon.post(path, &request.to_string()).await;
        assert!(reply.starts_with("400 ") && reply.contains(expected), "{reply}");
    };
    let (chat, messages) = ("/v1/chat/completions", "/v1/messages");
    check(chat, json!({"tools": functions(), "tool_choice": "required"}), "a syntax that cannot be enforced").await;
    check(chat, json!({"tool_choice": "required"}), "has no tools").await;
    check(chat, json!({"tools": functions(), "tool_choice": {"function": {"name": "x"}}}), "not in tools").await;
    check(chat, json!({"tools": functions(), "tool_choice": "sometimes"}), "invalid tool_choice").await;
    let tools = json!([{"name": "clock"}]);
    check(messages, json!({"tools": tools, "tool_choice": {"type": "tool", "name": "x"}}), "not in tools").await;
    check(messages, json!({"tools": tools, "tool_choice": {"type": "some"}}), "invalid tool_choice").await;
}

#[tokio::test]
async fn schema_of_a_required_tool_must_be_enforceable() {
    let daemon = daemon("<tool_call>", "It is warm.", &[]);
    let parameters = json!({"type": "object", "properties": {"a": {"not": {"pattern": "x"}}}});
    let tools = json!([{"type": "function", "function": {"name": "f", "parameters": parameters}}]);
    let request = json!({"model": "text", "messages": question(), "tools": tools, "tool_choice": "required"});
    let reply = daemon.post("/v1/chat/completions", &request.to_string()).await;
    assert!(reply.starts_with("400 ") && reply.contains("`pattern` at #/properties/a/not"), "{reply}");
}
