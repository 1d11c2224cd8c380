//! Models with templates: messages become the prompt that the template renders.
//!
//! The API does not return prompts. But a greedy answer depends only on the prompt, so a chat and the same raw prompt
//! must have equal answers.

use cairn_testkit::{Script, scripted};
use serde_json::{Value, json};

use crate::cairn::{Daemon, Home};

const TEMPLATE: &str =
    "{{ if .System }}<s>{{ .System }}\n{{ end }}{{ if .Prompt }}<u>{{ .Prompt }}\n{{ end }}<a>{{ .Response }}\n";

/// Returns a home with a tiny model that has a Jinja template in its file.
fn home() -> Home {
    home_of(&cairn_testkit::write(&cairn_testkit::tiny_llama()))
}

/// Returns a home with this file as the model `tiny`.
fn home_of(file: &[u8]) -> Home {
    let home = Home::new();
    let path = home.folder.path().join("tiny.gguf");
    std::fs::write(&path, file).expect("the home is writable");
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
    body.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
    post(daemon, "/api/create", body)
}

/// Checks that a chat and a raw prompt have equal answers.
fn check(daemon: &Daemon<'_>, model: &str, talk: &[(&str, &str)], prompt: &str) {
    let options = json!({"temperature": 0, "num_predict": 12});
    let messages: Vec<Value> = talk.iter().map(|(role, text)| json!({"role": role, "content": text})).collect();
    let chat = post(daemon, "/api/chat", json!({"model": model, "messages": messages, "options": options}));
    let raw =
        post(daemon, "/api/generate", json!({"model": "tiny", "prompt": prompt, "raw": true, "options": options}));
    assert_eq!(chat["prompt_eval_count"], raw["prompt_eval_count"], "{model}, {prompt:?}: {chat} {raw}");
    assert_eq!(chat["message"]["content"], raw["response"], "{model}, {prompt:?}");
    assert!(raw["response"].as_str().is_some_and(|text| !text.is_empty()), "the answer is not empty: {raw}");
}

#[test]
fn template_layer_renders_the_prompt() {
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
    assert_eq!(shown["template_reason"], "Go: the library's layer", "the reason");
    assert!(daemon.log().contains("Go: the library's layer"), "the log names the template: {}", daemon.log());
    let refused = create(&daemon, "bad", json!({"template": "{{ if .Prompt }}\n{{ nothing }}{{ end }}"}));
    let message = refused["error"].as_str().unwrap_or_default();
    assert!(message.starts_with("template error: ") && message.contains("line 2: there is no function"), "{refused}");
}

#[test]
fn renderer_replaces_the_template_and_thinking_is_separate() {
    let script = Script { begin: "<think>", text: "They greet.</think>\n\nHello!" };
    let home = home_of(&scripted("{{ messages[-1].content }}", &[script], &["</think>"]));
    let daemon = home.serve();
    let names = json!({"renderer": "olmo3-think", "parser": "olmo3-think"});
    let made = create(&daemon, "thinker", names);
    assert_eq!(made["status"], "success", "{made}");
    for more in [json!({}), json!({"think": true}), json!({"think": false})] {
        let mut request = json!({"model": "thinker", "messages": [{"role": "user", "content": "Hi"}]});
        request.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
        let message = &post(&daemon, "/api/chat", request)["message"];
        let expected = (&json!("They greet."), &json!("Hello!"));
        assert_eq!((&message["thinking"], &message["content"]), expected, "{more}: the model always thinks");
    }
    let shown = post(&daemon, "/api/show", json!({"model": "thinker"}));
    assert_eq!(shown["template_reason"], "Jinja: the renderer \"olmo3-think\"", "{shown}");
    assert_eq!(shown["capabilities"], json!(["completion", "thinking"]), "{shown}");
    let modelfile = shown["modelfile"].as_str().unwrap_or_default();
    assert!(modelfile.contains("\nRENDERER olmo3-think\nPARSER olmo3-think\n"), "{modelfile}");

    create(&daemon, "other", json!({"renderer": "future"}));
    post(&daemon, "/api/chat", json!({"model": "other", "messages": [{"role": "user", "content": "Hi"}]}));
    assert!(daemon.log().contains("is not built in; the file's own"), "the log has the warning: {}", daemon.log());
    create(&daemon, "bare", json!({"renderer": "future", "template": "{{ .Prompt }}"}));
    let shown = post(&daemon, "/api/show", json!({"model": "bare"}));
    let reason = "Jinja: the renderer \"future\" is not built in; the file's own";
    assert_eq!(shown["template_reason"], reason, "a stub is not a template: {shown}");
}

#[test]
fn disabled_go_templates_prefer_the_file_template() {
    let home = home().with("OLLAMA_GO_TEMPLATE", "false");
    let daemon = home.serve();
    create(&daemon, "go", json!({"template": TEMPLATE}));
    check(&daemon, "go", &[("user", "Hi")], "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n");
    let shown = post(&daemon, "/api/show", json!({"model": "go"}));
    assert_eq!(shown["template_reason"], "Jinja: OLLAMA_GO_TEMPLATE is off", "{shown}");
}

#[test]
fn request_options_override_model_parameters() {
    let home = home();
    let daemon = home.serve();
    create(&daemon, "short", json!({"template": TEMPLATE, "parameters": {"num_predict": 3, "temperature": 0}}));
    let chat = |options: Value| {
        let messages = json!([{"role": "user", "content": "Hi"}]);
        post(&daemon, "/api/chat", json!({"model": "short", "messages": messages, "options": options}))
    };
    let three = chat(json!({}));
    assert_eq!(three["eval_count"], 3, "the model's parameter: {three}");
    assert_eq!(chat(json!({"num_predict": 2}))["eval_count"], 2, "the request's option");

    // A stop text of the model ends the answer and is not part of it.
    let text = three["message"]["content"].as_str().expect("an answer");
    let last = text.chars().last().expect("the answer is not empty").to_string();
    create(&daemon, "stopped", json!({"template": TEMPLATE, "parameters": {"temperature": 0, "stop": [last]}}));
    let messages = json!([{"role": "user", "content": "Hi"}]);
    let stopped = post(&daemon, "/api/chat", json!({"model": "stopped", "messages": messages}));
    let kept = stopped["message"]["content"].as_str().expect("an answer");
    assert!(!kept.contains(&last) && text.starts_with(kept), "{kept:?} is {text:?} up to {last:?}");
    assert_eq!(stopped["done_reason"], "stop", "{stopped}");
}
