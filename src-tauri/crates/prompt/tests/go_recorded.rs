//! Renderings of Go templates, compared with Ollama's.
//!
//! `recorded/record.go` describes the files. The templates are our own: most use one value in one way.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use cairn_prompt::{Error, Image, LocalTime, Message, RenderInput, Template, ThinkMode, ToolCall};
use serde_json::Value;

/// Differences that are intended: a part of the template, and the reason.
const DIFFERENCES: [(&str, &str); 14] = [
    ("{{ json .Prompt }}{{ .Response }}", LAST_RUN),
    ("{{ len currentDate }}{{ .Prompt }}{{ .Response }}", LAST_RUN),
    ("{{ template \"t\" .Prompt }}{{ .Response }}", LAST_RUN),
    (
        "{{ if .System }}{{ .Response }}{{ else }}{{ .Prompt }}{{ end }}",
        "Ollama panics if an {{else}} follows the answer; here that branch is empty",
    ),
    ("\"\\xff", "the texts of a template are Unicode here, so the escape of a byte is a character"),
    ("{{ \"a\".A }}", LENIENT),
    ("{{ nil.A }}", LENIENT),
    ("{{ true.A }}", LENIENT),
    ("{{ .A. }}", LENIENT),
    ("{{ .A..B }}", LENIENT),
    ("{{ range $a $b := .Messages }}", LENIENT),
    ("{{ print | }}", "refused, because a function is missing"),
    ("{{ 1i }}", "refused, because there are no complex numbers"),
    ("%#g", "the flag has no effect on floats"),
];
const LAST_RUN: &str =
    "the last run of a template without .Messages has no functions and no templates in Ollama, so it fails";
const LENIENT: &str = "the parser accepts more; Ollama refuses such a template, so that no published one has it";

fn read(name: &str) -> Value {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/go/recorded").join(name);
    let text = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn text(json: &Value) -> String {
    json.as_str().unwrap_or_default().to_owned()
}

fn message(json: &Value) -> Message {
    let optional = |key: &str| json[key].as_str().map(ToOwned::to_owned);
    let calls = json["tool_calls"].as_array().into_iter().flatten();
    let images = json["images"].as_array().into_iter().flatten();
    Message {
        role: text(&json["role"]),
        content: text(&json["content"]),
        thinking: optional("thinking"),
        tool_calls: calls
            .map(|call| ToolCall {
                id: call["id"].as_str().map(ToOwned::to_owned),
                name: text(&call["function"]["name"]),
                arguments: call["function"]["arguments"].clone(),
            })
            .collect(),
        tool_name: optional("tool_name"),
        tool_call_id: optional("tool_call_id"),
        images: images.map(|image| Image { bytes: bytes(image.as_str().unwrap_or_default()) }).collect(),
    }
}

/// Decodes base64 without padding.
fn bytes(text: &str) -> Vec<u8> {
    let digit = |letter: u8| match letter {
        b'A'..=b'Z' => letter - b'A',
        b'a'..=b'z' => letter - b'a' + 26,
        b'0'..=b'9' => letter - b'0' + 52,
        b'+' => 62,
        _ => 63,
    };
    let decode = |digits: &[u8]| {
        let bits = digits.iter().fold(0_u32, |bits, letter| bits << 6 | u32::from(digit(*letter)));
        [(bits >> 16) as u8, (bits >> 8) as u8, bits as u8]
    };
    text.as_bytes().chunks_exact(4).flat_map(decode).collect()
}

fn thinking(json: &Value) -> Option<ThinkMode> {
    match json {
        Value::Bool(true) => Some(ThinkMode::On),
        Value::Bool(false) => Some(ThinkMode::Off),
        Value::String(level) => Some(ThinkMode::Level(level.clone())),
        _ => None,
    }
}

/// Renders a conversation. Returns `None` if the template cannot insert, which is checked before.
fn render(template: &Template, conversation: &Value) -> Option<Result<String, Error>> {
    let messages: Vec<Message> = conversation["messages"].as_array().into_iter().flatten().map(message).collect();
    let input = RenderInput {
        messages: &messages,
        tools: conversation.get("tools"),
        thinking: thinking(&conversation["think"]),
        now: LocalTime::default(),
        ..RenderInput::default()
    };
    match (conversation["suffix"].as_str(), template.capabilities().insert) {
        (Some(suffix), true) => Some(template.insert(&text(&conversation["prompt"]), suffix, &input)),
        (Some(_), false) => None,
        (None, _) => Some(template.render(&input)),
    }
}

/// Returns whether a text is the recorded one, which is a hash if it is long.
fn is_recorded(text: &str, recorded: &Value) -> bool {
    match recorded {
        Value::String(recorded) => text == recorded,
        recorded => {
            let hash = text
                .bytes()
                .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3));
            recorded[1] == text.len() && recorded[2] == format!("{hash:016x}")
        }
    }
}

#[test]
fn templates_render_as_in_ollama() {
    let (inputs, outputs) = (read("inputs.json"), read("outputs.json"));
    let (templates, rows) = (inputs["templates"].as_array().unwrap(), outputs["rows"].as_array().unwrap());
    assert_eq!(templates.len(), rows.len(), "one row for each template");
    let (mut equal, mut differ) = (0, BTreeMap::new());
    let mut unused: Vec<&str> = DIFFERENCES.map(|(part, _)| part).into();
    for (source, row) in templates.iter().zip(rows) {
        let source = source.as_str().unwrap();
        let mut check = |case: String, got: String, wanted: String, is_equal: bool| {
            let listed = DIFFERENCES.iter().find(|(part, _)| source.contains(part));
            match listed {
                _ if is_equal => equal += 1,
                Some((part, _)) => unused.retain(|other| other != part),
                None => drop(differ.insert((source, case), format!("got    {got}\n  wanted {wanted}"))),
            }
        };
        let template = match (Template::go(source), row) {
            (Ok(template), Value::Array(_)) => template,
            (Ok(_), _) => {
                check("parse".to_owned(), "valid".to_owned(), "invalid".to_owned(), false);
                continue;
            }
            (Err(error), row) => {
                check("parse".to_owned(), error.to_string(), "valid".to_owned(), row.is_null());
                continue;
            }
        };
        for (index, (conversation, recorded)) in
            inputs["conversations"].as_array().unwrap().iter().zip(row.as_array().unwrap()).enumerate()
        {
            let Some(got) = render(&template, conversation) else { continue };
            let shown = format!("{got:?}");
            match recorded.as_i64().unwrap() {
                -1 => check(index.to_string(), shown, "error".to_owned(), got.is_err()),
                // An address.
                -2 => check(index.to_string(), shown, "text".to_owned(), got.is_ok()),
                recorded => {
                    let recorded = &outputs["texts"][usize::try_from(recorded).unwrap()];
                    let is_equal = got.is_ok_and(|got| is_recorded(&got, recorded));
                    check(index.to_string(), shown, recorded.to_string(), is_equal);
                }
            }
        }
    }
    let list: Vec<String> =
        differ.iter().map(|((source, case), what)| format!("{source}\n {case}:\n  {what}")).collect();
    assert!(differ.is_empty(), "{equal} equal, {} differ:\n{}", differ.len(), list.join("\n"));
    assert!(unused.is_empty(), "listed differences that do not exist: {unused:?}");
}
