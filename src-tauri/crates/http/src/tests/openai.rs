//! The OpenAI API.

use serde_json::{Value, json};

use super::*;

impl Daemon {
    /// Sends a request and returns the status and the JSON of the response.
    pub(super) async fn json(&self, path: &str, body: Value) -> (u16, Value) {
        let reply = self.post(path, &body.to_string()).await;
        let (head, body) = reply.split_once('\n').unwrap();
        assert!(head.ends_with("application/json; charset=utf-8"), "{reply}");
        (head[..3].parse().unwrap(), serde_json::from_str(body).unwrap_or_else(|_| panic!("{reply}")))
    }

    /// Sends a request and returns the data of the events of its stream.
    pub(super) async fn events(&self, path: &str, body: Value) -> Vec<String> {
        let reply = self.post(path, &body.to_string()).await;
        let (head, body) = reply.split_once('\n').unwrap();
        assert_eq!(head, "200 text/event-stream", "{reply}");
        assert!(body.ends_with("\n\n"), "the last event is complete: {body:?}");
        body.split("\n\n").filter(|event| !event.is_empty()).map(str::to_owned).collect()
    }
}

fn chat(more: Value) -> Value {
    let mut request = json!({
        "model": "m", "messages": [{"role": "user", "content": "hi"}], "temperature": 0, "max_tokens": 3,
    });
    request.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    request
}

/// Removes the properties that differ from run to run.
fn stable(mut response: Value) -> Value {
    let object = response.as_object_mut().unwrap();
    let id = object.remove("id").expect("an id");
    assert!(id.as_str().is_some_and(|id| id.contains("cmpl-") && id.len() > 20), "{id}");
    assert_eq!(object.remove("created"), Some(json!(1_767_323_045)), "the time in seconds");
    assert!(object.remove("system_fingerprint").is_some(), "a fingerprint");
    assert_eq!(object.remove("model"), Some(json!("m")), "the model's name as in the request");
    response
}

#[tokio::test]
async fn chat_completion_returns_one_object() {
    let daemon = Daemon::start();
    let (status, response) = daemon.json("/v1/chat/completions", chat(json!({}))).await;
    assert_eq!(status, 200, "{response}");
    let expected = json!({
        "object": "chat.completion",
        "choices": [{
            "index": 0,
            "message": {"role": "assistant", "content": "\u{b}\u{c}\r"},
            "logprobs": null,
            "finish_reason": "length",
        }],
        "usage": {
            "prompt_tokens": 18, "completion_tokens": 3, "total_tokens": 21, "prompt_tokens_details": {"cached_tokens": 0},
        },
    });
    assert_eq!(stable(response), expected, "the same text as that of /api/chat");
}

#[tokio::test]
async fn chat_completion_streams_chunks_until_done() {
    let daemon = Daemon::start();
    let request = chat(json!({"stream": true, "stream_options": {"include_usage": true}}));
    let events = daemon.events("/v1/chat/completions", request).await;
    let (last, chunks) = events.split_last().unwrap();
    assert_eq!(last, "data: [DONE]", "the last event");
    let chunks: Vec<Value> =
        chunks.iter().map(|event| serde_json::from_str(event.strip_prefix("data: ").unwrap()).unwrap()).collect();
    assert!(chunks.iter().all(|chunk| chunk["id"] == chunks[0]["id"]), "one id for all chunks: {chunks:?}");
    let choices: Vec<Value> = chunks.iter().map(|chunk| chunk["choices"].clone()).collect();
    let expected = [
        json!([{"index": 0, "delta": {"role": "assistant", "content": "\u{b}"}, "finish_reason": null}]),
        json!([{"index": 0, "delta": {"content": "\u{c}"}, "finish_reason": null}]),
        json!([{"index": 0, "delta": {"content": "\r"}, "finish_reason": null}]),
        json!([{"index": 0, "delta": {}, "finish_reason": "length"}]),
        json!([]),
    ];
    assert_eq!(choices, expected, "the deltas");
    assert_eq!(chunks[4]["usage"]["total_tokens"], 21, "the usage comes last");
    assert_eq!(stable(chunks[0].clone())["object"], "chat.completion.chunk", "the kind of object");
}

#[tokio::test]
async fn several_choices_have_an_answer_each() {
    let daemon = Daemon::start();
    let request = chat(json!({"n": 3, "temperature": 1.5, "seed": 4, "max_tokens": 12, "logprobs": true}));
    let (_, response) = daemon.json("/v1/chat/completions", request.clone()).await;
    let texts = |response: &Value| -> Vec<String> {
        let choices = response["choices"].as_array().unwrap_or_else(|| panic!("{response}"));
        choices.iter().map(|choice| choice["message"]["content"].as_str().unwrap().to_owned()).collect()
    };
    let found = texts(&response);
    assert!(found.len() == 3 && found[0] != found[1] && found[1] != found[2], "a seed each: {found:?}");
    assert_eq!(response["usage"]["completion_tokens"], 36, "tokens of all choices");
    assert_eq!(response["usage"]["prompt_tokens"], 18, "the prompt counts once");
    for choice in response["choices"].as_array().unwrap() {
        assert_eq!(choice["logprobs"]["content"].as_array().map(Vec::len), Some(12), "one for each token: {choice}");
    }
    assert_eq!(texts(&daemon.json("/v1/chat/completions", request).await.1), found, "the seed fixes the answers");
}

#[tokio::test]
async fn service_tier_flex_is_batch_priority_and_is_reported() {
    let daemon = Daemon::start();
    let check = async |tier: Value, header: Option<&str>, expected: Value| {
        let text = json!({"model": "m", "prompt": "hi", "max_tokens": 2, "service_tier": tier});
        for (path, request) in
            [("/v1/chat/completions", chat(json!({"service_tier": tier}))), ("/v1/completions", text)]
        {
            for is_streamed in [false, true] {
                let mut request = request.clone();
                request["stream"] = is_streamed.into();
                let mut post = Request::post(path);
                if let Some(priority) = header {
                    post = post.header("X-Cairn-Priority", priority);
                }
                let reply = daemon.reply(post.body(Body::from(request.to_string())).unwrap()).await;
                assert!(reply.starts_with("200 "), "{request}: {reply}");
                let objects = reply.lines().skip(1).map(|line| line.strip_prefix("data: ").unwrap_or(line));
                for object in objects.filter(|line| line.starts_with('{')) {
                    let object: Value = serde_json::from_str(object).unwrap();
                    assert_eq!(object["service_tier"], expected, "{request} {header:?}: {object}");
                }
            }
        }
    };
    check(json!("flex"), None, json!("flex")).await;
    for tier in ["auto", "default", "priority", "scale", ""] {
        check(json!(tier), None, json!("default")).await;
    }
    check(json!("auto"), Some("batch"), json!("flex")).await;
    check(json!("flex"), Some("interactive"), json!("flex")).await;
    check(json!(null), Some("batch"), json!(null)).await;
}

#[tokio::test]
async fn completion_returns_and_streams_the_text() {
    let daemon = Daemon::start();
    let request = json!({"model": "m", "prompt": "hi", "temperature": 0, "max_tokens": 2, "logprobs": 2});
    let (_, response) = daemon.json("/v1/completions", request.clone()).await;
    let choice = &response["choices"][0];
    assert_eq!((&choice["text"], &choice["finish_reason"]), (&json!("\u{b}\u{c}"), &json!("length")), "{response}");
    assert_eq!(choice["logprobs"]["tokens"], json!(["\u{b}", "\u{c}"]), "{choice}");
    assert_eq!(choice["logprobs"]["text_offset"], json!([0, 1]), "{choice}");
    assert_eq!(response["usage"]["completion_tokens"], 2, "{response}");
    let mut streamed = request;
    streamed["stream"] = json!(true);
    let events = daemon.events("/v1/completions", streamed).await;
    assert_eq!(events.last().unwrap(), "data: [DONE]", "the last event");
    let text: String = events[..events.len() - 1]
        .iter()
        .map(|event| {
            serde_json::from_str::<Value>(&event[6..]).unwrap()["choices"][0]["text"].as_str().unwrap().to_owned()
        })
        .collect();
    assert_eq!(text, "\u{b}\u{c}", "the same text");
}

#[tokio::test]
async fn models_are_listed_by_the_names_of_requests() {
    let daemon = Daemon::start();
    let list: Value = serde_json::from_str(daemon.get("/v1/models").await.split_once('\n').unwrap().1).unwrap();
    assert_eq!((&list["object"], &list["data"][0]["id"]), (&json!("list"), &json!("m:latest")), "{list}");
    let model: Value = serde_json::from_str(daemon.get("/v1/models/m").await.split_once('\n').unwrap().1).unwrap();
    assert_eq!(model, list["data"][0], "the same entry");
    let missing = daemon.get("/v1/models/a/b").await;
    assert!(missing.starts_with("404 ") && missing.contains(r#""code":"model_not_found""#), "{missing}");
}

#[tokio::test]
async fn errors_have_the_format_of_the_api() {
    let daemon = Daemon::start();
    let check = async |path: &str, request: Value, status: u16, kind: &str, code: &str, text: &str| {
        let (found, response) = daemon.json(path, request).await;
        let error = &response["error"];
        assert_eq!((found, &error["type"], &error["code"]), (status, &json!(kind), &json!(code)), "{response}");
        assert!(error["message"].as_str().is_some_and(|message| message.contains(text)), "{response}");
    };
    let (bad, invalid) = ("invalid_request_error", "invalid_request");
    let path = "/v1/chat/completions";
    check(
        path,
        json!({"model": "x", "messages": [{"role": "user", "content": ""}]}),
        404,
        "not_found_error",
        "model_not_found",
        "'x'",
    )
    .await;
    check(path, json!({"model": "m", "messages": []}), 400, bad, invalid, "too short").await;
    check(path, chat(json!({"n": 0})), 400, bad, invalid, "between 1 and 16").await;
    check(path, chat(json!({"reasoning_effort": "huge"})), 400, bad, invalid, "reasoning effort").await;
    check(
        path,
        chat(json!({"reasoning_effort": "low"})),
        400,
        bad,
        "thinking_unsupported",
        "does not support thinking",
    )
    .await;
    check(path, json!({"model": 1}), 400, bad, invalid, "invalid type").await;
    check("/v1/nowhere", json!({}), 404, "not_found_error", "not_found", "chat/completions").await;
    check(
        "/v1/completions",
        json!({"model": "m", "prompt": "a", "suffix": "b"}),
        400,
        bad,
        "capability_missing",
        "does not support insert",
    )
    .await;
}

#[tokio::test]
async fn usage_counts_the_tokens_of_all_prompts() {
    let daemon = Daemon::start();
    let tokens = async |prompt: Value| {
        let request = json!({"model": "m", "prompt": prompt, "temperature": 0, "max_tokens": 2, "n": 2});
        let (_, response) = daemon.json("/v1/completions", request).await;
        (response["usage"]["prompt_tokens"].as_u64().unwrap(), response["usage"]["completion_tokens"].as_u64().unwrap())
    };
    let (short, long) = (tokens(json!("hi")).await, tokens(json!("Hello there")).await);
    assert!(short.0 < long.0, "{short:?} {long:?}");
    assert_eq!(tokens(json!(["hi", "Hello there"])).await, (short.0 + long.0, 8), "each prompt counts once");
    let log = daemon.server.request_log().requests();
    assert_eq!((log[0].prompt_tokens, log[0].answer_tokens), (Some(short.0 + long.0), Some(8)), "also in the log");
}

#[tokio::test]
async fn ignored_fields_and_options_are_named_once() {
    let daemon = Daemon::start();
    let more = json!({"user": "u", "logit_bias": {"1": 2}, "options": {"num_gpu": 1, "mirostat": 2}, "n": 2});
    let expected = json!([
        "the field \"logit_bias\" is ignored",
        "the field \"user\" is ignored",
        "the option \"mirostat\" is ignored",
        "the option \"num_gpu\" is ignored",
    ]);
    let (_, response) = daemon.json("/v1/chat/completions", chat(more.clone())).await;
    assert_eq!(response["warnings"], expected, "{response}");
    for include_usage in [false, true] {
        let mut request = chat(more.clone());
        request["stream"] = json!(true);
        request["stream_options"] = json!({ "include_usage": include_usage });
        let events = daemon.events("/v1/chat/completions", request).await;
        let chunks: Vec<Value> =
            events[..events.len() - 1].iter().map(|event| serde_json::from_str(&event[6..]).unwrap()).collect();
        let (last, others) = chunks.split_last().unwrap();
        assert_eq!(last["warnings"], expected, "the last chunk");
        assert!(others.iter().all(|chunk| chunk.get("warnings").is_none()), "only the last chunk: {others:?}");
    }
    let request = json!({"model": "m", "prompt": "hi", "max_tokens": 1, "user": "u"});
    let (_, response) = daemon.json("/v1/completions", request).await;
    assert_eq!(response["warnings"], json!(["the field \"user\" is ignored"]), "{response}");
    let request = json!({"model": "m", "input": "hi", "max_output_tokens": 1, "store": true, "service_tier": "flex"});
    let (_, response) = daemon.json("/v1/responses", request).await;
    assert_eq!(response["warnings"], json!(["the field \"store\" is ignored"]), "{response}");
    assert_eq!(response["service_tier"], "flex", "{response}");
    let request =
        json!({"model": "m", "prompt": "hi", "stream": false, "options": {"max_output_tokens": 2, "main_gpu": 0}});
    let (_, response) = daemon.json("/api/generate", request).await;
    assert_eq!(response["eval_count"], 2, "{response}");
    assert_eq!(response["warnings"], json!(["the option \"main_gpu\" is ignored"]), "{response}");
}

#[tokio::test]
async fn audio_and_broken_images_are_refused_with_a_reason() {
    let daemon = Daemon::start();
    let check = async |path: &str, request: Value, expected: &str| {
        let (status, response) = daemon.json(path, request).await;
        assert_eq!(status, 400, "{response}");
        assert!(response["error"]["message"].as_str().is_some_and(|text| text.contains(expected)), "{response}");
    };
    check("/v1/audio/speech", json!({"model": "m", "input": "hi"}), "audio is not supported").await;
    let image = |url: &str| json!({"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": url}}]}]});
    let path = "/v1/chat/completions";
    check(path, chat(image("data:image/png;base64,a*b")), "not valid base64").await;
    check(path, chat(image("https://example.com/a.png")), "fetches no images").await;
    check(path, chat(image("data:image/png;base64,aGk=")), "does not support vision").await;
}
