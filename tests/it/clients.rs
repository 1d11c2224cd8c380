//! Real client libraries against the real daemon.

use std::path::{Path, PathBuf};
use std::process::Command;

use cairn_testkit::distribution::{Access, Distribution};
use cairn_testkit::registry::{FakeRegistry, Faults};
use serde_json::json;

use crate::cairn::Home;

/// Python with the client libraries, which `cargo xtask setup` installs beside the build.
fn python() -> PathBuf {
    client("bin/python")
}

/// Returns a path in the folder of client libraries.
fn client(path: &str) -> PathBuf {
    installed(&format!("clients/{path}"))
}

/// Returns a path in a folder that `cargo xtask setup` installs beside the build.
pub(crate) fn installed(path: &str) -> PathBuf {
    let folder = crate::cairn::program();
    let target = folder.parent().and_then(Path::parent).expect("the program is in target/<profile>");
    let found = target.join(path);
    assert!(found.exists(), "{} is missing: run `cargo xtask setup`", found.display());
    found
}

/// Number of conversations: 20 in CI, 100 in `cargo xtask prove chats`.
#[expect(clippy::disallowed_methods, reason = "`cargo xtask prove` sets the scale")]
fn conversations() -> usize {
    std::env::var("CAIRN_PROVE_CHATS").ok().and_then(|count| count.parse().ok()).unwrap_or(20)
}

#[test]
fn concurrent_conversations_through_the_ollama_package_are_never_mixed_up() {
    // A small budget for KV pages, so that pages are evicted.
    let home = Home::new()
        .with("CAIRN_KV_BUDGET", (24 << 20).to_string())
        .with("CAIRN_KV_RAM", "8M")
        .with("OLLAMA_NUM_PARALLEL", "8");
    let daemon = home.serve();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("it/clients/chats.py");
    let output = Command::new(python())
        .arg(script)
        .arg(format!("http://127.0.0.1:{}", home.port))
        .args([daemon.child.id().to_string(), conversations().to_string(), "8".to_owned()])
        .output()
        .expect("Python starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).expect("the script prints JSON");
    println!("{report}");
    assert_eq!(report["errors"], serde_json::json!([]), "{report}");
    assert_eq!(report["mixed_up"], serde_json::json!([]), "answers differ from sequential ones: {report}");
    let bytes = |key: &str| report[key].as_u64().expect("a number of bytes");
    assert!(bytes("rss_late") <= bytes("rss_early") + (32 << 20), "the daemon grows: {report}");
}

#[test]
fn logprobs_through_the_ollama_package_match_the_text() {
    let home = Home::new();
    let _daemon = home.serve();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("it/clients/logprobs.py");
    let address = format!("http://127.0.0.1:{}", home.port);
    let output = Command::new(python()).arg(script).arg(address).output().expect("Python starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).expect("the script prints JSON");
    println!("{report}");
    for way in ["chat", "chat_streamed", "generate"] {
        let report = &report[way];
        assert_eq!(report["text"], report["text_of_tokens"], "{way}: tokens and text are aligned: {report}");
        assert_eq!(
            report["tokens"], report["eval_count"],
            "{way}: every token except the end token is reported: {report}"
        );
        assert_eq!(report["tops"], serde_json::json!([4]), "{way}: the requested number of alternatives: {report}");
        // Greedy sampling takes the likeliest token.
        assert_eq!(report["greedy"], true, "{way}: {report}");
    }
}

/// Runs a script of `clients/` and returns the JSON object that it prints.
pub(crate) fn script(name: &str, words: &[&str]) -> serde_json::Value {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("it/clients").join(name);
    let mut runs = match name.ends_with(".cjs") {
        true => {
            let mut node = Command::new(client("bin/node"));
            node.env("NODE_PATH", client("node_modules"));
            node
        }
        false => Command::new(python()),
    };
    let output = runs.arg(script).args(words).output().expect("the script's language starts");
    assert!(output.status.success(), "{name}: {}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("the script prints JSON")
}

#[test]
fn models_are_copied_and_deleted_through_the_ollama_package() {
    let home = Home::new();
    let _daemon = home.serve();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("it/clients/library.py");
    let address = format!("http://127.0.0.1:{}", home.port);
    let output = Command::new(python()).arg(script).arg(address).output().expect("Python starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).expect("the script prints JSON");
    let names = |key: &str| -> Vec<String> {
        report[key].as_object().unwrap_or_else(|| panic!("{key}: {report}")).keys().cloned().collect()
    };
    for key in ["copy", "again", "create", "delete GUIDE", "delete hf.co/me/guide-gguf:q8_0", "delete mine"] {
        assert_eq!(report[key], "success", "{key}: {report}");
    }
    assert_eq!(names("before"), ["pebble:latest"], "{report}");
    assert_eq!(names("copied"), ["Guide:latest", "pebble:latest"], "the spelling is preserved: {report}");
    let twice = &report["twice"];
    assert_eq!(twice["Guide:latest"], twice["hf.co/Me/Guide-GGUF:Q8_0"], "the same digest: {report}");
    assert_eq!(report["answer"], true, "{report}");
    assert_eq!(report["running"], serde_json::json!(["mine:latest"]), "{report}");
    assert_eq!(report["shown"], "llama", "{report}");
    let refusals = serde_json::json!({
        "copy of nothing": [404, "model \"missing\" not found"],
        "copy of no name": [400, "source \"a b\" is invalid"],
        "copy to no name": [400, "destination \"../x\" is invalid"],
        "delete nothing": [404, "model 'missing' not found"],
        "delete no name": [400, "name \"../x\" is invalid"],
    });
    assert_eq!(report["refusals"], refusals, "texts of Ollama");
    assert_eq!(names("after"), ["pebble:latest"], "{report}");
}

#[test]
fn models_are_created_through_the_ollama_package() {
    let home = Home::new();
    let _daemon = home.serve();
    let file = home.folder.path().join("m.gguf");
    let types = cairn_testkit::Types::All(cairn_gguf::DType::F16);
    let spec = cairn_testkit::ModelSpec { types, ..cairn_testkit::tiny_llama() };
    cairn_testkit::write_file(&spec, &file).expect("the home is writable");
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("it/clients/creates.py");
    let address = format!("http://127.0.0.1:{}", home.port);
    let output = Command::new(python()).arg(script).arg(address).arg(file).output().expect("Python starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).expect("the script prints JSON");
    assert_eq!(report["again"], true, "an existing blob is not sent again: {report}");
    let steps: Vec<&str> = report["steps"].as_array().expect("a list").iter().flat_map(|step| step.as_str()).collect();
    assert_eq!((steps.first(), steps.last()), (Some(&"parsing GGUF"), Some(&"success")), "{report}");
    assert_eq!(report["shown"][0], "F16", "{report}");
    assert_eq!(report["shown"][1], "MIT\nBSD", "{report}");
    assert_eq!(report["quantised"], serde_json::json!(["quantizing F16 model to Q4_K_M", true]), "{report}");
    assert_eq!(report["level"], "Q4_K_M", "{report}");
    assert_eq!(report["answer"], true, "{report}");
    let refusals = serde_json::json!({
        "absolute": [400, "file path must be relative"],
        "up": [400, "file path must be relative"],
        "no digest": [400, "invalid digest format"],
        "nothing": [400, "neither 'from' or 'files' was specified"],
        "adapters": [400, "only one adapter is currently supported"],
    });
    assert_eq!(report["refusals"], refusals, "texts of Ollama");
}

#[test]
fn npm_ollama_package_manages_models() {
    let home = Home::new();
    let registry =
        FakeRegistry::start(1, Faults { redirect: true, bytes_per_second: Some(2 << 20), ..Faults::default() })
            .expect("loopback has free ports");
    let model = crate::pulls::tiny(&registry, "tiny", 81);
    // Without this registry, the rest of the test still runs.
    let distribution = Distribution::start(Access::Open);
    let pushed =
        distribution.as_ref().map(|running| format!("{}/library/js:latest", running.host())).unwrap_or_default();
    let _daemon = home.serve();
    let file = home.folder.path().join("m.gguf");
    cairn_testkit::write_file(&cairn_testkit::tiny_llama(), &file).expect("the home is writable");
    let address = format!("http://127.0.0.1:{}", home.port);
    let report = script("library.cjs", &[&address, &model, &file.to_string_lossy(), &pushed]);

    let steps = json!(["pulling manifest", "verifying sha256 digest", "writing manifest", "success"]);
    assert_eq!(report["pull"]["statuses"], steps, "{report}");
    let progress = report["pull"]["progress"].as_object().expect("digests");
    assert_eq!(progress.len(), 3, "progress of each blob: {report}");
    for pairs in progress.values() {
        let pairs: Vec<[u64; 2]> = serde_json::from_value(pairs.clone()).expect("numbers");
        assert!(pairs.is_sorted() && pairs.last().is_some_and(|[completed, total]| completed == total), "{pairs:?}");
    }
    assert!(
        progress.values().any(|pairs| pairs.as_array().is_some_and(|pairs| pairs.len() > 3)),
        "more than three progress events: {report}"
    );
    for whole in ["pullWhole", "createWhole", "copy"] {
        assert_eq!(report[whole], json!({"status": "success"}), "{whole}: {report}");
    }
    let absent = "pull model manifest: file does not exist";
    let begins = |value: &serde_json::Value| value.as_str().is_some_and(|text| text.starts_with(absent));
    assert_eq!((&report["missing"][0], &report["missing"][1]), (&json!("ResponseError"), &json!(500)), "{report}");
    assert!(begins(&report["missing"][2]) && begins(&report["missingStreamed"][2]), "{report}");

    assert_eq!(report["blob"], json!([201, 200]), "created, then found: {report}");
    let made = report["create"]["statuses"].as_array().expect("a list");
    assert_eq!((made.first(), made.last()), (Some(&json!("parsing GGUF")), Some(&json!("success"))), "{report}");
    assert_eq!(report["shown"], json!(["llama", "Be brief.", "{{ .Prompt }}", ["completion"], "object"]), "{report}");
    assert_eq!((&report["answer"], &report["answerStreamed"]), (&json!(true), &json!(true)), "{report}");
    assert_eq!(report["copied"]["derived:latest"], report["copied"]["Second:latest"], "the same digest: {report}");
    if distribution.is_some() {
        let steps = json!(["retrieving manifest", "pushing manifest", "success"]);
        assert_eq!(report["push"]["statuses"], steps, "{report}");
        assert_eq!(report["push"]["progress"].as_object().map(serde_json::Map::len), Some(5), "{report}");
        assert_eq!(report["pushWhole"], json!({"status": "success"}), "{report}");
    }
    let refused = |status: u16, text: &str| json!(["ResponseError", status, text]);
    let refusals = json!({
        "show": refused(404, "model 'missing' not found"),
        "copy": refused(404, "model \"missing\" not found"),
        "delete": refused(404, "model 'missing' not found"),
        "create": refused(400, "neither 'from' or 'files' was specified"),
        "push": refused(404, "model 'missing/nothing' not found"),
        "chat": refused(404, "model 'missing' not found"),
        "chatStreamed": refused(404, "model 'missing' not found"),
    });
    assert_eq!(report["refusals"], refusals, "the package's error class, with Ollama's status and text");
    assert_eq!(report["after"], report["before"], "all models are deleted");
}

#[test]
fn models_are_pushed_through_the_ollama_package() {
    let Some(registry) = Distribution::start(Access::Open) else { return };
    let home = Home::new();
    let _daemon = home.serve();
    let file = home.folder.path().join("m.gguf");
    cairn_testkit::write_file(&cairn_testkit::tiny_llama(), &file).expect("the home is writable");
    let address = format!("http://127.0.0.1:{}", home.port);
    let name = format!("{}/library/py:latest", registry.host());
    let report = script("pushes.py", &[&address, &file.to_string_lossy(), &name]);
    let steps = json!(["retrieving manifest", "pushing manifest", "success"]);
    assert_eq!(report["statuses"], steps, "{report}");
    for pairs in report["progress"].as_object().expect("digests").values() {
        let pairs: Vec<[u64; 2]> = serde_json::from_value(pairs.clone()).expect("numbers");
        assert!(pairs.is_sorted() && pairs.last().is_some_and(|[completed, total]| completed == total), "{pairs:?}");
    }
    assert_eq!((&report["again"], &report["back"]), (&json!("success"), &json!("success")), "{report}");
    assert_eq!(report["digests"][0], report["digests"][1], "the pulled model is the pushed one: {report}");
    let refusals = json!({
        "push nothing": [404, "model 'missing/nothing' not found"],
        "show nothing": [404, "model 'missing' not found"],
        "chat with nothing": [404, "model 'missing' not found"],
        "chat with nothing, streamed": [404, "model 'missing' not found"],
        "generate with nothing": [404, "model 'missing' not found"],
        "pull no name": [400, "invalid model name"],
    });
    assert_eq!(report["refusals"], refusals, "texts of Ollama");
}
