//! Conversations and prompts that are longer than the context.

use serde_json::{Value, json};

use super::*;

/// A conversation of a system message and this many turns, of which the last has no answer yet.
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

async fn asked(daemon: &Daemon, path: &str, request: &Value) -> (u16, Value) {
    let heard = daemon.post(path, &request.to_string()).await;
    let (head, body) = heard.split_once('\n').expect("a head and a body");
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
async fn whole_turns_are_left_out_and_what_was_is_told() {
    let daemon = Daemon::start();
    let all = conversation(6);
    let (_, whole) = asked(&daemon, "/api/chat", &chat(&all, 1024)).await;
    assert_eq!(whole["truncated"], Value::Null, "all of it fits: {whole}");
    let all_tokens = whole["prompt_eval_count"].as_u64().expect("a count");

    // The last two turns fit exactly, beside one token of the answer.
    let last: Vec<Value> = all[..1].iter().chain(&all[9..]).cloned().collect();
    let (_, expected) = asked(&daemon, "/api/chat", &chat(&last, 1024)).await;
    let kept_tokens = expected["prompt_eval_count"].as_u64().expect("a count");
    let context = kept_tokens + 1;
    let (status, cut) = asked(&daemon, "/api/chat", &chat(&all, context as usize)).await;
    assert_eq!((status, &cut["prompt_eval_count"]), (200, &json!(kept_tokens)), "{cut}");
    assert_eq!(cut["message"]["content"], expected["message"]["content"], "as if it had not been said: {cut}");
    let truncated = json!({
        "reason": "prompt_too_long", "turns": 4, "messages": 8, "tokens": all_tokens - kept_tokens, "context_tokens": context
    });
    assert_eq!(cut["truncated"], truncated, "what was left out");

    let (_, less) = asked(&daemon, "/api/chat", &chat(&all, context as usize - 1)).await;
    assert_eq!(less["truncated"]["turns"], 5, "a token less, and a turn more goes: {less}");

    let mut request = chat(&all, context as usize);
    request["truncate"] = false.into();
    let (status, refused) = asked(&daemon, "/api/chat", &request).await;
    let text = refused["error"].as_str().unwrap_or_default();
    assert_eq!(status, 400, "nothing may be left out: {refused}");
    assert!(
        text.starts_with("the prompt is longer than the context length currently available to the model"),
        "{text}"
    );
}

#[tokio::test]
async fn a_last_message_that_is_too_long_loses_its_middle_and_not_the_system_message() {
    let daemon = Daemon::start();
    let long = "the river is all water and light and stone and paper and green house ".repeat(30);
    let system = json!({"role": "system", "content": "answer for the world"});
    let messages =
        [system.clone(), json!({"role": "user", "content": "hello"}), json!({"role": "user", "content": long})];
    let (_, heard) = asked(&daemon, "/api/chat", &chat(&messages, 128)).await;
    let truncated = &heard["truncated"];
    assert_eq!((&truncated["turns"], &truncated["messages"]), (&json!(1), &json!(1)), "{heard}");
    let (tokens, cut) = (truncated["tokens"].as_u64(), truncated["cut_tokens"].as_u64());
    assert!(cut > Some(100) && tokens > cut, "most went out of the middle: {heard}");
    let prompt = heard["prompt_eval_count"].as_u64().expect("a count");
    assert!((64..128).contains(&prompt), "what is left has room for an answer: {heard}");

    // The next one finds the system message computed, and what stands before the text.
    let short = [system, json!({"role": "user", "content": "yes"})];
    let (_, next) = asked(&daemon, "/api/chat", &chat(&short, 128)).await;
    assert!(next["cached_tokens"].as_u64() > Some(10), "the beginning was kept as it is: {next}");
}

#[tokio::test]
async fn a_prompt_loses_its_middle_unless_it_may_not() {
    let daemon = Daemon::start();
    let mut request = json!({
        "model": "m", "prompt": "the river is all water and light ".repeat(40), "raw": true, "stream": false,
        "options": {"num_ctx": 64, "num_predict": 1, "num_keep": 8, "temperature": 0}
    });
    let (_, heard) = asked(&daemon, "/api/generate", &request).await;
    let truncated = &heard["truncated"];
    assert_eq!(heard["prompt_eval_count"], 37, "the first token, eight more, and half of what is left: {heard}");
    assert_eq!(truncated["tokens"], truncated["cut_tokens"], "nothing but the middle: {heard}");
    assert_eq!(truncated["context_tokens"], 64, "{heard}");
    for field in ["truncate", "shift"] {
        let mut request = request.clone();
        request[field] = false.into();
        let (status, refused) = asked(&daemon, "/api/generate", &request).await;
        assert_eq!(status, 400, "{field}: false leaves nothing out: {refused}");
    }
    request["options"]["num_ctx"] = 1024.into();
    let (_, whole) = asked(&daemon, "/api/generate", &request).await;
    assert_eq!(whole["truncated"], Value::Null, "all of it fits: {whole}");
}

/// A model whose answers do not end by themselves: its tokens follow each other in pairs.
fn endless(daemon: &Daemon) {
    let spec = cairn_testkit::ModelSpec { vocab: 4096, ..cairn_testkit::tiny_qwen3() };
    daemon.store("endless", &[("model", &cairn_testkit::write(&spec))]);
}

/// A conversation that fits into its context with room for 20 tokens of the answer, which is to have 120.
async fn long_answer(daemon: &Daemon, more: Value) -> Value {
    let mut request = chat(&conversation(8), 1024);
    request["model"] = "endless".into();
    let (_, heard) = asked(daemon, "/api/chat", &request).await;
    let prompt = heard["prompt_eval_count"].as_u64().expect("a count");
    request["options"]["num_ctx"] = (prompt + 20).into();
    request["options"]["num_predict"] = 120.into();
    for (name, value) in more.as_object().expect("an object") {
        match name.as_str() {
            "context_shift" => request["options"][name] = value.clone(),
            _ => request[name] = value.clone(),
        }
    }
    let (status, heard) = asked(daemon, "/api/chat", &request).await;
    assert_eq!((status, &heard["done_reason"]), (200, &json!("length")), "{heard}");
    assert_eq!(heard["prompt_eval_count"], prompt, "all of the conversation was read first: {heard}");
    heard
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_goes_on_without_the_oldest_turns_unless_it_may_not() {
    let daemon = Daemon::start();
    endless(&daemon);
    let heard = long_answer(&daemon, json!({})).await;
    assert_eq!(heard["eval_count"], 120, "it goes on to its limit: {heard}");
    let truncated = &heard["truncated"];
    assert_eq!(truncated["reason"], "context_full", "{heard}");
    let (turns, messages) = (truncated["turns"].as_u64(), truncated["messages"].as_u64());
    assert!(turns > Some(1) && turns < Some(8) && messages == turns.map(|turns| 2 * turns), "whole turns: {heard}");
    assert_eq!(truncated["cut_tokens"], Value::Null, "and nothing else: {heard}");
    let whole = heard["message"]["content"].as_str().expect("a text").to_owned();
    for (field, value) in [("shift", false), ("truncate", false)] {
        let heard = long_answer(&daemon, json!({field: value})).await;
        assert_eq!((&heard["eval_count"], &heard["truncated"]), (&json!(20), &Value::Null), "{field}: {heard}");
        let begun = heard["message"]["content"].as_str().expect("a text");
        assert!(whole.starts_with(begun), "up to there it is the same: {begun:?}, {whole:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_goes_on_with_moved_rows_where_that_is_asked_for() {
    let daemon = Daemon::start();
    endless(&daemon);
    let heard = long_answer(&daemon, json!({"context_shift": "rope"})).await;
    assert_eq!(heard["eval_count"], 120, "it goes on to its limit: {heard}");
    let truncated = &heard["truncated"];
    let cut = truncated["cut_tokens"].as_u64().expect("tokens were left out of the middle");
    assert!(cut > 0 && cut.is_multiple_of(64), "by whole pages: {heard}");
    let expected = json!({
        "reason": "context_full", "turns": 0, "messages": 0, "tokens": cut, "cut_tokens": cut,
        "context_tokens": truncated["context_tokens"]
    });
    assert_eq!(truncated, &expected, "and no turns");

    let mut request = json!({
        "model": "endless", "prompt": "the river", "raw": true, "stream": false,
        "options": {"num_ctx": 256, "num_predict": 400, "temperature": 0}
    });
    let (_, plain) = asked(&daemon, "/api/generate", &request).await;
    assert_eq!(
        (&plain["done_reason"], &plain["truncated"]),
        (&json!("length"), &Value::Null),
        "it has no turns: {plain}"
    );
    assert!(plain["eval_count"].as_u64() < Some(256), "so it ends with its context: {plain}");
    request["options"]["context_shift"] = "rope".into();
    let (_, shifted) = asked(&daemon, "/api/generate", &request).await;
    assert_eq!(shifted["eval_count"], 400, "it goes on: {shifted}");
    request["options"]["context_shift"] = "slide".into();
    let (status, refused) = asked(&daemon, "/api/generate", &request).await;
    let error = "unknown context_shift \"slide\": it must be turns or rope";
    let expected = json!({"error": error, "code": "option_invalid", "params": {"reason": error}});
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
        let heard = daemon.own("POST", "/app/cache/trace", &body.to_string()).await;
        let traced: Value = serde_json::from_str(heard.split_once('\n').unwrap().1).unwrap();
        assert!(traced["tokens"].as_u64().is_some_and(|tokens| tokens > 256), "raw {raw}: {heard}");
    }
}
