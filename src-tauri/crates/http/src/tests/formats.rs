//! Structured output through the APIs, with a random model: only the constraint can make its answers valid.

use serde_json::{Value, json};

use super::*;

fn schema() -> Value {
    json!({
        "type": "object",
        "properties": {"name": {"type": "string", "maxLength": 8}, "age": {"type": "integer", "minimum": 0, "maximum": 120}},
        "required": ["name", "age"],
        "additionalProperties": false,
    })
}

fn messages() -> Value {
    json!([{"role": "user", "content": "Name a person."}])
}

/// Parses the answer and checks it against [`schema`].
fn check_answer(text: &Value) {
    let text = text.as_str().unwrap_or_else(|| panic!("{text}"));
    let value: Value = serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text:?}"));
    let object = value.as_object().unwrap();
    assert_eq!(object.keys().collect::<Vec<_>>(), ["name", "age"], "{text}");
    assert!(value["name"].as_str().is_some_and(|name| name.chars().count() <= 8), "{text}");
    assert!(value["age"].as_u64().is_some_and(|age| age <= 120), "{text}");
}

#[tokio::test]
async fn answers_match_the_schema_of_each_api() {
    let daemon = Daemon::start();
    let parse = |reply: String| -> Value {
        assert!(reply.starts_with("200 "), "{reply}");
        serde_json::from_str(reply.split_once('\n').unwrap().1).unwrap()
    };
    for seed in 0..4 {
        let options = json!({"temperature": 1.5, "seed": seed, "num_predict": 200});
        let request =
            json!({"model": "m", "messages": messages(), "format": schema(), "stream": false, "options": options});
        check_answer(&parse(daemon.post("/api/chat", &request.to_string()).await)["message"]["content"]);
        let request =
            json!({"model": "m", "prompt": "Name a person.", "format": schema(), "stream": false, "options": options});
        check_answer(&parse(daemon.post("/api/generate", &request.to_string()).await)["response"]);
        let format =
            json!({"type": "json_schema", "json_schema": {"name": "person", "strict": true, "schema": schema()}});
        let request = json!({
            "model": "m", "messages": messages(), "response_format": format, "temperature": 1.5, "seed": seed, "max_tokens": 200,
        });
        let reply = parse(daemon.post("/v1/chat/completions", &request.to_string()).await);
        check_answer(&reply["choices"][0]["message"]["content"]);
        assert_eq!(reply["choices"][0]["finish_reason"], "stop", "the answer ends with its object: {reply}");
    }
}

#[tokio::test]
async fn json_mode_begins_an_object() {
    let daemon = Daemon::start();
    let options = json!({"temperature": 1.5, "seed": 3, "num_predict": 20});
    let request =
        json!({"model": "m", "prompt": "Name a person.", "format": "json", "stream": false, "options": options});
    let reply = daemon.post("/api/generate", &request.to_string()).await;
    let answer: Value = serde_json::from_str(reply.split_once('\n').unwrap().1).unwrap();
    assert!(answer["response"].as_str().is_some_and(|text| text.trim_start().starts_with('{')), "{reply}");
}

#[tokio::test]
async fn schema_with_unsupported_keyword_is_refused_before_the_answer() {
    let daemon = Daemon::start();
    let check = async |path: &str, request: Value| {
        let reply = daemon.post(path, &request.to_string()).await;
        assert!(
            reply.starts_with("400 ") && reply.contains("uniqueItems") && reply.contains("not supported"),
            "{reply}"
        );
    };
    let schema = json!({"type": "array", "uniqueItems": true});
    check("/api/chat", json!({"model": "m", "messages": messages(), "format": schema})).await;
    let format = json!({"type": "json_schema", "json_schema": {"schema": schema}});
    check("/v1/chat/completions", json!({"model": "m", "messages": messages(), "response_format": format})).await;
}

#[tokio::test]
async fn guided_answers_match_their_expression_choice_or_grammar() {
    let daemon = Daemon::start();
    let answer = async |path: &str, more: Value| -> String {
        let mut request = json!({"model": "m", "max_tokens": 40, "temperature": 1.5, "seed": 1});
        let start =
            if path.ends_with("chat/completions") { json!({"messages": messages()}) } else { json!({"prompt": "x"}) };
        for fields in [start, more] {
            request.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        }
        let (status, response) = daemon.json(path, request).await;
        let choice = &response["choices"][0];
        let text = choice["message"]["content"].as_str().or_else(|| choice["text"].as_str());
        assert_eq!(status, 200, "{response}");
        text.unwrap_or_else(|| panic!("{response}")).to_owned()
    };
    for path in ["/v1/chat/completions", "/v1/completions"] {
        let number = answer(path, json!({"guided_regex": "[0-9]{3}"})).await;
        assert!(number.len() == 3 && number.bytes().all(|byte| byte.is_ascii_digit()), "{number:?}");
        let chosen = answer(path, json!({"structured_outputs": {"choice": ["yes", "no"]}})).await;
        assert!(["yes", "no"].contains(&&*chosen), "{chosen:?}");
        let sum = answer(path, json!({"guided_grammar": "start: \"1\" \"+\" (\"1\" | \"2\")"})).await;
        assert!(["1+1", "1+2"].contains(&&*sum), "{sum:?}");
        let schema = json!({"type": "integer", "minimum": 3, "maximum": 5});
        let value = answer(path, json!({"guided_json": schema.to_string()})).await;
        assert!(["3", "4", "5"].contains(&&*value), "{value:?}");
    }
    let both = json!({"model": "m", "prompt": "x", "guided_regex": "a", "guided_choice": ["b"]});
    let (status, response) = daemon.json("/v1/completions", both).await;
    assert!(
        status == 400 && response["error"]["message"].as_str().unwrap().contains("several output formats"),
        "{response}"
    );
}
