//! Tests of reading answers.

use super::*;

/// The pieces of frames as one line.
fn line(mut reader: Reader, framing: Framing, frames: &[&str]) -> String {
    let mut words = Vec::new();
    let mut add = |piece: Piece| {
        words.push(match piece {
            Piece::Delta(Delta::Text(text)) => text,
            Piece::Delta(Delta::Thinking(text)) => format!("({text})"),
            Piece::Delta(Delta::ToolCall(call)) => format!("{}{}", call.name, call.arguments),
            Piece::CallFragment => "+".to_owned(),
            Piece::End(usage) => {
                let Usage { prompt_tokens, cached_tokens, answer_tokens, length_reached, .. } = *usage;
                format!("end {prompt_tokens}/{cached_tokens}/{answer_tokens}/{length_reached}")
            }
        });
    };
    for frame in frames {
        match reader.read(framing, frame.as_bytes()) {
            Ok(pieces) => pieces.into_iter().for_each(&mut add),
            Err(failure) => return format!("{}! {failure}", words.join("|")),
        }
    }
    reader.finish(framing).into_iter().for_each(&mut add);
    words.join("|")
}

fn open_ai() -> Reader {
    Reader::OpenAi(Box::new(OpenAiReader::translating()))
}

#[test]
fn lines_of_ollama_have_text_tool_calls_and_usage() {
    let frames = [
        r#"{"model":"m","message":{"role":"assistant","content":"","thinking":"hm"},"done":false}"#,
        r#"{"message":{"content":"So"},"done":false}"#,
        r#"{"message":{"content":"","tool_calls":[{"function":{"name":"add","arguments":{"a":1}}}]},"done":false}"#,
        "\n",
        r#"{"message":{"content":"."},"done":true,"done_reason":"length","prompt_eval_count":9,"eval_count":3,"cached_tokens":4}"#,
    ];
    assert_eq!(line(Reader::Ollama, Framing::Lines, &frames), r#"(hm)|So|add{"a":1}|.|end 9/4/3/true"#);
    let frames = [r#"{"response":"a","done":false}"#, r#"{"response":"","done":true}"#];
    assert_eq!(line(Reader::Ollama, Framing::Lines, &frames), "a|end 0/0/0/false", "of a generate request");
    let error = line(Reader::Ollama, Framing::Lines, &[r#"{"error":"out of memory"}"#]);
    assert_eq!(error, "! the server reported an error: out of memory");
}

#[test]
fn events_of_openai_have_text_tool_calls_and_usage() {
    let frames = [
        ": comment\n\n",
        "data: {\"choices\":[{\"index\":0,\"delta\":{\"role\":\"assistant\",\"content\":null,\"reasoning_content\":\"hm\"}}]}\n\n",
        "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"So\"},\"finish_reason\":null}],\"usage\":null}\n\n",
        "data: {\"choices\":[{\"delta\":{\"tool_calls\":[{\"index\":0,\"id\":\"c\",\"function\":{\"name\":\"add\",\"arguments\":\"{\\\"a\\\"\"}}]}}]}\n\n",
        "data: {\"choices\":[{\"delta\":{\"tool_calls\":[{\"index\":0,\"function\":{\"arguments\":\":1}\"}}]}}]}\n\n",
        "data: {\"choices\":[{\"delta\":{},\"finish_reason\":\"tool_calls\"}]}\n\n",
        "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":9,\"completion_tokens\":3,\"prompt_tokens_details\":{\"cached_tokens\":4}}}\n\n",
        "data: [DONE]\n\n",
    ];
    assert_eq!(line(open_ai(), Framing::Events, &frames), r#"(hm)|So|+|+|add{"a":1}|end 9/4/3/false"#);
    assert_eq!(
        line(open_ai(), Framing::Events, &frames[..6]),
        r#"(hm)|So|+|+|add{"a":1}|end 0/0/0/false"#,
        "no marker"
    );
    assert_eq!(line(open_ai(), Framing::Events, &frames[..3]), "(hm)|So", "an incomplete answer has no end");
    let error = ["data: {\"error\":{\"message\":\"out of memory\"}}\n\n"];
    assert_eq!(line(open_ai(), Framing::Events, &error), "! the server reported an error: out of memory");
}

#[test]
fn call_that_is_passed_on_is_neither_collected_nor_checked() {
    let arguments = "x".repeat(1 << 20);
    let part = format!(
        "data: {{\"choices\":[{{\"delta\":{{\"tool_calls\":[{{\"index\":0,\"function\":{{\"arguments\":\"{arguments}\"}}}}]}}}}]}}\n\n"
    );
    let mut frames = vec![part.as_str(); 10];
    frames.push("data: {\"choices\":[{\"delta\":{},\"finish_reason\":\"tool_calls\"}]}\n\n");
    let raw = line(Reader::OpenAi(Box::default()), Framing::Events, &frames);
    assert_eq!(raw, format!("{}|end 0/0/0/false", ["+"; 10].join("|")));
    let translated = line(open_ai(), Framing::Events, &frames);
    assert!(translated.ends_with("! the server sent a response of more than 8388608 bytes"), "{translated}");
}

#[test]
fn whole_response_is_read_at_once() {
    let json = r#"{"choices":[{"message":{"content":"So."},"finish_reason":"length"}],"usage":{"prompt_tokens":9,"completion_tokens":3}}"#;
    assert_eq!(line(open_ai(), Framing::Whole, &[json]), "So.|end 9/0/3/true");
}

#[test]
fn usage_of_vectors_and_scores_is_read() {
    let check = |json: &str, expected: &str| {
        assert_eq!(line(Reader::Usage, Framing::Whole, &[json]), expected, "{json}");
    };
    check(r#"{"model":"m","embeddings":[[0.1,-2e-3]],"load_duration":5,"prompt_eval_count":7}"#, "end 7/0/0/false");
    check(r#"{"embedding":[0.1]}"#, "end 0/0/0/false");
    check(r#"{"object":"list","data":[],"usage":{"prompt_tokens":8,"total_tokens":9}}"#, "end 8/0/0/false");
    check(r#"{"results":[{"index":0,"relevance_score":0.5}],"usage":{"total_tokens":9}}"#, "end 9/0/0/false");
    check(r#"{"error":{"message":"out of memory"}}"#, "! the server reported an error: out of memory");
    assert!(line(Reader::Usage, Framing::Whole, &["<html>"]).contains("not the expected JSON"));
}

#[test]
fn huge_usage_is_limited() {
    let huge = u64::MAX;
    let last = format!(r#"{{"done":true,"prompt_eval_count":{huge},"eval_count":{huge},"cached_tokens":{huge}}}"#);
    let expected = format!("end {MAX_TOKENS}/{MAX_TOKENS}/{MAX_TOKENS}/false");
    assert_eq!(line(Reader::Ollama, Framing::Lines, &[&last]), expected);
    let whole = format!(r#"{{"choices":[],"usage":{{"prompt_tokens":{huge},"completion_tokens":{huge}}}}}"#);
    assert_eq!(line(open_ai(), Framing::Whole, &[&whole]), format!("end {MAX_TOKENS}/0/{MAX_TOKENS}/false"));
}

#[test]
fn frame_without_json_is_malformed() {
    for (reader, framing, frame) in
        [(Reader::Ollama, Framing::Lines, "<html>\n"), (open_ai(), Framing::Events, "data: <html>\n\n")]
    {
        assert!(line(reader, framing, &[frame]).contains("not the expected JSON"), "{frame}");
    }
}

proptest::proptest! {
    #[test]
    fn arbitrary_response_is_pieces_or_an_error(
        frames in proptest::collection::vec("(data: )?[{}\\[\\]\":,a-z0-9 ]{0,60}|data: \\{\"choices\":\\[\\{\"delta\":[{}\"a-z:0-9]{0,20}", 0..8),
    ) {
        for (mut reader, framing) in [(Reader::Ollama, Framing::Lines), (open_ai(), Framing::Events), (open_ai(), Framing::Whole)] {
            let _ = frames.iter().try_for_each(|frame| reader.read(framing, frame.as_bytes()).map(drop));
            let _ = reader.finish(framing);
        }
    }
}
