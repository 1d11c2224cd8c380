//! Parses the streams in `fixtures/answers`, whole and cut at every position.
//!
//! A fixture begins with its format: `parser NAME`, `jinja SOURCE` or `go SOURCE`. A case is `== name [start]`, the
//! stream, `--`, and the expected deltas. The line break before `--` is not part of the stream.

use std::fs;
use std::path::Path;

use cairn_prompt::{AnswerFormat, AnswerParser, Delta, Template, ThinkingStart, Tool};
use proptest::prelude::*;
use serde_json::Value;

struct Case {
    name: String,
    start: ThinkingStart,
    stream: String,
    wanted: Vec<String>,
}

struct Fixture {
    format: AnswerFormat,
    cases: Vec<Case>,
}

fn read(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/answers").join(name);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn tools() -> Vec<Tool> {
    Tool::list(&serde_json::from_str(&read("tools.json")).expect("tools in JSON"))
}

fn format(line: &str) -> AnswerFormat {
    match line.split_once(' ').expect("a kind and a value") {
        ("parser", name) => AnswerFormat::by_parser_name(name).expect("a parser of this name"),
        ("jinja", source) => Template::jinja(source).expect("a template").answer_format(),
        ("go", source) => Template::go(source).expect("a template").answer_format(),
        (kind, _) => panic!("unknown kind {kind}"),
    }
}

fn case(file: &str, text: &str) -> Case {
    let (head, rest) = text.split_once('\n').expect("a stream");
    let (stream, wanted) = rest.rsplit_once("\n--\n").unwrap_or_else(|| panic!("{file}, {head}: no result"));
    let (name, start) = match head.split_once(" [") {
        Some((name, "inside]")) => (name, ThinkingStart::Inside),
        Some((name, "off]")) => (name, ThinkingStart::Off),
        Some((_, other)) => panic!("{file}: [{other}"),
        None => (head, ThinkingStart::AtTag),
    };
    let name = format!("{file}: {name}");
    Case { name, start, stream: stream.to_owned(), wanted: wanted.lines().map(normalised).collect() }
}

/// Returns a line of expected deltas with its JSON in the form of [`shown`].
fn normalised(line: &str) -> String {
    let at = line.find(['"', '{']).unwrap_or_else(|| panic!("no value in {line}"));
    let value: Value = serde_json::from_str(&line[at..]).unwrap_or_else(|error| panic!("{line}: {error}"));
    format!("{}{value}", &line[..at])
}

fn fixtures() -> Vec<Fixture> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/answers");
    let entries = fs::read_dir(folder).expect("the folder of fixtures");
    let names = entries.map(|entry| entry.expect("an entry").file_name().into_string().expect("a name in UTF-8"));
    let mut names: Vec<String> = names.filter(|name| name.ends_with(".txt")).collect();
    names.sort();
    let fixture = |name: &String| {
        let text = read(name);
        let (first, cases) = text.split_once("\n== ").expect("a format and cases");
        let starts = cases.split("\n== ");
        // A stream may contain a line with this mark: it has no result before the next one.
        let mut whole: Vec<String> = Vec::new();
        for part in starts {
            match whole.last_mut().filter(|last| !last.contains("\n--\n")) {
                Some(last) => *last += &format!("\n== {part}"),
                None => whole.push(part.to_owned()),
            }
        }
        Fixture { format: format(first), cases: whole.iter().map(|text| case(name, text)).collect() }
    };
    names.iter().map(fixture).collect()
}

/// Returns deltas as lines. Joins neighbours of one kind.
fn shown(deltas: Vec<Delta>) -> Vec<String> {
    let mut joined: Vec<Delta> = Vec::new();
    for delta in deltas {
        match (joined.last_mut(), delta) {
            (Some(Delta::Text(all)), Delta::Text(part)) | (Some(Delta::Thinking(all)), Delta::Thinking(part)) => {
                assert!(!part.is_empty(), "an empty delta after {all:?}");
                *all += &part;
            }
            (_, delta) => joined.push(delta),
        }
    }
    let line = |delta: &Delta| match delta {
        Delta::Text(text) => format!("text {}", Value::from(text.as_str())),
        Delta::Thinking(text) => format!("think {}", Value::from(text.as_str())),
        Delta::ToolCall(call) => {
            let id = call.id.as_ref().map(|id| format!("#{id}")).unwrap_or_default();
            format!("call {}{id} {}", call.name, call.arguments)
        }
    };
    joined.iter().map(line).collect()
}

fn parse<'t>(
    format: &AnswerFormat,
    tools: &[Tool],
    start: ThinkingStart,
    parts: impl IntoIterator<Item = &'t str>,
) -> Vec<String> {
    let mut parser = AnswerParser::new(format, tools, start);
    let mut deltas: Vec<Delta> = parts.into_iter().flat_map(|part| parser.push(part)).collect();
    deltas.extend(parser.finish());
    shown(deltas)
}

fn characters(text: &str) -> impl Iterator<Item = &str> {
    text.char_indices().map(|(at, c)| &text[at..at + c.len_utf8()])
}

#[test]
fn answers_give_expected_deltas_however_cut() {
    let tools = tools();
    let mut count = 0;
    let mut failures = Vec::new();
    for Fixture { format, cases } in fixtures() {
        for Case { name, start, stream, wanted } in cases {
            count += 1;
            let whole = parse(&format, &tools, start, [stream.as_str()]);
            if whole != wanted {
                failures.push(format!("{name}\n  got    {whole:?}\n  wanted {wanted:?}"));
                continue;
            }
            let single = parse(&format, &tools, start, characters(&stream));
            if single != wanted {
                failures.push(format!("{name}, character by character\n  got    {single:?}\n  wanted {wanted:?}"));
            }
            for (at, _) in stream.char_indices() {
                let cut = parse(&format, &tools, start, [&stream[..at], &stream[at..]]);
                if cut != wanted {
                    failures.push(format!("{name}, cut at {at}\n  got    {cut:?}\n  wanted {wanted:?}"));
                }
            }
        }
    }
    assert!(failures.is_empty(), "{} failures:\n{}", failures.len(), failures.join("\n"));
    assert!(count >= 200, "only {count} cases");
}

#[test]
fn calls_are_text_without_tools() {
    for Fixture { format, cases } in fixtures() {
        for case in cases {
            let lines = parse(&format, &[], ThinkingStart::Off, [case.stream.as_str()]);
            let is_framed = format.preserved_tokens().any(|token| matches!(token, "<|START_TEXT|>" | "<|message|>"));
            // Reasoning in a channel is split off, also if the request disables it.
            let has_channel = case.stream.starts_with("<|channel>thought");
            let wanted = format!("text {}", Value::from(case.stream.as_str()));
            assert!(is_framed || has_channel || lines == [wanted], "{}: {lines:?}", case.name);
        }
    }
}

/// Fragments of answers in one format: its tags, halves of them, pieces of calls.
fn fragments(format: &AnswerFormat) -> Vec<String> {
    let pieces =
        ["{", "}", "[", "]", "(", ")", "\"", "'", "\\", " ", "\n", "a", "é", "<", "|", ",", "=", "{}", ";", ">"];
    let calls = [
        "get_time",
        "{\"name\": \"get_time\"}",
        "[{\"name\": \"get_time\"}]",
        "get_time()",
        "call:get_time{}",
        "<function=get_time>",
        "</function>",
        "<parameter=a>",
        "</parameter>",
        "to=functions.get_time",
        "{\"a\": \"}",
    ];
    let mut fragments: Vec<String> = pieces.into_iter().chain(calls).map(str::to_owned).collect();
    for token in format.preserved_tokens() {
        // Tags make up half of the fragments.
        fragments.extend([token.to_owned(), token.to_owned()]);
        let half = token.char_indices().nth(token.chars().count() / 2);
        fragments.extend(half.map(|(at, _)| token[..at].to_owned()));
    }
    fragments
}

/// A format and fragments of an answer.
fn answers() -> impl Strategy<Value = (AnswerFormat, Vec<String>)> {
    let formats: Vec<AnswerFormat> = fixtures().into_iter().map(|fixture| fixture.format).collect();
    prop::sample::select(formats).prop_flat_map(|format| {
        let parts = prop::collection::vec(prop::sample::select(fragments(&format)), 0..24);
        (Just(format), parts)
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn result_is_independent_of_chunk_boundaries((format, parts) in answers(), inside in any::<bool>()) {
        let tools = [Tool { name: "get_time".to_owned(), ..Tool::default() }];
        let start = if inside { ThinkingStart::Inside } else { ThinkingStart::AtTag };
        let whole = parts.concat();
        let at_once = parse(&format, &tools, start, [whole.as_str()]);
        let in_parts = parse(&format, &tools, start, parts.iter().map(String::as_str));
        prop_assert_eq!(&at_once, &in_parts, "{:?} in parts", format);
        let single = parse(&format, &tools, start, characters(&whole));
        prop_assert_eq!(&at_once, &single, "{:?} by character", format);
    }
}
