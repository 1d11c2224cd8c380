//! The OpenAI and Anthropic APIs, through their own client libraries.

use cairn_testkit::{CALLER_RESULT, tool_caller};
use serde_json::{Value, json};

use crate::cairn::{Home, succeeded};
use crate::clients::script;

/// Runs a client script against a daemon with the model `caller`, which recites tool calls. Returns its report.
fn report(name: &str) -> Value {
    let home = Home::new();
    let file = home.folder.path().join("caller.gguf");
    std::fs::write(&file, tool_caller()).expect("the home is writable");
    let _daemon = home.serve();
    succeeded(&home.run(&["import", &file.to_string_lossy(), "caller"]));
    let report = script(name, &[&format!("http://127.0.0.1:{}", home.port), "caller"]);
    println!("{report:#}");
    report
}

fn calls() -> Value {
    json!([["weather", {"city": "Oslo", "days": 2}], ["clock", {}]])
}

#[test]
fn openai_package_chats_streams_and_calls_tools() {
    let report = report("openai_api.py");
    assert_eq!(report["models"], json!(["caller:latest", "pebble:latest"]), "all models");
    assert_eq!(report["model"], "pebble:latest", "one model");
    let (chat, streamed) = (&report["chat"], &report["streamed"]);
    assert!(chat["text"].as_str().is_some_and(|text| !text.is_empty()), "{chat}");
    assert_eq!(chat["text"], streamed["text"], "streaming does not change the answer");
    assert_eq!(chat["usage"], streamed["usage"], "nor the usage");
    assert_eq!((&chat["finish_reason"], &streamed["finish_reason"]), (&json!("length"), &json!(["length"])));
    let prompt = chat["usage"][0].as_u64().expect("a number");
    assert_eq!(streamed["cached"], prompt - 1, "the second request computes only the last token of its prompt");
    assert_eq!(report["several"], json!([[0, 8, true], [1, 8, true]]), "two answers with logprobs");
    assert_eq!(report["completion"], report["completion_streamed"], "streaming does not change the text");
    let tools = &report["tools"];
    assert_eq!(tools["calls"], calls(), "the calls in order");
    assert_eq!(tools["finish_reason"], "tool_calls", "{tools}");
    assert_eq!(tools["answer"], json!([CALLER_RESULT, "stop"]), "{tools}");
    assert_eq!(report["tools_streamed"], calls(), "the package joins the deltas");
    let responses = &report["responses"];
    let text = &responses["text"];
    assert!(text.as_str().is_some_and(|text| !text.is_empty()), "{responses}");
    assert_eq!(responses["streamed"], json!([text, text]), "streaming does not change the answer");
    assert_eq!(responses["status"], json!(["incomplete", "max_output_tokens", "incomplete"]), "{responses}");
    assert_eq!(responses["usage"][0], responses["usage"][1], "the same usage");
    assert!(responses["number"].as_u64().is_some_and(|n| (3..=5).contains(&n)), "{responses}");
    assert_eq!((&responses["calls"], &responses["streamed_calls"]), (&calls(), &calls()), "the calls in order");
    assert_eq!(responses["answer"], CALLER_RESULT, "{responses}");
    let refusals = json!({
        "missing": ["NotFoundError", 404, "model_not_found"],
        "image": ["BadRequestError", 400, "capability_missing"],
        "no messages": ["BadRequestError", 400, "invalid_request"],
        "stored": ["BadRequestError", 400, "invalid_request"],
        "no route": ["NotFoundError", 404, "not_found"],
    });
    assert_eq!(report["refusals"], refusals, "the package's error classes");
}

#[test]
fn anthropic_package_chats_streams_and_calls_tools() {
    let report = report("anthropic_api.py");
    let (message, streamed) = (&report["message"], &report["streamed"]);
    assert!(message["text"].as_str().is_some_and(|text| !text.is_empty()), "{message}");
    assert_eq!(message, streamed, "streaming changes nothing");
    assert_eq!((&message["stop_reason"], &message["output_tokens"]), (&json!("max_tokens"), &json!(12)), "{message}");
    assert_eq!(report["counted"], message["tokens"], "the tokens of the prompt");
    let tools = &report["tools"];
    assert_eq!(tools["calls"], calls(), "the calls in order");
    assert_eq!(tools["stop_reason"], "tool_use", "{tools}");
    assert_eq!(tools["answer"], json!([[CALLER_RESULT], "end_turn"]), "{tools}");
    let refusals = json!({
        "missing": ["NotFoundError", 404, "not_found_error"],
        "image": ["BadRequestError", 400, "invalid_request_error"],
        "no messages": ["BadRequestError", 400, "invalid_request_error"],
    });
    assert_eq!(report["refusals"], refusals, "the package's error classes");
}
