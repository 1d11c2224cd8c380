//! The endpoint of responses of the OpenAI API.

use cairn_testkit::{Script, scripted, tool_caller};
use serde_json::{Value, json};

use super::*;

fn request(more: Value) -> Value {
    let mut request = json!({"model": "m", "input": "hi", "temperature": 0, "max_output_tokens": 3});
    request.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    request
}

/// Sends a request and returns the JSON of its response.
async fn respond(daemon: &Daemon, request: &Value) -> Value {
    let reply = daemon.post("/v1/responses", &request.to_string()).await;
    let (head, body) = reply.split_once('\n').unwrap();
    assert!(head.starts_with("200 "), "{reply}");
    serde_json::from_str(body).unwrap_or_else(|_| panic!("{reply}"))
}

/// Sends a request and returns the events of its stream.
async fn stream(daemon: &Daemon, mut request: Value) -> Vec<Value> {
    request["stream"] = json!(true);
    let events = daemon.events("/v1/responses", request).await;
    let parse = |(number, event): (usize, &String)| -> Value {
        let (name, data) = event.strip_prefix("event: ").unwrap().split_once("\ndata: ").unwrap();
        let mut data: Value = serde_json::from_str(data).unwrap();
        assert_eq!(data["type"], name, "the name of the event is its type");
        let sequence_number = data.as_object_mut().unwrap().remove("sequence_number");
        assert_eq!(sequence_number, Some(json!(number)), "events are numbered: {event}");
        data
    };
    events.iter().enumerate().map(parse).collect()
}

/// Removes ids, which differ from run to run.
fn without_ids(mut items: Value) -> Value {
    for item in items.as_array_mut().unwrap() {
        let id = item.as_object_mut().unwrap().remove("id").expect("an id");
        let id = id.as_str().unwrap();
        assert!(id.contains('_') && id.len() > 24, "{id}");
        if let Some(call_id) = item.as_object_mut().unwrap().remove("call_id") {
            assert!(call_id.as_str().is_some_and(|id| id.starts_with("call_")), "{call_id}");
        }
    }
    items
}

#[tokio::test]
async fn response_returns_one_object() {
    let daemon = Daemon::start();
    let mut response = respond(&daemon, &request(json!({"metadata": {"a": "b"}}))).await;
    let output = without_ids(response["output"].take());
    let text = json!({"type": "output_text", "text": "\u{b}\u{c}\r", "annotations": [], "logprobs": []});
    let message = json!({"type": "message", "status": "incomplete", "role": "assistant", "content": [text]});
    assert_eq!(output, json!([message]), "the same text as that of /api/chat");
    assert_eq!(response.as_object_mut().unwrap().remove("created_at"), Some(json!(1_767_323_045)), "in seconds");
    let id = response.as_object_mut().unwrap().remove("id").unwrap();
    assert!(id.as_str().is_some_and(|id| id.starts_with("resp_") && id.len() == 29), "{id}");
    let expected = json!({
        "object": "response", "status": "incomplete", "background": false, "error": null,
        "incomplete_details": {"reason": "max_output_tokens"}, "instructions": null, "max_output_tokens": 3, "model": "m",
        "output": null, "parallel_tool_calls": true, "previous_response_id": null,
        "reasoning": {"effort": null, "summary": null}, "store": false, "temperature": 0.0,
        "text": {"format": {"type": "text"}}, "tool_choice": "auto", "tools": [], "top_p": 1.0, "truncation": "auto",
        "usage": {
            "input_tokens": 18, "input_tokens_details": {"cached_tokens": 0},
            "output_tokens": 3, "output_tokens_details": {"reasoning_tokens": 0}, "total_tokens": 21,
        },
        "metadata": {"a": "b"},
    });
    assert_eq!(response, expected, "the properties of the response");
}

#[tokio::test]
async fn response_streams_the_events_of_its_text() {
    let daemon = Daemon::start();
    let events = stream(&daemon, request(json!({"max_output_tokens": 2}))).await;
    let types: Vec<&str> = events.iter().map(|event| event["type"].as_str().unwrap()).collect();
    let expected = [
        "response.created",
        "response.in_progress",
        "response.output_item.added",
        "response.content_part.added",
        "response.output_text.delta",
        "response.output_text.delta",
        "response.output_text.done",
        "response.content_part.done",
        "response.output_item.done",
        "response.incomplete",
    ];
    assert_eq!(types, expected, "the order of the events");
    assert_eq!(events[0]["response"]["output"], json!([]), "no output yet");
    let item_id = &events[2]["item"]["id"];
    for event in &events[3..8] {
        let place = (&event["item_id"], &event["output_index"], &event["content_index"]);
        assert_eq!(place, (item_id, &json!(0), &json!(0)), "{event}");
    }
    assert_eq!((&events[4]["delta"], &events[5]["delta"]), (&json!("\u{b}"), &json!("\u{c}")));
    assert_eq!((&events[6]["text"], &events[7]["part"]["text"]), (&json!("\u{b}\u{c}"), &json!("\u{b}\u{c}")));
    assert_eq!(events[9]["response"]["output"][0], events[8]["item"], "the whole item");
    assert_eq!(events[9]["response"]["usage"]["total_tokens"], 20, "the usage comes last");
}

#[tokio::test]
async fn response_calls_tools_and_reads_their_results() {
    let daemon = Daemon::start();
    daemon.store("calls", &[("model", &tool_caller())]);
    let parameters = json!({"type": "object", "properties": {"city": {"type": "string"}, "days": {"type": "integer"}}});
    let tools = json!([
        {"type": "function", "name": "weather", "description": "The weather of a city.", "parameters": parameters},
        {"type": "function", "name": "clock", "parameters": {"type": "object", "properties": {}}},
    ]);
    let question = json!({"role": "user", "content": [{"type": "input_text", "text": "How is the weather?"}]});
    let first = json!({"model": "calls", "input": [question], "tools": tools, "max_output_tokens": 500});
    let response = respond(&daemon, &first).await;
    let call = |name: &str, arguments: &str| json!({"type": "function_call", "status": "completed", "name": name, "arguments": arguments});
    let text = json!({"type": "output_text", "text": "Let me look.", "annotations": [], "logprobs": []});
    let message = json!({"type": "message", "status": "completed", "role": "assistant", "content": [text]});
    let expected = json!([message, call("weather", r#"{"city":"Oslo","days":2}"#), call("clock", "{}")]);
    assert_eq!(without_ids(response["output"].clone()), expected, "{response}");
    assert_eq!(response["status"], "completed", "{response}");

    let events = stream(&daemon, first.clone()).await;
    let last = events.last().unwrap();
    assert_eq!((&last["type"], &last["response"]["status"]), (&json!("response.completed"), &json!("completed")));
    assert_eq!(without_ids(last["response"]["output"].clone()), expected, "streaming changes nothing");
    let arguments: Vec<&Value> =
        events.iter().filter(|e| e["type"] == "response.function_call_arguments.delta").map(|e| &e["delta"]).collect();
    assert_eq!(arguments, [&json!(r#"{"city":"Oslo","days":2}"#), &json!("{}")], "{events:?}");

    let output = response["output"].as_array().unwrap();
    let result = json!({"type": "function_call_output", "call_id": output[1]["call_id"], "output": "3"});
    let input: Vec<Value> = std::iter::once(question).chain(output.iter().take(2).cloned()).chain([result]).collect();
    let answer = respond(&daemon, &json!({"model": "calls", "input": input, "tools": tools})).await;
    assert_eq!(answer["output"][0]["content"][0]["text"], "It is 3 degrees.", "{answer}");
}

/// Answers with a call of `home__weather`. After the result of that call, answers with a text.
fn namespace_caller() -> Vec<u8> {
    let template = "{% if tools %}{{ tools | tojson }}{% endif %}{% for message in messages %}{{ message.content }}\
        {% for call in message.tool_calls %}<tool_call>{{ call.function | tojson }}</tool_call>{% endfor %}{% endfor %}\
        {% if messages[-1].role == 'tool' and messages[-2].tool_calls[0].function.name == 'home__weather' %}<|script1|>\
        {% else %}<|script0|>{% endif %}";
    let call = "<tool_call>\n{\"name\": \"home__weather\", \"arguments\": {\"city\": \"Oslo\"}}\n</tool_call>";
    let script = |begin, text| Script { begin, text };
    scripted(template, &[script("<|script0|>", call), script("<|script1|>", "It is 3 degrees.")], &[])
}

#[tokio::test]
async fn response_calls_functions_of_namespaces() {
    let daemon = Daemon::start();
    daemon.store("calls", &[("model", &namespace_caller())]);
    let parameters = json!({"type": "object", "properties": {"city": {"type": "string"}}});
    let weather = json!({"type": "function", "name": "weather", "strict": false, "parameters": parameters});
    let tools = json!([
        {"type": "namespace", "name": "home", "description": "The house.", "tools": [weather]},
        {"type": "web_search", "external_web_access": false},
    ]);
    let question = json!({"role": "user", "content": "How is the weather?"});
    let first = json!({"model": "calls", "input": [question], "tools": tools, "max_output_tokens": 500});
    let response = respond(&daemon, &first).await;
    let arguments = r#"{"city":"Oslo"}"#;
    let call = json!({"type": "function_call", "status": "completed", "namespace": "home", "name": "weather",
        "arguments": arguments});
    assert_eq!(without_ids(response["output"].clone()), json!([call]), "{response}");
    let warning = "the tool \"web_search\" is ignored, because this server runs no tools";
    assert_eq!(response["warnings"], json!([warning]), "{response}");
    assert_eq!(response["tools"][0], tools[0], "the namespace is repeated");

    let events = stream(&daemon, first).await;
    for kind in ["response.output_item.added", "response.output_item.done"] {
        let item = &events.iter().find(|event| event["type"] == kind).expect("an item")["item"];
        assert_eq!((&item["namespace"], &item["name"]), (&json!("home"), &json!("weather")), "{kind}: {item}");
    }

    let output = &response["output"][0];
    let result = json!({"type": "function_call_output", "call_id": output["call_id"], "output": "3"});
    let input = json!([question, output, result]);
    let answer = respond(&daemon, &json!({"model": "calls", "input": input, "tools": tools})).await;
    assert_eq!(
        answer["output"][0]["content"][0]["text"], "It is 3 degrees.",
        "the prompt has the model's name: {answer}"
    );
}

#[tokio::test]
async fn response_matches_its_format() {
    let daemon = Daemon::start();
    let schema = json!({"type": "object", "properties": {"n": {"type": "integer", "minimum": 3, "maximum": 5}},
        "required": ["n"], "additionalProperties": false});
    let text = json!({"format": {"type": "json_schema", "name": "n", "schema": schema, "strict": true}});
    let include = json!(["message.output_text.logprobs"]);
    let more = json!({"text": text, "temperature": 0, "max_output_tokens": 200, "include": include, "top_logprobs": 1});
    let response = respond(&daemon, &request(more)).await;
    let part = &response["output"][0]["content"][0];
    let value: Value = serde_json::from_str(part["text"].as_str().unwrap()).unwrap_or_else(|_| panic!("{response}"));
    assert!(value["n"].as_u64().is_some_and(|n| (3..=5).contains(&n)), "{value}");
    assert_eq!(response["text"], text, "the format is repeated");
    let logprobs = part["logprobs"].as_array().unwrap();
    assert_eq!(Some(logprobs.len() as u64), response["usage"]["output_tokens"].as_u64(), "one for each token: {part}");
}

#[tokio::test]
async fn request_for_a_stored_response_is_refused() {
    let daemon = Daemon::start();
    let check = async |more: Value, expected: &str| {
        let reply = daemon.post("/v1/responses", &request(more).to_string()).await;
        assert!(reply.starts_with("400 ") && reply.contains(expected), "{reply}");
    };
    check(json!({"previous_response_id": "resp_1"}), "stores no responses").await;
    check(json!({"conversation": "conv_1"}), "stores no conversations").await;
    check(json!({"background": true}), "background is not supported").await;
    check(json!({"input": []}), "input is empty").await;
    check(json!({"tools": [{"type": "custom", "name": "patch"}]}), "the type \\\"custom\\\"").await;
    check(json!({"text": {"format": {"type": "xml"}}}), "invalid text.format").await;
}
