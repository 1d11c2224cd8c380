//! Templates in Go's language: four in this repository with the formats of published models, and published templates.
//!
//! Published templates are not part of the repository. The test looks in `go-templates` under `CAIRN_CONFORMANCE`, else
//! under `shared/conformance` of a parent folder, with the layout of Ollama's repository: `NAME.gotmpl`, and in
//! `testdata/NAME.gotmpl/` one text for each of three conversations. Without them the test is skipped with a message.

use std::fs;
use std::path::{Path, PathBuf};

use cairn_prompt::{Message, RenderInput, Template, ToolCall};
use serde_json::json;

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn messages(conversation: &[(&str, &str)]) -> Vec<Message> {
    conversation.iter().map(|(role, text)| Message::new(*role, *text)).collect()
}

fn repository_template(name: &str) -> Template {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/go").join(format!("{name}.gotmpl"));
    Template::go(&read(&path)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

fn check(name: &str, messages: &[Message], wanted: &str) {
    let text = repository_template(name).render(&RenderInput { messages, ..RenderInput::default() });
    assert_eq!(text.as_deref(), Ok(wanted), "{name}");
}

const TALK: [(&str, &str); 4] = [("system", "Be brief."), ("user", "Hi"), ("assistant", "Hello!"), ("user", "Bye")];

#[test]
fn llama3_template_renders() {
    check(
        "llama3",
        &messages(&TALK),
        "<|start_header_id|>system<|end_header_id|>\n\nBe brief.<|eot_id|><|start_header_id|>user<|end_header_id|>\n\nHi<|eot_id|>\
         <|start_header_id|>assistant<|end_header_id|>\n\nHello!<|eot_id|><|start_header_id|>user<|end_header_id|>\n\nBye<|eot_id|>\
         <|start_header_id|>assistant<|end_header_id|>\n\n",
    );
}

#[test]
fn gemma2_template_renders() {
    check(
        "gemma2",
        &messages(&TALK),
        "<start_of_turn>user\nBe brief. Hi<end_of_turn>\n<start_of_turn>model\nHello!<end_of_turn>\n<start_of_turn>user\nBye<end_of_turn>\n\
         <start_of_turn>model\n",
    );
    let messages = messages(&[("user", "a"), ("user", "b"), ("assistant", "So")]);
    check("gemma2", &messages, "<start_of_turn>user\na\n\nb<end_of_turn>\n<start_of_turn>model\nSo");
}

fn with_call() -> Vec<Message> {
    let call = ToolCall { id: None, name: "sum".to_owned(), arguments: json!({"b": [2], "a": "1 < 2"}) };
    let mut messages = messages(&[("user", "Hi"), ("assistant", ""), ("tool", "3"), ("user", "Bye")]);
    messages[1].tool_calls = vec![call];
    messages
}

#[test]
fn qwen2_5_template_renders() {
    check(
        "qwen2.5",
        &messages(&TALK),
        "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\nHello!<|im_end|>\n\
         <|im_start|>user\nBye<|im_end|>\n<|im_start|>assistant\n",
    );
    check("qwen2.5", &messages(&TALK[1..3]), "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\nHello!");
    check(
        "qwen2.5",
        &with_call(),
        "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n<tool_call>\n{\"name\": \"sum\", \"arguments\": \
         {\"a\":\"1 \\u003c 2\",\"b\":[2]}}\n</tool_call><|im_end|>\n<|im_start|>user\n<tool_response>\n3\n</tool_response><|im_end|>\n\
         <|im_start|>user\nBye<|im_end|>\n<|im_start|>assistant\n",
    );
}

#[test]
fn mistral_template_renders() {
    check("mistral", &messages(&TALK), "[INST] Hi[/INST] Hello!</s>[INST] Be brief.\n\nBye[/INST]");
    check(
        "mistral",
        &with_call(),
        "[INST] Hi[/INST][TOOL_CALLS] [{\"name\": \"sum\", \"arguments\": {\"a\":\"1 \\u003c 2\",\"b\":[2]}}]</s>\
         [TOOL_RESULTS] {\"content\": 3} [/TOOL_RESULTS][INST] Bye[/INST]",
    );
}

/// Returns the folder of published templates, if this machine has it.
#[expect(clippy::disallowed_methods, reason = "the environment names the folder of data outside the repository")]
fn published() -> Option<PathBuf> {
    let named = std::env::var_os("CAIRN_CONFORMANCE").map(PathBuf::from);
    let above = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().map(|folder| folder.join("shared/conformance"));
    let folder =
        named.into_iter().chain(above).map(|folder| folder.join("go-templates")).find(|folder| folder.is_dir());
    if folder.is_none() {
        eprintln!("SKIPPED: no published Go templates (set CAIRN_CONFORMANCE, or put them at ../shared/conformance)");
    }
    folder
}

/// Role and content of the messages from which the expected texts were rendered.
const RECORDED: [(&str, &str); 4] = [
    ("system", "You are a helpful assistant."),
    ("user", "Hello, how are you?"),
    ("assistant", "I'm doing great. How can I help you today?"),
    ("user", "I'd like to show off how chat templating works!"),
];

#[test]
fn published_templates_match_recordings() {
    let Some(folder) = published() else { return };
    let cases = [
        ("user", &RECORDED[1..2]),
        ("user-assistant-user", &RECORDED[1..]),
        ("system-user-assistant-user", &RECORDED[..]),
    ];
    let (mut templates, mut equal, mut differ) = (0, 0, Vec::new());
    for entry in fs::read_dir(&folder).expect("the folder can be listed") {
        let path = entry.expect("an entry can be read").path();
        if path.extension().is_none_or(|extension| extension != "gotmpl") {
            continue;
        }
        templates += 1;
        let name = path.file_name().expect("a file has a name").to_string_lossy().into_owned();
        let template = Template::go(&read(&path)).unwrap_or_else(|error| panic!("{name}: {error}"));
        for (case, conversation) in cases {
            let wanted = read(&folder.join("testdata").join(&name).join(case));
            let messages = messages(conversation);
            let got = template
                .render(&RenderInput { messages: &messages, ..RenderInput::default() })
                .unwrap_or_else(|e| e.to_string());
            // The recordings lack spaces at the end of a file.
            if got == wanted || got.strip_suffix(' ') == Some(wanted.as_str()) {
                equal += 1;
            } else {
                differ.push(format!("{name}, {case}:\n  got    {got:?}\n  wanted {wanted:?}"));
            }
        }
    }
    eprintln!("{templates} templates: {equal} texts equal, {} different", differ.len());
    assert!(equal > 0 && differ.is_empty(), "{} differ:\n{}", differ.len(), differ.join("\n"));
}
