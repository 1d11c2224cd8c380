//! Templates and parameters of four families, in the layers of their publishers: pulled, shown, and applied.
//!
//! The templates were written for these tests and render the families' formats (`cairn-prompt` tests them separately).
//! The parameters are the published ones that affect prompts.

use serde_json::{Value, json};

use super::published::{Published, blob};
use super::{home, registry};
use crate::cairn::{Daemon, Home, succeeded};
use cairn_testkit::registry::Faults;
use cairn_testkit::{Family, ModelSpec, families};

/// A family's layers, and the prompts that they render.
struct Case {
    name: &'static str,
    family: &'static Family,
    template: &'static str,
    params: Value,
    /// Prompt of the model's system message, `Hi`, the answer `Hello!`, and `Bye`.
    talk: &'static str,
    /// Prompt of the model's system message and `Hi`.
    question: &'static str,
}

macro_rules! template {
    ($name:literal) => {
        include_str!(concat!("../../../src-tauri/crates/prompt/tests/fixtures/go/", $name, ".gotmpl"))
    };
}

fn cases() -> [Case; 4] {
    [
        Case {
            name: "llama3",
            family: &families::LLAMA,
            template: template!("llama3"),
            params: json!({"num_keep": 24, "stop": ["<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>"]}),
            talk: "<|start_header_id|>system<|end_header_id|>\n\nBe brief.<|eot_id|><|start_header_id|>user<|end_header_id|>\n\nHi\
                   <|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\nHello!<|eot_id|>\
                   <|start_header_id|>user<|end_header_id|>\n\nBye<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\n",
            question: "<|start_header_id|>system<|end_header_id|>\n\nBe brief.<|eot_id|><|start_header_id|>user<|end_header_id|>\n\n\
                       Hi<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\n",
        },
        Case {
            name: "gemma2",
            family: &families::GEMMA2,
            template: template!("gemma2"),
            params: json!({"stop": ["<start_of_turn>", "<end_of_turn>"]}),
            talk: "<start_of_turn>user\nBe brief. Hi<end_of_turn>\n<start_of_turn>model\nHello!<end_of_turn>\n\
                   <start_of_turn>user\nBye<end_of_turn>\n<start_of_turn>model\n",
            question: "<start_of_turn>user\nBe brief. Hi<end_of_turn>\n<start_of_turn>model\n",
        },
        Case {
            name: "qwen2.5",
            family: &families::QWEN2,
            template: template!("qwen2.5"),
            params: json!({"stop": ["<|im_start|>", "<|im_end|>"]}),
            talk: "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\nHello!<|im_end|>\n\
                   <|im_start|>user\nBye<|im_end|>\n<|im_start|>assistant\n",
            question: "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n",
        },
        Case {
            name: "mistral",
            family: &families::LLAMA,
            template: template!("mistral"),
            params: json!({"stop": ["[INST]", "[/INST]"]}),
            talk: "[INST] Hi[/INST] Hello!</s>[INST] Be brief.\n\nBye[/INST]",
            question: "[INST] Be brief.\n\nHi[/INST]",
        },
    ]
}

fn post(daemon: &Daemon<'_>, path: &str, mut body: Value, name: &str) -> Value {
    (body["model"], body["stream"]) = (json!(name), json!(false));
    let answer = daemon.post(path, &body).expect("the daemon answers");
    serde_json::from_str(&answer).unwrap_or_else(|error| panic!("{path}: {error}: {answer}"))
}

/// Returns the published parameters as the lines that clients print.
fn lines(params: &Value) -> Vec<String> {
    let params = params.as_object().expect("an object").iter();
    let line = |name: &str, value: &Value| format!("{name:<30} {value}");
    params
        .flat_map(|(name, value)| match value {
            Value::Array(items) => items.iter().map(|item| line(name, item)).collect(),
            value => vec![line(name, value)],
        })
        .collect()
}

fn check_shown(home: &Home, daemon: &Daemon<'_>, case: &Case, name: &str) {
    let shown = post(daemon, "/api/show", json!({}), name);
    assert_eq!(shown["template"], case.template, "{name}: the unchanged layer");
    assert_eq!(shown["template_reason"], "Go: the library's layer", "{name}: the reason");
    assert_eq!(shown["system"], "Be brief.", "{name}");
    let parameters: Vec<&str> = shown["parameters"].as_str().unwrap_or_default().lines().collect();
    assert_eq!(parameters, lines(&case.params), "{name}: all published parameters");
    let by_field = [(".Tools", "tools"), (".Suffix", "insert"), (".Thinking", "thinking")];
    let of_template =
        by_field.iter().filter(|(field, _)| case.template.contains(field)).map(|(_, capability)| *capability);
    let capabilities: Vec<&str> = std::iter::once("completion").chain(of_template).collect();
    assert_eq!(shown["capabilities"], json!(capabilities), "{name}: those that the template uses");

    let stdout = succeeded(&home.run(&["show", name]));
    assert!(stdout.contains("Go: the library's layer"), "{name}: also in the text output: {stdout}");
    assert_eq!(succeeded(&home.run(&["show", "--template", name])), format!("{}\n", case.template), "{name}");
    let parameters = succeeded(&home.run(&["show", "--parameters", name]));
    assert_eq!(parameters.lines().collect::<Vec<_>>(), lines(&case.params), "{name}");
}

/// Checks the rendered prompt in the debug view, and that a chat and the same raw prompt have equal answers.
fn check_applied(daemon: &Daemon<'_>, case: &Case, name: &str) {
    let messages = json!([
        {"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello!"}, {"role": "user", "content": "Bye"},
    ]);
    let rendered = |path: &str, mut body: Value| {
        body["_debug_render_only"] = json!(true);
        post(daemon, path, body, name)["_debug_info"]["rendered_template"].clone()
    };
    assert_eq!(rendered("/api/chat", json!({"messages": messages})), case.talk, "{name}");
    assert_eq!(rendered("/api/generate", json!({"prompt": "Hi"})), case.question, "{name}");
    assert_eq!(rendered("/api/generate", json!({"prompt": "Hi", "raw": true})), "Hi", "{name}: unchanged");
    let options = json!({"temperature": 0, "num_predict": 8});
    let chat = post(daemon, "/api/chat", json!({"messages": messages, "options": options}), name);
    let raw = post(daemon, "/api/generate", json!({"prompt": case.talk, "raw": true, "options": options}), name);
    assert_eq!(chat["message"]["content"], raw["response"], "{name}: {chat} {raw}");
    assert_eq!(chat["prompt_eval_count"], raw["prompt_eval_count"], "{name}: {chat} {raw}");
}

#[test]
fn published_templates_and_parameters_are_shown_and_used() {
    let home = home();
    let registry = registry(Faults::default());
    let daemon = home.serve();
    for case in cases() {
        let spec = ModelSpec { family: case.family, ..cairn_testkit::tiny_llama() };
        let config = json!({"model_format": "gguf", "model_family": case.family.name, "model_type": "1.4M"});
        let blobs = vec![
            blob("model", cairn_testkit::write(&spec)),
            blob("template", case.template.as_bytes()),
            blob("system", *b"Be brief."),
            blob("params", case.params.to_string().into_bytes()),
            blob("license", *b"Ours."),
            blob("config", config.to_string().into_bytes()),
        ];
        let name = Published::at(&registry, case.name, blobs).name;
        succeeded(&home.run(&["pull", &name, "--insecure"]));
        check_shown(&home, &daemon, &case, &name);
        check_applied(&daemon, &case, &name);
        let log = daemon.log();
        let logged = log.lines().any(|line| line.contains(&name) && line.contains("Go: the library's layer"));
        assert!(logged, "{name}: the log names the template and the reason: {log}");
    }
}

#[test]
fn published_stop_text_ends_answers() {
    let home = home();
    let registry = registry(Faults::default());
    let daemon = home.serve();
    let publish = |model: &str, params: Value| {
        let blobs = vec![
            blob("model", cairn_testkit::write(&cairn_testkit::tiny_llama())),
            blob("template", template!("llama3").as_bytes()),
            blob("params", params.to_string().into_bytes()),
            blob("config", *br#"{"model_format":"gguf","model_family":"llama"}"#),
        ];
        let name = Published::at(&registry, model, blobs).name;
        succeeded(&home.run(&["pull", &name, "--insecure"]));
        name
    };
    let generate = |name: &str| {
        let answer = post(&daemon, "/api/generate", json!({"prompt": "Hi", "options": {"num_predict": 8}}), name);
        (answer["response"].as_str().expect("a text").to_owned(), answer["done_reason"].clone())
    };
    // A greedy answer; its last letter is a stop text of the next model.
    let (free, reason) = generate(&publish("free", json!({"temperature": 0})));
    assert_eq!(reason, "length", "no stop text: {free:?}");
    let last = free.chars().last().expect("the answer is not empty").to_string();
    let (stopped, reason) = generate(&publish("stopped", json!({"temperature": 0, "stop": ["<|never|>", last]})));
    assert_eq!(reason, "stop", "{stopped:?} of {free:?}");
    assert!(free.starts_with(&stopped) && !stopped.contains(&last), "{stopped:?} is {free:?} up to {last:?}");
}
