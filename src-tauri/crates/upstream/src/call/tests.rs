//! Tests with real sockets: retries, cancellation, deadlines and exact bytes.

use std::time::Duration;

use cairn_prompt::Delta;
use cairn_testkit::upstream::{Api, FakeUpstream, Step, ollama_answer, openai_answer};
use cairn_wire::Usage;
use cairn_wire::ollama::{ChatRequest, GenerateRequest, Message as ChatMessage};
use serde_json::{Value, json};

use super::*;
use crate::client::{Deadlines, RemoteKey, UpstreamClient};
use crate::detect::{Detected, detect};
use crate::request::Endpoint;
use crate::server_kind::ServerKind;
use crate::upstream::tests::http;

const PATIENT: Deadlines =
    Deadlines { list: Duration::from_secs(10), first_token: Duration::from_secs(20), idle: Duration::from_secs(20) };

fn client(url: &str, key: Option<&str>, deadlines: Deadlines) -> UpstreamClient {
    UpstreamClient::new(http(), "gpu", url.parse().unwrap(), key.and_then(RemoteKey::new), deadlines)
}

fn upstream(name: &str, kind: ServerKind, url: &str, deadlines: Deadlines) -> Arc<Upstream> {
    let client = UpstreamClient::new(http(), name, url.parse().unwrap(), None, deadlines);
    Arc::new(Upstream::new(name, kind, client))
}

/// A plan that tries the first server first.
fn plan(upstreams: &[&Arc<Upstream>]) -> Plan {
    let target = |upstream: &&Arc<Upstream>| Target { upstream: Arc::clone(upstream), model: "m".to_owned() };
    Plan { targets: upstreams.iter().map(target).collect(), prefix: Prefix::of_hashes(Vec::new()), is_incognito: false }
}

fn chat() -> Request {
    let message = ChatMessage { role: "user".to_owned(), content: "Why?".to_owned(), ..ChatMessage::default() };
    Request::Chat(Box::new(ChatRequest { model: "m".to_owned(), messages: vec![message], ..ChatRequest::default() }))
}

fn raw(endpoint: Endpoint, body: Value) -> Request {
    let Value::Object(body) = body else { panic!("an object") };
    Request::Raw { endpoint, body }
}

/// The bytes, the text, the usage and the error of a call.
async fn collect(mut call: Call) -> (Vec<u8>, String, Option<Usage>, Option<CallError>) {
    let (mut bytes, mut text, mut end) = (Vec::new(), String::new(), None);
    while let Some(frame) = call.next().await {
        let frame = match frame {
            Ok(frame) => frame,
            Err(error) => return (bytes, text, end, Some(error)),
        };
        bytes.extend_from_slice(&frame.bytes);
        for piece in frame.pieces {
            match piece {
                Piece::Delta(Delta::Text(more)) => text += &more,
                Piece::Delta(_) | Piece::CallFragment => {}
                Piece::End(usage) => end = Some(*usage),
            }
        }
    }
    (bytes, text, end, None)
}

fn sent(steps: &[Step]) -> String {
    let text = |step: &Step| match step {
        Step::Send(text) => text.clone(),
        _ => String::new(),
    };
    steps.iter().map(text).collect()
}

#[tokio::test]
async fn unread_frames_are_limited_in_bytes() {
    let text = "x".repeat(QUEUED_BYTES as usize - 1000);
    let server = FakeUpstream::start(Api::Ollama, &["m"], ollama_answer(&[text.as_str(); 8])).unwrap();
    let upstream = upstream("gpu", ServerKind::Ollama, &server.url(), PATIENT);
    let call = Call::start(plan(&[&upstream]), chat());
    let end = Instant::now() + Duration::from_secs(20);
    while call.messages.queued() < 2 && Instant::now() < end {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    // Time for frames that would be too many.
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert_eq!(call.messages.queued(), 2, "the acceptance and one frame");
    let (_, received, _, error) = collect(call).await;
    assert!(error.is_none() && received.len() == 8 * text.len(), "{} bytes, {error:?}", received.len());
}

#[tokio::test]
async fn kind_of_server_is_detected() {
    let check = async |api, expected| {
        let server = FakeUpstream::start(api, &["a", "b"], Vec::new()).unwrap();
        let client = client(&server.url(), None, PATIENT);
        assert_eq!(detect(&client).await, Ok(Detected { kind: expected, instance: None }), "{api:?}");
        let upstream = Upstream::new("gpu", expected, client);
        upstream.check().await.unwrap();
        let names: Vec<_> = upstream.models().iter().map(|model| model.name.clone()).collect();
        assert_eq!(names, ["a", "b"], "{api:?}");
        let capabilities: &[&str] = if api == Api::Ollama { &["completion", "tools"] } else { &[] };
        assert_eq!(upstream.models()[0].capabilities, capabilities, "from the description of {api:?}");
    };
    check(Api::Ollama, ServerKind::Ollama).await;
    check(Api::OpenAi, ServerKind::OpenAi).await;
    let closed = client("http://127.0.0.1:9", None, PATIENT);
    assert!(matches!(detect(&closed).await, Err(Failure::Connect { .. })), "no server");
}

#[tokio::test]
async fn stream_is_passed_on_byte_by_byte_and_counted() {
    let steps = vec![
        Step::Send(": ping\r\n\r\nda".to_owned()),
        Step::Send("ta: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"S\"},\"x\":1.50}]}\n".to_owned()),
        Step::Send("\n".to_owned()),
        Step::Send("data:{\"choices\":[{\"index\":0,\"delta\":{\"content\":\"o\"},\"finish_reason\":\"stop\"}],\"usage\":{\"prompt_tokens\":9,\"completion_tokens\":2}}\n\ndata: [DONE]\n\n".to_owned()),
    ];
    let server = FakeUpstream::start(Api::OpenAi, &["m"], steps.clone()).unwrap();
    let upstream = upstream("gpu", ServerKind::OpenAi, &server.url(), PATIENT);
    let body = json!({"model": "m", "stream": true, "messages": [], "guided_regex": "x"});
    let call = Call::start(plan(&[&upstream]), raw(Endpoint::OpenAiChat, body));
    let (bytes, text, usage, error) = collect(call).await;
    assert_eq!(error, None);
    assert_eq!(String::from_utf8(bytes).unwrap(), sent(&steps), "the bytes of the server");
    assert_eq!((text.as_str(), usage.unwrap().prompt_tokens), ("So", 9));
    assert_eq!(server.seen()[0].body["guided_regex"], "x", "unknown fields are passed on");
    let counts = upstream.counts();
    assert_eq!((counts.requests, counts.complete, counts.prompt_tokens, counts.answer_tokens), (1, 1, 9, 2));
}

#[tokio::test]
async fn whole_answer_without_text_is_passed_on() {
    let json = r#"{"choices":[{"message":{"content":""},"finish_reason":"length"}]}"#;
    let server = FakeUpstream::start(Api::OpenAi, &["m"], vec![Step::Send(json.to_owned())]).unwrap();
    let upstream = upstream("gpu", ServerKind::OpenAi, &server.url(), PATIENT);
    let call = Call::start(plan(&[&upstream]), raw(Endpoint::OpenAiChat, json!({"model": "m", "messages": []})));
    let (bytes, text, usage, error) = collect(call).await;
    assert_eq!((String::from_utf8(bytes).unwrap().as_str(), text.as_str(), error), (json, "", None));
    assert!(usage.unwrap().length_reached);
}

#[tokio::test]
async fn large_response_is_parsed_and_passed_on() {
    let json = format!(r#"{{"embeddings":[[{}1.0]],"prompt_eval_count":7}}"#, "0.25,".repeat(400_000));
    let server = FakeUpstream::start(Api::Ollama, &["m"], vec![Step::Send(json.clone())]).unwrap();
    let upstream = upstream("gpu", ServerKind::Ollama, &server.url(), PATIENT);
    let call = Call::start(plan(&[&upstream]), raw(Endpoint::OllamaEmbed, json!({"model": "m", "input": "a"})));
    let (bytes, _, usage, error) = collect(call).await;
    assert_eq!((bytes.len(), usage.unwrap().prompt_tokens, error), (json.len(), 7, None));
    assert!(bytes == json.as_bytes(), "the bytes of the server");
}

#[tokio::test]
async fn usage_is_counted_and_hidden_unless_requested() {
    let steps = openai_answer(&["So", "."]);
    let server = FakeUpstream::start(Api::OpenAi, &["m"], steps.clone()).unwrap();
    let upstream = upstream("gpu", ServerKind::OpenAi, &server.url(), PATIENT);
    let request = |options: Value| {
        let body = json!({"model": "m", "stream": true, "messages": [], "stream_options": options});
        Call::start(plan(&[&upstream]), raw(Endpoint::OpenAiChat, body))
    };
    let (bytes, _, usage, _) = collect(request(json!({"include_usage": true}))).await;
    assert_eq!(String::from_utf8(bytes).unwrap(), sent(&steps));
    assert_eq!(usage.unwrap().cached_tokens, 12);
    let (bytes, _, usage, _) = collect(request(Value::Null)).await;
    let expected: String =
        sent(&steps).split_inclusive("\n\n").filter(|event| !event.contains("total_tokens")).collect();
    assert_eq!(String::from_utf8(bytes).unwrap(), expected, "all events but that of the usage");
    assert_eq!((usage.unwrap().answer_tokens, upstream.counts().answer_tokens), (2, 4), "counted all the same");
    server.set_steps(openai_answer(&[]));
    let (bytes, _, usage, _) = collect(request(Value::Null)).await;
    assert!(!String::from_utf8(bytes).unwrap().contains("total_tokens"), "an answer without text");
    assert_eq!(usage.unwrap().prompt_tokens, 20);
}

#[tokio::test]
async fn answer_is_the_same_from_both_kinds_of_server() {
    for (api, kind, steps) in [
        (Api::Ollama, ServerKind::Ollama, ollama_answer(&["So", "."])),
        (Api::OpenAi, ServerKind::OpenAi, openai_answer(&["So", "."])),
    ] {
        let server = FakeUpstream::start(api, &["m"], steps).unwrap();
        let upstream = upstream("gpu", kind, &server.url(), PATIENT);
        let (_, text, usage, error) = collect(Call::start(plan(&[&upstream]), chat())).await;
        let usage = usage.unwrap();
        assert_eq!((error, text.as_str()), (None, "So."), "{api:?}");
        assert_eq!((usage.prompt_tokens, usage.cached_tokens, usage.answer_tokens), (20, 12, 2), "{api:?}");
        assert_eq!(server.seen()[0].head.header("x-cairn-remote"), Some("1"));
    }
}

/// An event with a fragment of a tool call.
fn fragment(arguments: &str) -> String {
    let call = json!({"index": 0, "function": {"name": "", "arguments": arguments}});
    format!("data: {}\n\n", json!({"choices": [{"index": 0, "delta": {"tool_calls": [call]}, "finish_reason": null}]}))
}

#[tokio::test]
async fn fragment_of_a_tool_call_is_passed_on_at_once() {
    let server = FakeUpstream::start(Api::OpenAi, &["m"], vec![Step::Send(fragment("{")), Step::Hold]).unwrap();
    let upstream = upstream("gpu", ServerKind::OpenAi, &server.url(), PATIENT);
    let body = json!({"model": "m", "stream": true, "messages": []});
    let mut call = Call::start(plan(&[&upstream]), raw(Endpoint::OpenAiChat, body));
    let first = timeout(Duration::from_secs(10), call.next()).await.expect("no wait for the end").unwrap().unwrap();
    assert_eq!((first.bytes, first.pieces), (Bytes::from(fragment("{")), vec![Piece::CallFragment]));
}

#[tokio::test]
async fn long_tool_call_is_translated() {
    let word = "x".repeat(200);
    let events: String = std::iter::once(fragment("{\"text\":\""))
        .chain((0..5000).map(|_| fragment(&word)))
        .chain([
            fragment("\"}"),
            "data: {\"choices\":[{\"delta\":{},\"finish_reason\":\"tool_calls\"}]}\n\n".to_owned(),
        ])
        .collect();
    let server =
        FakeUpstream::start(Api::OpenAi, &["m"], vec![Step::Send(events), Step::Send("data: [DONE]\n\n".to_owned())])
            .unwrap();
    let upstream = upstream("gpu", ServerKind::OpenAi, &server.url(), PATIENT);
    let mut call = Call::start(plan(&[&upstream]), chat());
    let mut length = 0;
    while let Some(frame) = call.next().await {
        for piece in frame.expect("no failure").pieces {
            if let Piece::Delta(Delta::ToolCall(call)) = piece {
                length = call.arguments["text"].as_str().unwrap().len();
            }
        }
    }
    assert_eq!(length, 1_000_000);
}

#[tokio::test]
async fn request_is_repeated_at_another_server_before_the_first_token() {
    let role = "{\"message\":{\"role\":\"assistant\",\"content\":\"\"},\"done\":false}\n".to_owned();
    let failures = [
        vec![Step::Status(500, r#"{"error":"out of memory"}"#.to_owned())],
        vec![Step::Status(429, String::new())],
        vec![Step::Status(404, String::new())],
        vec![Step::Break],
        vec![Step::Send(role.clone()), Step::Break],
        vec![Step::Send("<html>\n".to_owned())],
        vec![Step::Send("{\"error\":\"cannot load\"}\n".to_owned())],
        vec![Step::Redirect("http://127.0.0.1:9/".to_owned())],
    ];
    let good = FakeUpstream::start(Api::Ollama, &["m"], ollama_answer(&["So"])).unwrap();
    let second = upstream("b", ServerKind::Ollama, &good.url(), PATIENT);
    for (at, steps) in failures.into_iter().enumerate() {
        let server = FakeUpstream::start(Api::Ollama, &["m"], steps.clone()).unwrap();
        let first = upstream("a", ServerKind::Ollama, &server.url(), PATIENT);
        let (bytes, text, _, error) = collect(Call::start(plan(&[&first, &second]), chat())).await;
        assert_eq!((error, text.as_str()), (None, "So"), "{steps:?}");
        assert!(!String::from_utf8(bytes).unwrap().contains(&role), "nothing of the first server reaches the client");
        assert_eq!((server.seen().len(), good.seen().len()), (1, at + 1), "{steps:?}");
        assert_eq!((first.counts().retried, second.counts().complete), (1, at as u64 + 1));
    }
    let gone = upstream("a", ServerKind::Ollama, "http://127.0.0.1:9", PATIENT);
    let (_, text, _, error) = collect(Call::start(plan(&[&gone, &second]), chat())).await;
    assert_eq!((error, text.as_str()), (None, "So"), "no connection");
}

#[tokio::test]
async fn only_repeated_requests_count_as_retried() {
    let failing = || FakeUpstream::start(Api::OpenAi, &["m"], vec![Step::Status(500, String::new())]).unwrap();
    let servers: Vec<_> = (0..6).map(|_| failing()).collect();
    let upstreams: Vec<_> =
        servers.iter().map(|server| upstream("gpu", ServerKind::OpenAi, &server.url(), PATIENT)).collect();
    let all: Vec<&Arc<Upstream>> = upstreams.iter().collect();
    let retried = || upstreams.iter().map(|upstream| upstream.counts().retried).collect::<Vec<_>>();
    let (_, _, _, error) = collect(Call::start(plan(&all), chat())).await;
    assert!(matches!(&error, Some(CallError::Failed { .. })), "{error:?}");
    assert_eq!(retried(), [1, 1, 1, 0, 0, 0], "the last of {MAX_ATTEMPTS} attempts is not repeated");
    let raw_prompt = Request::Generate(Box::new(GenerateRequest { raw: Some(true), ..GenerateRequest::default() }));
    let (_, _, _, error) = collect(Call::start(plan(&all), raw_prompt)).await;
    assert!(matches!(&error, Some(CallError::Translation { .. })), "{error:?}");
    assert_eq!(retried(), [1, 1, 1, 0, 0, 0], "a request that is not sent is not repeated");
}

#[tokio::test]
async fn server_that_cannot_get_a_request_hides_no_failure_and_counts_as_no_attempt() {
    let raw = || Request::Generate(Box::new(GenerateRequest { raw: Some(true), ..GenerateRequest::default() }));
    let failing = FakeUpstream::start(Api::Ollama, &["m"], vec![Step::Status(500, String::new())]).unwrap();
    let others: Vec<_> =
        (0..2 * MAX_ATTEMPTS).map(|_| upstream("other", ServerKind::OpenAi, "http://127.0.0.1:9", PATIENT)).collect();
    // Whatever the order in which they are tried: `first` fails, and the others cannot get the request.
    for first_at in [0, others.len()] {
        let first = upstream("first", ServerKind::Ollama, &failing.url(), PATIENT);
        let mut all: Vec<&Arc<Upstream>> = others.iter().collect();
        all.insert(first_at, &first);
        let (_, _, _, error) = collect(Call::start(plan(&all), raw())).await;
        let is_of_first = matches!(&error, Some(CallError::Failed { remote, .. }) if remote == "first");
        assert!(is_of_first, "at {first_at}: {error:?}");
    }
    assert_eq!(failing.seen().len(), 2, "the servers before it use up no attempts");
}

#[tokio::test]
async fn request_is_never_repeated_after_the_first_token() {
    let steps = vec![ollama_answer(&["So"]).remove(0), Step::Break];
    let server = FakeUpstream::start(Api::Ollama, &["m"], steps).unwrap();
    let first = upstream("a", ServerKind::Ollama, &server.url(), PATIENT);
    let good = FakeUpstream::start(Api::Ollama, &["m"], ollama_answer(&["So"])).unwrap();
    let second = upstream("b", ServerKind::Ollama, &good.url(), PATIENT);
    let (_, text, _, error) = collect(Call::start(plan(&[&first, &second]), chat())).await;
    assert!(matches!(&error, Some(CallError::Interrupted { remote, .. }) if remote == "a"), "{error:?}");
    assert_eq!((text.as_str(), good.seen().len(), first.counts().failed), ("So", 0, 1));
}

#[tokio::test]
async fn refused_request_is_not_repeated() {
    let refusal = json!({"error": "invalid options at 127.0.0.1"}).to_string();
    let server = FakeUpstream::start(Api::Ollama, &["m"], vec![Step::Status(400, refusal)]).unwrap();
    let first = upstream("a", ServerKind::Ollama, &server.url(), PATIENT);
    let good = FakeUpstream::start(Api::Ollama, &["m"], ollama_answer(&["So"])).unwrap();
    let second = upstream("b", ServerKind::Ollama, &good.url(), PATIENT);
    let mut call = Call::start(plan(&[&first, &second]), chat());
    let error = call.accepted(Duration::from_secs(10)).await.expect_err("the server refuses");
    assert_eq!(error.to_string(), "remote \"a\": the server responded with status 400: invalid options at a");
    assert!(call.next().await.is_none() && good.seen().is_empty());
    assert!(!first.is_circuit_open() && first.counts().failed == 0, "the client's mistake");
}

#[tokio::test]
async fn cancellation_closes_the_connection_to_the_server() {
    for steps in [vec![Step::Hold], vec![ollama_answer(&["So"]).remove(0), Step::Hold]] {
        let server = FakeUpstream::start(Api::Ollama, &["m"], steps.clone()).unwrap();
        let upstream = upstream("gpu", ServerKind::Ollama, &server.url(), PATIENT);
        let mut call = Call::start(plan(&[&upstream]), chat());
        call.accepted(Duration::from_secs(10)).await.unwrap();
        if steps.len() > 1 {
            call.next().await.unwrap().unwrap();
        }
        assert_eq!(upstream.outstanding(), 1);
        drop(call);
        assert!(tokio::task::spawn_blocking(move || server.wait_for_closed(1)).await.unwrap(), "{steps:?}");
        tokio::time::sleep(Duration::from_millis(50)).await;
        assert_eq!((upstream.outstanding(), upstream.counts().failed), (0, 0), "{steps:?}");
    }
}

#[tokio::test]
async fn silent_server_is_left_after_its_deadline() {
    let short = Deadlines { first_token: Duration::from_millis(300), idle: Duration::from_millis(200), ..PATIENT };
    let check = async |steps: Vec<Step>, expected: &str| {
        let server = FakeUpstream::start(Api::Ollama, &["m"], steps).unwrap();
        let upstream = upstream("gpu", ServerKind::Ollama, &server.url(), short);
        let (_, _, _, error) = collect(Call::start(plan(&[&upstream]), chat())).await;
        let error = error.expect("a failure").to_string();
        assert!(error.contains(expected), "{error}");
        assert_eq!(upstream.outstanding(), 0);
    };
    check(vec![Step::Pause(Duration::from_secs(2))], "no response within 0.3 s").await;
    check(vec![Step::Send("\n".to_owned()), Step::Hold], "no first token within 0.3 s").await;
    check(vec![ollama_answer(&["So"]).remove(0), Step::Hold], "no part of the answer within 0.2 s").await;
}

#[tokio::test]
async fn complete_answer_does_not_wait_for_the_end_of_the_response() {
    let check = async |api, kind, mut steps: Vec<Step>, last: Step| {
        steps.push(last);
        let server = FakeUpstream::start(api, &["m"], steps).unwrap();
        let upstream = upstream("gpu", kind, &server.url(), PATIENT);
        let started_at = Instant::now();
        let (_, text, usage, error) = collect(Call::start(plan(&[&upstream]), chat())).await;
        assert_eq!((error, text.as_str(), usage.unwrap().answer_tokens), (None, "So", 1), "{api:?}");
        assert!(started_at.elapsed() < Duration::from_secs(10), "{:?}", started_at.elapsed());
        assert_eq!((upstream.counts().complete, upstream.counts().failed), (1, 0), "{api:?}");
    };
    for last in [Step::Hold, Step::Break, Step::Send("<html>\n\n".to_owned())] {
        check(Api::Ollama, ServerKind::Ollama, ollama_answer(&["So"]), last.clone()).await;
        check(Api::OpenAi, ServerKind::OpenAi, openai_answer(&["So"]), last).await;
    }
}

#[tokio::test]
async fn error_response_that_never_ends_is_read_until_the_deadline_of_lists() {
    let step = Step::EndlessStatus(400, "{\"error\":\"no such".to_owned());
    let server = FakeUpstream::start(Api::Ollama, &["m"], vec![step]).unwrap();
    let short = Deadlines { list: Duration::from_millis(300), ..PATIENT };
    let upstream = upstream("gpu", ServerKind::Ollama, &server.url(), short);
    let started_at = Instant::now();
    let (_, _, _, error) = collect(Call::start(plan(&[&upstream]), chat())).await;
    let error = error.expect("a failure").to_string();
    assert!(error.contains("status 400: {\"error\":\"no such"), "what was read is kept: {error}");
    assert!(started_at.elapsed() < PATIENT.list, "{:?}", started_at.elapsed());
}

#[tokio::test]
async fn client_waits_for_headers_only_a_short_time() {
    let server =
        FakeUpstream::start(Api::Ollama, &["m"], vec![Step::Pause(Duration::from_millis(500)), Step::Hold]).unwrap();
    let upstream = upstream("gpu", ServerKind::Ollama, &server.url(), PATIENT);
    let mut call = Call::start(plan(&[&upstream]), chat());
    let started_at = Instant::now();
    call.accepted(Duration::from_millis(50)).await.unwrap();
    assert!(started_at.elapsed() < Duration::from_millis(400), "{:?}", started_at.elapsed());
}

#[tokio::test]
async fn key_is_never_sent_to_the_target_of_a_redirect() {
    let other = FakeUpstream::start(Api::OpenAi, &["m"], openai_answer(&["So"])).unwrap();
    let redirect = vec![Step::Redirect(format!("{}/v1/chat/completions", other.url()))];
    let server = FakeUpstream::start(Api::OpenAi, &["m"], redirect).unwrap();
    let upstream =
        Arc::new(Upstream::new("gpu", ServerKind::OpenAi, client(&server.url(), Some("sk-secret"), PATIENT)));
    let (_, _, _, error) = collect(Call::start(plan(&[&upstream]), chat())).await;
    assert!(matches!(&error, Some(CallError::Failed { failure: Failure::Redirect, .. })), "{error:?}");
    assert_eq!(server.seen()[0].head.header("authorization"), Some("Bearer sk-secret"), "its own host");
    assert!(other.seen().is_empty() && other.lists() == 0, "the redirect was not followed");
}

#[tokio::test]
async fn failed_server_gets_no_requests_until_its_cool_down_ends() {
    let server = FakeUpstream::start(Api::Ollama, &["m"], vec![Step::Status(502, String::new())]).unwrap();
    let upstream = upstream("gpu", ServerKind::Ollama, &server.url(), PATIENT);
    for _ in 0..3 {
        collect(Call::start(plan(&[&upstream]), chat())).await;
    }
    let (_, _, _, error) = collect(Call::start(plan(&[&upstream]), chat())).await;
    assert!(matches!(&error, Some(CallError::Unavailable { .. })), "{error:?}");
    assert_eq!(server.seen().len(), 3, "the circuit is open");
    server.set_steps(ollama_answer(&["So"]));
    upstream.check().await.unwrap();
    let (_, text, _, _) = collect(Call::start(plan(&[&upstream]), chat())).await;
    assert_eq!(text, "So", "a successful check lets a probe through");
    assert!(!upstream.is_circuit_open(), "a successful probe closes the circuit");
}

#[tokio::test]
async fn failures_of_one_model_do_not_open_the_circuit_of_its_server() {
    let incomplete = vec![Step::Send(fragment("{"))];
    for steps in [vec![Step::Status(500, String::new())], vec![Step::Send("<html>\n\n".to_owned())], incomplete] {
        let server = FakeUpstream::start(Api::OpenAi, &["m"], steps.clone()).unwrap();
        let upstream = upstream("gpu", ServerKind::OpenAi, &server.url(), PATIENT);
        for _ in 0..4 {
            collect(Call::start(plan(&[&upstream]), chat())).await;
        }
        assert!(!upstream.is_circuit_open(), "{steps:?}");
        assert_eq!((server.seen().len(), upstream.counts().failed), (4, 4), "{steps:?}");
    }
}

#[tokio::test]
async fn server_that_lists_models_and_fails_answers_gets_one_probe_after_each_cool_down() {
    let server = FakeUpstream::start(Api::Ollama, &["m"], vec![Step::Status(502, String::new())]).unwrap();
    let upstream = upstream("gpu", ServerKind::Ollama, &server.url(), PATIENT);
    upstream.check().await.unwrap();
    for round in 0..2 {
        for _ in 0..3 {
            collect(Call::start(plan(&[&upstream]), chat())).await;
        }
        assert_eq!(server.seen().len(), 3, "round {round}");
        upstream.check().await.unwrap();
        assert!(upstream.is_circuit_open(), "round {round}");
        let failure = upstream.circuit_failure();
        assert!(matches!(failure, Some(Failure::Status { status: 502, .. })), "round {round}: {failure:?}");
        assert!(upstream.latency().is_some(), "it listed its models");
    }
    server.set_list_status(500);
    upstream.check().await.expect_err("the server is down");
    assert_eq!(upstream.latency(), None, "it did not list them");
    server.set_list_status(200);
    upstream.check().await.unwrap();
    collect(Call::start(plan(&[&upstream]), chat())).await;
    assert_eq!(server.seen().len(), 4, "a server that comes up gets a probe");
}

#[tokio::test]
async fn conversation_returns_to_its_server() {
    let servers: Vec<_> =
        (0..3).map(|_| FakeUpstream::start(Api::Ollama, &["m"], ollama_answer(&["So"])).unwrap()).collect();
    let upstreams: Vec<_> =
        servers.iter().map(|server| upstream("gpu", ServerKind::Ollama, &server.url(), PATIENT)).collect();
    let all: Vec<&Arc<Upstream>> = upstreams.iter().collect();
    let ask = async |blocks: Vec<u64>| {
        let plan = Plan { prefix: Prefix::of_hashes(blocks), ..plan(&all) };
        collect(Call::start(plan, chat())).await;
        servers.iter().map(|server| server.seen().len()).collect::<Vec<_>>()
    };
    assert_eq!(ask((0..9).collect()).await, [1, 0, 0], "the first of empty servers");
    assert_eq!(ask((100..109).collect()).await, [1, 1, 0], "an empty server");
    assert_eq!(ask((0..12).collect()).await, [2, 1, 0], "the next turn of the first conversation");
    assert_eq!(ask((100..112).collect()).await, [2, 2, 0], "the next turn of the second");
    assert_eq!(upstreams[1].counts().matching_blocks, 9);
}
