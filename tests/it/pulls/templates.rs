//! Templates and parameters of four families, published as their publishers do: pulled, shown, and used.
//!
//! The templates are our own, and lay conversations out as the families' own do (`cairn-prompt` tests them by themselves); the
//! parameters are those facts of the published layers that matter to prompts.

use serde_json::{Value, json};

use super::published::{Published, blob};
use super::{home, registry};
use crate::cairn::{Daemon, Home, succeeded};
use cairn_testkit::registry::Faults;
use cairn_testkit::{ModelSpec, families};

/// A family's layers, and the prompts that come of them.
struct Case {
    name: &'static str,
    family: &'static families::Family,
    template: &'static str,
    params: Value,
    /// Of the model's system message, `Hi`, the answer `Hello!`, and `Bye`.
    talk: &'static str,
    /// Of the model's system message and `Hi`.
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

/// What the published params say, in the lines that clients print.
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

fn is_shown(home: &Home, daemon: &Daemon<'_>, case: &Case, name: &str) {
    let shown = post(daemon, "/api/show", json!({}), name);
    assert_eq!(shown["template"], case.template, "{name}: the layer, to the byte");
    assert_eq!(shown["template_reason"], "Go: the library's layer", "{name}: and why it is the one");
    assert_eq!(shown["system"], "Be brief.", "{name}");
    let parameters: Vec<&str> = shown["parameters"].as_str().unwrap_or_default().lines().collect();
    assert_eq!(parameters, lines(&case.params), "{name}: all that its publisher set");
    assert_eq!(
        shown["capabilities"],
        json!(["completion"]),
        "{name}: tools are not supported, whatever the template has"
    );

    let said = succeeded(&home.run(&["show", name]));
    assert!(said.contains("Go: the library's layer"), "{name}: for people too: {said}");
    assert_eq!(succeeded(&home.run(&["show", "--template", name])), format!("{}\n", case.template), "{name}");
    let parameters = succeeded(&home.run(&["show", "--parameters", name]));
    assert_eq!(parameters.lines().collect::<Vec<_>>(), lines(&case.params), "{name}");
}

/// The model reads what the layout says: the debug view has it, and the prompt that goes in as it is is answered alike.
fn is_used(daemon: &Daemon<'_>, case: &Case, name: &str) {
    let messages = json!([
        {"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello!"}, {"role": "user", "content": "Bye"},
    ]);
    let rendered = |path: &str, mut body: Value| {
        body["_debug_render_only"] = json!(true);
        post(daemon, path, body, name)["_debug_info"]["rendered_template"].clone()
    };
    assert_eq!(rendered("/api/chat", json!({"messages": messages})), case.talk, "{name}");
    assert_eq!(rendered("/api/generate", json!({"prompt": "Hi"})), case.question, "{name}");
    assert_eq!(rendered("/api/generate", json!({"prompt": "Hi", "raw": true})), "Hi", "{name}: as it is");
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
        is_shown(&home, &daemon, &case, &name);
        is_used(&daemon, &case, &name);
        let log = daemon.log();
        let told = log.lines().any(|line| line.contains(&name) && line.contains("Go: the library's layer"));
        assert!(told, "{name}: the log says which template it is and why: {log}");
    }
}

#[test]
fn a_published_stop_text_ends_answers() {
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
    let said = |name: &str| {
        let answer = post(&daemon, "/api/generate", json!({"prompt": "Hi", "options": {"num_predict": 8}}), name);
        (answer["response"].as_str().expect("a text").to_owned(), answer["done_reason"].clone())
    };
    // An answer without chance, of which the next model's parameters name the last letter.
    let (free, reason) = said(&publish("free", json!({"temperature": 0})));
    assert_eq!(reason, "length", "nothing stops it: {free:?}");
    let last = free.chars().last().expect("it says something").to_string();
    let (stopped, reason) = said(&publish("stopped", json!({"temperature": 0, "stop": ["<|never|>", last]})));
    assert_eq!(reason, "stop", "{stopped:?} of {free:?}");
    assert!(free.starts_with(&stopped) && !stopped.contains(&last), "{stopped:?} is {free:?} up to {last:?}");
}
