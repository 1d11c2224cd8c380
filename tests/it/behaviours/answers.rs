//! Prompts and answers: the model's own messages, tool calls, and structured answers after reasoning.

use cairn_testkit::{Script, scripted};
use serde_json::{Value, json};

use super::{home, post, post_json, store, tiny};

fn question() -> Value {
    json!({"role": "user", "content": "3?"})
}

/// Parses the JSON of each line or event of a stream.
fn parts(stream: &str) -> Vec<Value> {
    let parse = |line: &str| serde_json::from_str(line.strip_prefix("data: ").unwrap_or(line)).ok();
    stream.lines().filter_map(parse).collect()
}

/// Behaviour 14.
#[test]
fn tool_call_arguments_keep_their_order_and_are_text_in_the_openai_api() {
    let template = "{% if tools %}<tools>{{ tools | tojson }}</tools>{% endif %}{% for message in messages %}\
                    {{ message.content }}{% for call in message.tool_calls %}<tool_call>{{ call.function | tojson }}\
                    </tool_call>{% endfor %}{% endfor %}<|script0|>";
    let call = "<tool_call>\n{\"name\": \"weather\", \"arguments\": {\"days\": 2, \"city\": \"Oslo\"}}\n</tool_call>";
    let home = home();
    let caller = scripted(template, &[Script { begin: "<|script0|>", text: call }], &[]);
    store(&home, "caller", &[("model", &caller)]);
    let _daemon = home.serve();
    let properties = json!({"city": {"type": "string"}, "days": {"type": "integer"}});
    let parameters = json!({"type": "object", "properties": properties});
    let tool = json!({"type": "function", "function": {"name": "weather", "parameters": parameters}});
    let request = json!({"model": "caller", "messages": [question()], "tools": [tool], "stream": true});

    let native = r#""function":{"index":0,"name":"weather","arguments":{"days":2,"city":"Oslo"}}"#;
    let (_, stream) = post(&home, "/api/chat", &request);
    assert!(stream.contains(native), "an object with its keys in the order of the model: {stream}");
    let lines = parts(&stream);
    let calling: Vec<bool> = lines.iter().map(|line| line["message"]["tool_calls"].is_array()).collect();
    let (last, before) = calling.split_last().expect("the stream has lines");
    // Ollama sends calls that it parses with the template of the file on the last line.
    assert!(!last && before.iter().filter(|calls| **calls).count() == 1, "one line before the last: {stream}");
    let whole = post_json(&home, "/api/chat", request.clone()).to_string();
    assert!(whole.contains(native), "{whole}");

    let text = r#""arguments":"{\"days\":2,\"city\":\"Oslo\"}""#;
    let (_, stream) = post(&home, "/v1/chat/completions", &request);
    assert!(stream.contains(text), "a text: {stream}");
    let deltas = parts(&stream);
    let call = deltas.iter().find_map(|chunk| chunk["choices"][0]["delta"]["tool_calls"].get(0));
    assert_eq!(call.map(|call| &call["index"]), Some(&json!(0)), "{stream}");
    let whole = post_json(&home, "/v1/chat/completions", request).to_string();
    assert!(whole.contains(text), "{whole}");
}

/// Behaviour 16.
#[test]
fn system_message_of_the_model_is_omitted_only_if_the_first_message_is_one() {
    let template = "{{ range .Messages }}<{{ .Role }}>{{ .Content }}{{ end }}<assistant>";
    let examples = json!([{"role": "user", "content": "1?"}, {"role": "assistant", "content": "2."}]).to_string();
    let home = home();
    let texts = [("template", template), ("system", "Count."), ("messages", &*examples)];
    let texts = texts.map(|(kind, text)| (kind, text.as_bytes()));
    store(&home, "counter", &[&[("model", tiny())], &texts[..]].concat());
    let _daemon = home.serve();
    let check = |messages: Value, expected: &str| {
        let request = json!({"model": "counter", "messages": messages, "_debug_render_only": true});
        let rendered = post_json(&home, "/api/chat", request);
        assert_eq!(rendered["_debug_info"]["rendered_template"], format!("{expected}<assistant>"), "{messages}");
    };
    let own = json!({"role": "system", "content": "Sing."});
    check(json!([question()]), "<system>Count.<user>1?<assistant>2.<user>3?");
    check(json!([own, question()]), "<user>1?<assistant>2.<system>Sing.<user>3?");
    check(json!([question(), own]), "<system>Count.<user>1?<assistant>2.<user>3?<system>Sing.");
}

/// Behaviour 22.
#[test]
fn structured_answer_of_a_thinking_model_leaves_its_thoughts_free() {
    let template = "{{ messages[-1].content }}<|script0|>{# between <think> and </think> #}";
    let script = Script { begin: "<|script0|>", text: "<think>Not an object.</think>{\"a\":1}" };
    let home = home();
    store(&home, "thinker", &[("model", &scripted(template, &[script], &["<think>", "</think>"]))]);
    let _daemon = home.serve();
    let schema = json!({"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"],
        "additionalProperties": false});
    let request = |more: Value| {
        let mut request = json!({"model": "thinker", "messages": [question()]});
        request.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
        request
    };
    for format in [json!("json"), schema.clone()] {
        let answer = post_json(&home, "/api/chat", request(json!({"format": format})));
        let message = &answer["message"];
        let expected = (&json!("Not an object."), &json!("{\"a\":1}"));
        assert_eq!((&message["thinking"], &message["content"]), expected, "{format}: {answer}");
    }
    let format = json!({"type": "json_schema", "json_schema": {"name": "a", "schema": schema}});
    let answer = post_json(&home, "/v1/chat/completions", request(json!({"response_format": format})));
    let message = &answer["choices"][0]["message"];
    let expected = (&json!("Not an object."), &json!("{\"a\":1}"));
    assert_eq!((&message["reasoning"], &message["content"]), expected, "{answer}");
}
