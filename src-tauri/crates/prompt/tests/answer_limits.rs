//! Long and hostile answers: time by the thread's CPU clock, memory by an allocator that counts.

use std::time::Duration;

use cairn_prompt::{AnswerFormat, AnswerParser, Delta, Template, ThinkingStart, Tool};
use cairn_testkit::allocation::{CountingAllocator, peak_bytes};
use rustix::time::{ClockId, clock_gettime};

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

/// A debug build takes a tenth of this. A second scan of the text with every push takes minutes.
const MOST_CPU_TIME: Duration = Duration::from_secs(3);
const PIECES: usize = 100_000;

fn cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// All formats with the start of a call in each.
fn formats() -> Vec<(AnswerFormat, &'static str)> {
    let parser = |name| AnswerFormat::by_parser_name(name).expect("a parser of this name");
    let jinja = |source| Template::jinja(source).expect("valid").answer_format();
    vec![
        (parser("qwen3"), "<tool_call>{\"name\": \""),
        (parser("qwen3-coder"), "<tool_call><function=f><parameter=a>"),
        (parser("qwen3-coder"), "<tool_call>"),
        (parser("qwen3-coder"), "<function=f>"),
        (parser("ministral"), "[TOOL_CALLS]f[ARGS]{\"a\": \""),
        (parser("ministral"), "[TOOL_CALLS]"),
        (parser("harmony"), "<|channel|>commentary to=functions.f<|message|>{\"a\": \""),
        (parser("harmony"), "<|channel|>"),
        (parser("harmony"), "<|channel|>final<|message|>"),
        (parser("harmony"), "<|channel|>final<|message|>x<|end|>"),
        (parser("gemma4"), "<|tool_call>call:f{a:<|\"|>"),
        (parser("functiongemma"), "<start_function_call>call:f{a:<escape>"),
        (parser("deepseek3"), "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>f<｜tool▁sep｜>{\"a\": \""),
        (parser("glm-4.7"), "<tool_call>f<arg_key>a</arg_key><arg_value>"),
        (parser("lfm2"), "<|tool_call_start|>[f(a='"),
        (parser("olmo3"), "<function_calls>f(a=\""),
        (parser("cohere"), "<|START_ACTION|>[{\"tool_name\": \""),
        (jinja("{{ tools }}<|python_tag|>"), "{\"name\": \""),
        (jinja("{{ tools }}<|tool_call|>"), "<|tool_call|>["),
        (jinja("{{ tools }}<|tools_prefix|>"), "<|tools_prefix|>[{\"f\": "),
        (parser("qwen3-thinking"), ""),
        (parser("qwen3-thinking"), "<think>"),
        (parser("qwen3-thinking"), "<think></think>"),
        (parser("qwen3-thinking"), "text"),
        (parser("passthrough"), ""),
    ]
}

fn tools() -> Vec<Tool> {
    ["f", "g"].map(|name| Tool { name: name.to_owned(), ..Tool::default() }).into()
}

/// Parses `pieces` and checks time and memory. Returns the lengths of text and reasoning together, and the number of
/// calls.
fn check<'t>(
    name: &str,
    format: &AnswerFormat,
    most_bytes: usize,
    pieces: impl Iterator<Item = &'t str>,
) -> (usize, usize) {
    let from = cpu_time();
    let (counts, peak) = peak_bytes(|| {
        let mut counts = (0, 0);
        let mut count = |delta: Delta| match delta {
            Delta::Text(text) | Delta::Thinking(text) => counts.0 += text.len(),
            Delta::ToolCall(_) => counts.1 += 1,
        };
        let mut parser = AnswerParser::new(format, &tools(), ThinkingStart::AtTag);
        pieces.for_each(|piece| parser.push(piece).into_iter().for_each(&mut count));
        parser.finish().into_iter().for_each(&mut count);
        counts
    });
    let took = cpu_time() - from;
    println!("{:6.1} MiB {:5} ms: {name}", peak as f64 / f64::from(1 << 20), took.as_millis());
    assert!(took <= MOST_CPU_TIME, "{name}: {took:?}");
    assert!(peak <= most_bytes, "{name}: {peak} bytes");
    counts
}

#[test]
fn long_answer_in_small_pieces_takes_linear_time() {
    for (format, start) in formats() {
        for piece in ["a", " "] {
            let pieces = std::iter::once(start).chain(std::iter::repeat_n(piece, PIECES));
            check(&format!("{start}{piece}..."), &format, 4 << 20, pieces);
        }
    }
}

#[test]
fn hostile_answer_in_one_piece_takes_linear_time() {
    let json = "{\"name\": \"f\", \"arguments\": {}}";
    for (format, start) in formats() {
        let tokens: Vec<&str> = format.preserved_tokens().collect();
        let fillers = [start, json, &tokens.concat(), &format!(" {}", tokens.first().copied().unwrap_or_default())];
        for filler in fillers.into_iter().filter(|filler| !filler.is_empty()) {
            let text = format!("{start}{}", filler.repeat((1 << 19) / filler.len()));
            check(&format!("{start}{filler}..."), &format, 32 << 20, std::iter::once(text.as_str()));
        }
    }
}

#[test]
fn too_long_call_becomes_text() {
    let padding = "a".repeat(1 << 10);
    for (format, start) in formats() {
        let pieces = || std::iter::once(start).chain(std::iter::repeat_n(padding.as_str(), 3 << 10));
        let (length, calls) = check(&format!("{start} 3 MiB"), &format, 3 << 20, pieces());
        // A header and a thinking tag are not text.
        assert!(length >= 3 << 20, "{start}: {length} of {} bytes are emitted", (3 << 20) + start.len());
        assert_eq!(calls, 0, "{start}: calls");
    }
}

#[test]
fn deeply_nested_arguments_become_text() {
    for (format, start) in formats() {
        for bracket in ["[", "{\"a\":", "{a:", "(", "<think>"] {
            let text = format!("{start}{}", bracket.repeat(10_000));
            let (length, calls) =
                check(&format!("{start} {bracket}"), &format, 8 << 20, std::iter::once(text.as_str()));
            assert_eq!(calls, 0, "{start}{bracket}: calls");
            assert!(length >= 10_000, "{start}{bracket}: {length} bytes");
        }
    }
}

#[test]
fn special_tokens_are_preserved() {
    let tokens = |name: &str| -> Vec<String> {
        let format = AnswerFormat::by_parser_name(name).expect("a parser of this name");
        format.preserved_tokens().map(str::to_owned).collect()
    };
    let check = |name: &str, wanted: &[&str]| {
        let tokens = tokens(name);
        for token in wanted {
            assert!(tokens.iter().any(|other| other == token), "{name}: {token} is not in {tokens:?}");
        }
        assert!(tokens.iter().all(|token| token.chars().count() > 1), "{name}: a single character in {tokens:?}");
    };
    check("passthrough", &[]);
    check("qwen3-thinking", &["<think>", "</think>", "<tool_call>", "</tool_call>"]);
    check(
        "harmony",
        &["<|start|>", "<|channel|>", "<|message|>", "<|end|>", "<|call|>", "<|return|>", "<|constrain|>"],
    );
    check("ministral", &["[TOOL_CALLS]", "[ARGS]", "[CALL_ID]", "[THINK]", "[/THINK]"]);
    check("gemma4", &["<|tool_call>", "<tool_call|>", "<|\"|>", "<|channel>", "<channel|>"]);
    check("deepseek3", &["<｜tool▁calls▁begin｜>", "<｜tool▁sep｜>", "<｜tool▁call▁end｜>", "<｜tool▁calls▁end｜>"]);
    check("glm-4.7", &["<arg_key>", "</arg_value>"]);
    check("cohere", &["<|START_ACTION|>", "<|END_ACTION|>", "<|START_TEXT|>", "<|START_THINKING|>"]);
    check("lfm2", &["<|tool_call_start|>", "<|tool_call_end|>"]);
}

#[test]
fn unknown_parser_has_no_format() {
    assert_eq!(AnswerFormat::by_parser_name("no-such-parser"), None, "an unknown name");
    assert_eq!(AnswerFormat::by_parser_name("passthrough"), Some(AnswerFormat::default()), "plain text");
}
