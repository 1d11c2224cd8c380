//! Tests of conversations and prompts that are longer than the context.

use serde_json::{Value, json};

use super::*;

/// Returns a system message and `turns` turns. The last turn has no answer.
fn conversation(turns: usize) -> Vec<Value> {
    let turn = |number: usize| {
        let question = json!({"role": "user", "content": format!("question number {number} about the river")});
        let answer = json!({"role": "assistant", "content": "the river is all water and light"});
        [question, answer]
    };
    let system = json!({"role": "system", "content": "answer for the world"});
    let mut messages: Vec<Value> = std::iter::once(system).chain((0..turns).flat_map(turn)).collect();
    messages.pop();
    messages
}

async fn post(daemon: &Daemon, path: &str, request: &Value) -> (u16, Value) {
    let reply = daemon.post(path, &request.to_string()).await;
    let (head, body) = reply.split_once('\n').expect("a head and a body");
    let status = head.split(' ').next().and_then(|status| status.parse().ok()).expect("a status");
    (status, serde_json::from_str(body).unwrap_or_else(|error| panic!("{error}: {body}")))
}

fn chat(messages: &[Value], context: usize) -> Value {
    json!({
        "model": "m", "messages": messages, "stream": false,
        "options": {"num_ctx": context, "num_predict": 1, "temperature": 0}
    })
}

#[tokio::test]
async fn prompt_overflow_drops_whole_turns_and_reports_them() {
    let daemon = Daemon::start();
    let all = conversation(6);
    let (_, whole) = post(&daemon, "/api/chat", &chat(&all, 1024)).await;
    assert_eq!(whole["truncated"], Value::Null, "the whole prompt fits: {whole}");
    let all_tokens = whole["prompt_eval_count"].as_u64().expect("a count");

    // The last two turns and one answer token fill the context exactly.
    let last: Vec<Value> = all[..1].iter().chain(&all[9..]).cloned().collect();
    let (_, expected) = post(&daemon, "/api/chat", &chat(&last, 1024)).await;
    let kept_tokens = expected["prompt_eval_count"].as_u64().expect("a count");
    let context = kept_tokens + 1;
    let (status, cut) = post(&daemon, "/api/chat", &chat(&all, context as usize)).await;
    assert_eq!((status, &cut["prompt_eval_count"]), (200, &json!(kept_tokens)), "{cut}");
    assert_eq!(
        cut["message"]["content"], expected["message"]["content"],
        "the same answer as without the dropped turns: {cut}"
    );
    let truncated = json!({
        "reason": "prompt_too_long", "turns": 4, "messages": 8, "tokens": all_tokens - kept_tokens, "context_tokens": context
    });
    assert_eq!(cut["truncated"], truncated, "the dropped messages");

    let (_, less) = post(&daemon, "/api/chat", &chat(&all, context as usize - 1)).await;
    assert_eq!(less["truncated"]["turns"], 5, "one token less drops one more turn: {less}");

    let mut request = chat(&all, context as usize);
    request["truncate"] = false.into();
    let (status, refused) = post(&daemon, "/api/chat", &request).await;
    let text = refused["error"].as_str().unwrap_or_default();
    assert_eq!(status, 400, "truncate: false forbids dropping turns: {refused}");
    assert!(
        text.starts_with("the prompt is longer than the context length currently available to the model"),
        "{text}"
    );
}

#[tokio::test]
async fn message_too_long_is_cut_in_the_middle_after_the_system_message() {
    let daemon = Daemon::start();
    let long = "the river is all water and light and stone and paper and green house ".repeat(30);
    let system = json!({"role": "system", "content": "answer for the world"});
    let messages =
        [system.clone(), json!({"role": "user", "content": "hello"}), json!({"role": "user", "content": long})];
    let (_, reply) = post(&daemon, "/api/chat", &chat(&messages, 128)).await;
    let truncated = &reply["truncated"];
    assert_eq!((&truncated["turns"], &truncated["messages"]), (&json!(1), &json!(1)), "{reply}");
    let (tokens, cut) = (truncated["tokens"].as_u64(), truncated["cut_tokens"].as_u64());
    assert!(cut > Some(100) && tokens > cut, "most tokens are cut from the middle: {reply}");
    let prompt = reply["prompt_eval_count"].as_u64().expect("a count");
    assert!((64..128).contains(&prompt), "the rest leaves room for an answer: {reply}");

    // The next request reuses the cached system message and the start of the user message.
    let short = [system, json!({"role": "user", "content": "yes"})];
    let (_, next) = post(&daemon, "/api/chat", &chat(&short, 128)).await;
    assert!(next["cached_tokens"].as_u64() > Some(10), "the start of the prompt is unchanged: {next}");
}

#[tokio::test]
async fn prompt_is_cut_in_the_middle_unless_forbidden() {
    let daemon = Daemon::start();
    let mut request = json!({
        "model": "m", "prompt": "the river is all water and light ".repeat(40), "raw": true, "stream": false,
        "options": {"num_ctx": 64, "num_predict": 1, "num_keep": 8, "temperature": 0}
    });
    let (_, reply) = post(&daemon, "/api/generate", &request).await;
    let truncated = &reply["truncated"];
    assert_eq!(reply["prompt_eval_count"], 37, "the first token, eight more, and half of the rest: {reply}");
    assert_eq!(truncated["tokens"], truncated["cut_tokens"], "only the middle is cut: {reply}");
    assert_eq!(truncated["context_tokens"], 64, "{reply}");
    for field in ["truncate", "shift"] {
        let mut request = request.clone();
        request[field] = false.into();
        let (status, refused) = post(&daemon, "/api/generate", &request).await;
        assert_eq!(status, 400, "{field}: false forbids cutting: {refused}");
    }
    request["options"]["num_ctx"] = 1024.into();
    let (_, whole) = post(&daemon, "/api/generate", &request).await;
    assert_eq!(whole["truncated"], Value::Null, "the whole prompt fits: {whole}");
}

#[tokio::test]
async fn left_out_tokens_are_a_warning_and_in_the_request_log() {
    let daemon = Daemon::with(&[("OLLAMA_CONTEXT_LENGTH", "128")]);
    let messages = json!(conversation(8));
    let text = "the river is all water and light and stone and paper and green house ".repeat(12);
    let check = async |path: &str, mut request: Value| {
        request["model"] = "m".into();
        request["stream"] = false.into();
        let (status, reply) = post(&daemon, path, &request).await;
        assert_eq!(status, 200, "{path}: {reply}");
        let server = daemon.authorized("GET", "/app/server", "").await;
        let server: Value = serde_json::from_str(server.split_once('\n').expect("a head and a body").1).expect("JSON");
        let logged = &server["requests"][0];
        assert_eq!(logged["path"], path, "{server}");
        let truncated = &logged["truncated"];
        assert_eq!((&truncated["reason"], &truncated["context_tokens"]), (&json!("prompt_too_long"), &json!(128)));
        let tokens = truncated["tokens"].as_u64().expect("a count");
        let all = tokens + logged["prompt_tokens"].as_u64().expect("a count");
        let expected = format!(
            "prompt cut: {tokens} of {all} tokens left out; the context is 128 tokens. \
             Set OLLAMA_CONTEXT_LENGTH or num_ctx to enlarge it, up to the model's limit"
        );
        // Anthropic's API has no warnings.
        let expected = if path == "/v1/messages" { Value::Null } else { json!([expected]) };
        assert_eq!(reply["warnings"], expected, "{path}: {reply}");
    };
    let options = json!({"num_predict": 1});
    check("/api/chat", json!({"messages": messages, "options": options})).await;
    check("/api/generate", json!({"prompt": text, "options": options})).await;
    check("/v1/chat/completions", json!({"messages": messages, "max_tokens": 1})).await;
    check("/v1/completions", json!({"prompt": text, "max_tokens": 1})).await;
    check("/v1/responses", json!({"input": messages, "max_output_tokens": 1})).await;
    check("/v1/messages", json!({"messages": messages, "max_tokens": 1})).await;
}

#[tokio::test]
async fn each_cut_prompt_of_a_request_is_a_warning_and_counts_in_the_request_log() {
    let daemon = Daemon::with(&[("OLLAMA_CONTEXT_LENGTH", "128")]);
    let text = "the river is all water and light and stone and paper and green house ";
    let prompts = [text.repeat(12), text.repeat(11), "the river".to_owned()];
    let request = json!({"model": "m", "prompt": prompts, "max_tokens": 1, "n": 2});
    let (status, reply) = post(&daemon, "/v1/completions", &request).await;
    assert_eq!(status, 200, "{reply}");
    let warnings: Vec<&str> = reply["warnings"].as_array().expect("a list").iter().filter_map(Value::as_str).collect();
    assert_eq!(warnings.len(), 2, "one of each cut prompt: {reply}");
    let left_out = |warning: &str| {
        let tokens = warning.strip_prefix("prompt cut: ").and_then(|rest| rest.split(' ').next());
        tokens.and_then(|tokens| tokens.parse::<u64>().ok()).expect("a count")
    };
    let server = daemon.authorized("GET", "/app/server", "").await;
    let server: Value = serde_json::from_str(server.split_once('\n').expect("a head and a body").1).expect("JSON");
    let truncated = &server["requests"][0]["truncated"];
    let all: u64 = warnings.into_iter().map(left_out).sum();
    assert_eq!((&truncated["tokens"], &truncated["context_tokens"]), (&json!(all), &json!(128)), "{server}");
}

/// Stores a model that never generates an end token: its tokens repeat in pairs.
fn endless(daemon: &Daemon) {
    let spec = cairn_testkit::ModelSpec { vocab: 4096, ..cairn_testkit::tiny_qwen3() };
    daemon.store("endless", &[("model", &cairn_testkit::write(&spec))]);
}

/// Requests an answer of 120 tokens in a context with room for 20.
async fn long_answer(daemon: &Daemon, more: Value) -> Value {
    let mut request = chat(&conversation(8), 1024);
    request["model"] = "endless".into();
    let (_, reply) = post(daemon, "/api/chat", &request).await;
    let prompt = reply["prompt_eval_count"].as_u64().expect("a count");
    request["options"]["num_ctx"] = (prompt + 20).into();
    request["options"]["num_predict"] = 120.into();
    for (name, value) in more.as_object().expect("an object") {
        match name.as_str() {
            "context_shift" => request["options"][name] = value.clone(),
            _ => request[name] = value.clone(),
        }
    }
    let (status, reply) = post(daemon, "/api/chat", &request).await;
    assert_eq!((status, &reply["done_reason"]), (200, &json!("length")), "{reply}");
    assert_eq!(reply["prompt_eval_count"], prompt, "the whole conversation is in the prompt: {reply}");
    reply
}

#[tokio::test(flavor = "multi_thread")]
async fn answer_continues_after_dropping_oldest_turns_unless_forbidden() {
    let daemon = Daemon::start();
    endless(&daemon);
    let reply = long_answer(&daemon, json!({})).await;
    assert_eq!(reply["eval_count"], 120, "the answer reaches its limit: {reply}");
    let truncated = &reply["truncated"];
    assert_eq!(truncated["reason"], "context_full", "{reply}");
    let (turns, messages) = (truncated["turns"].as_u64(), truncated["messages"].as_u64());
    assert!(turns > Some(1) && turns < Some(8) && messages == turns.map(|turns| 2 * turns), "whole turns: {reply}");
    assert_eq!(truncated["cut_tokens"], Value::Null, "only whole turns are dropped: {reply}");
    let whole = reply["message"]["content"].as_str().expect("a text").to_owned();
    for (field, value) in [("shift", false), ("truncate", false)] {
        let reply = long_answer(&daemon, json!({field: value})).await;
        assert_eq!((&reply["eval_count"], &reply["truncated"]), (&json!(20), &Value::Null), "{field}: {reply}");
        let start = reply["message"]["content"].as_str().expect("a text");
        assert!(whole.starts_with(start), "the start is the same: {start:?}, {whole:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn answer_in_full_context_continues_if_context_shift_is_rope() {
    let daemon = Daemon::start();
    endless(&daemon);
    let reply = long_answer(&daemon, json!({"context_shift": "rope"})).await;
    assert_eq!(reply["eval_count"], 120, "the answer reaches its limit: {reply}");
    let truncated = &reply["truncated"];
    let cut = truncated["cut_tokens"].as_u64().expect("tokens are cut from the middle");
    assert!(cut > 0 && cut.is_multiple_of(64), "whole pages are cut: {reply}");
    let expected = json!({
        "reason": "context_full", "turns": 0, "messages": 0, "tokens": cut, "cut_tokens": cut,
        "context_tokens": truncated["context_tokens"]
    });
    assert_eq!(truncated, &expected, "no turns are dropped");

    let mut request = json!({
        "model": "endless", "prompt": "the river", "raw": true, "stream": false,
        "options": {"num_ctx": 256, "num_predict": 400, "temperature": 0}
    });
    let (_, plain) = post(&daemon, "/api/generate", &request).await;
    assert_eq!(
        (&plain["done_reason"], &plain["truncated"]),
        (&json!("length"), &Value::Null),
        "a raw prompt has no turns: {plain}"
    );
    assert!(plain["eval_count"].as_u64() < Some(256), "the answer ends when the context is full: {plain}");
    request["options"]["context_shift"] = "rope".into();
    let (_, shifted) = post(&daemon, "/api/generate", &request).await;
    assert_eq!(shifted["eval_count"], 400, "the answer continues: {shifted}");
    request["options"]["context_shift"] = "slide".into();
    let (status, refused) = post(&daemon, "/api/generate", &request).await;
    let error = "unknown context_shift \"slide\": it must be turns or rope";
    let expected =
        json!({"error": error, "code": "option_invalid", "params": {"option": "context_shift", "reason": error}});
    assert_eq!((status, refused), (400, expected), "the error names the valid values");
}

#[tokio::test]
async fn trace_counts_all_tokens_of_a_prompt_longer_than_the_context() {
    let daemon = Daemon::start();
    let text = "a".repeat(5000);
    for raw in [true, false] {
        let body = json!({
            "model": "m", "messages": [{"role": "user", "content": text}], "raw": raw, "options": {"num_ctx": 256},
        });
        let reply = daemon.authorized("POST", "/app/cache/trace", &body.to_string()).await;
        let traced: Value = serde_json::from_str(reply.split_once('\n').unwrap().1).unwrap();
        assert!(traced["tokens"].as_u64().is_some_and(|tokens| tokens > 256), "raw {raw}: {reply}");
    }
}
