//! Models with a template of their own: what is said to them becomes the prompt that the template writes.
//!
//! Nobody sees a prompt from outside. But an answer without chance depends on it alone, so a chat must be answered as the same
//! prompt is that goes in as it is.

use serde_json::{Value, json};

use crate::cairn::{Daemon, Home};

const TEMPLATE: &str =
    "{{ if .System }}<s>{{ .System }}\n{{ end }}{{ if .Prompt }}<u>{{ .Prompt }}\n{{ end }}<a>{{ .Response }}\n";

/// A home with a tiny model that has a Jinja template in its file.
fn home() -> Home {
    let home = Home::new();
    let path = home.folder.path().join("tiny.gguf");
    cairn_testkit::write_file(&cairn_testkit::tiny_llama(), &path).expect("the home is writable");
    let imported = home.run(&["import", &path.to_string_lossy(), "tiny"]);
    assert!(imported.status.success(), "{}", String::from_utf8_lossy(&imported.stderr));
    let stopped = home.run(&["stop", "--daemon"]);
    assert!(stopped.status.success(), "{}", String::from_utf8_lossy(&stopped.stderr));
    home
}

fn post(daemon: &Daemon<'_>, path: &str, mut body: Value) -> Value {
    body["stream"] = json!(false);
    let answer = daemon.post(path, &body).expect("the daemon answers");
    serde_json::from_str(&answer).unwrap_or_else(|error| panic!("{path}: {error}: {answer}"))
}

fn create(daemon: &Daemon<'_>, name: &str, more: Value) -> Value {
    let mut body = json!({"model": name, "from": "tiny"});
    body.as_object_mut().expect("it is one").extend(more.as_object().expect("an object").clone());
    post(daemon, "/api/create", body)
}

/// Asks the model both ways, and checks that it heard the same.
fn check(daemon: &Daemon<'_>, model: &str, talk: &[(&str, &str)], prompt: &str) {
    let options = json!({"temperature": 0, "num_predict": 12});
    let messages: Vec<Value> = talk.iter().map(|(role, text)| json!({"role": role, "content": text})).collect();
    let chat = post(daemon, "/api/chat", json!({"model": model, "messages": messages, "options": options}));
    let raw =
        post(daemon, "/api/generate", json!({"model": "tiny", "prompt": prompt, "raw": true, "options": options}));
    assert_eq!(chat["prompt_eval_count"], raw["prompt_eval_count"], "{model}, {prompt:?}: {chat} {raw}");
    assert_eq!(chat["message"]["content"], raw["response"], "{model}, {prompt:?}");
    assert!(raw["response"].as_str().is_some_and(|text| !text.is_empty()), "an answer: {raw}");
}

#[test]
fn a_models_layer_writes_its_prompts() {
    let home = home();
    let daemon = home.serve();
    let made = create(&daemon, "go", json!({"template": TEMPLATE, "system": "Be brief."}));
    assert_eq!(made["status"], "success", "{made}");
    let talk = [("user", "Hi"), ("assistant", "Yes?"), ("user", "Bye"), ("user", "then")];
    check(&daemon, "go", &talk, "<s>Be brief.\n<u>Hi\n<a>Yes?\n<u>Bye\n\nthen\n<a>");
    check(&daemon, "go", &talk[..2], "<s>Be brief.\n<u>Hi\n<a>Yes?");
    check(&daemon, "go", &[("system", "Sing."), ("user", "Hi")], "<s>Sing.\n<u>Hi\n<a>");

    let loops = "{{ range .Messages }}<{{ .Role }}>{{ .Content }}{{ end }}<assistant>";
    let messages = json!([{"role": "user", "content": "1?"}, {"role": "assistant", "content": "2."}]);
    create(&daemon, "talkative", json!({"template": loops, "messages": messages, "system": "Count."}));
    check(&daemon, "talkative", &[("user", "3?")], "<system>Count.<user>1?<assistant>2.<user>3?<assistant>");

    let shown = post(&daemon, "/api/show", json!({"model": "go"}));
    assert_eq!(shown["template"], TEMPLATE, "the layer is shown");
    assert_eq!(shown["template_reason"], "Go: the library's layer", "and why it is the one");
    assert!(daemon.log().contains("Go: the library's layer"), "the log says so too: {}", daemon.log());
    let refused = create(&daemon, "bad", json!({"template": "{{ if .Prompt }}\n{{ nothing }}{{ end }}"}));
    let said = refused["error"].as_str().unwrap_or_default();
    assert!(said.starts_with("template error: ") && said.contains("line 2: there is no function"), "{refused}");
}

#[test]
fn a_setting_has_the_file_go_first() {
    let home = home().with("OLLAMA_GO_TEMPLATE", "false");
    let daemon = home.serve();
    create(&daemon, "go", json!({"template": TEMPLATE}));
    check(&daemon, "go", &[("user", "Hi")], "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n");
    let shown = post(&daemon, "/api/show", json!({"model": "go"}));
    assert_eq!(shown["template_reason"], "Jinja: OLLAMA_GO_TEMPLATE is off", "{shown}");
}

#[test]
fn a_models_options_go_under_the_requests() {
    let home = home();
    let daemon = home.serve();
    create(&daemon, "short", json!({"template": TEMPLATE, "parameters": {"num_predict": 3, "temperature": 0}}));
    let asked = |options: Value| {
        let messages = json!([{"role": "user", "content": "Hi"}]);
        post(&daemon, "/api/chat", json!({"model": "short", "messages": messages, "options": options}))
    };
    let three = asked(json!({}));
    assert_eq!(three["eval_count"], 3, "the model's: {three}");
    assert_eq!(asked(json!({"num_predict": 2}))["eval_count"], 2, "the request's");

    // A stop text of the layer ends an answer, and is no part of it.
    let text = three["message"]["content"].as_str().expect("an answer");
    let last = text.chars().last().expect("it is not empty").to_string();
    create(&daemon, "stopped", json!({"template": TEMPLATE, "parameters": {"temperature": 0, "stop": [last]}}));
    let messages = json!([{"role": "user", "content": "Hi"}]);
    let stopped = post(&daemon, "/api/chat", json!({"model": "stopped", "messages": messages}));
    let kept = stopped["message"]["content"].as_str().expect("an answer");
    assert!(!kept.contains(&last) && text.starts_with(kept), "{kept:?} is {text:?} up to {last:?}");
    assert_eq!(stopped["done_reason"], "stop", "{stopped}");
}
