//! The OpenAPI document of the daemon against its router, and its responses against the document.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

use cairn_testkit::tool_caller;
use serde_json::Value;

use crate::cairn::{Home, exchange, succeeded, text};
use crate::clients::installed;
use crate::requests::routes;

#[test]
fn document_has_exactly_the_operations_of_the_router() {
    let home = Home::new();
    let daemon = home.serve();
    let bearer = home.bearer().expect("the daemon has a token");
    let document = daemon.get("/openapi.json").expect("the daemon answers");
    let document: Value = serde_json::from_str(&document).expect("the document is JSON");
    let paths = document["paths"].as_object().expect("the document has paths");
    let documented: BTreeSet<(String, String)> = paths
        .iter()
        .flat_map(|(path, methods)| {
            let methods = methods.as_object().into_iter().flat_map(|methods| methods.keys());
            methods.map(|method| (path.clone(), method.to_uppercase()))
        })
        .collect();
    let mut routed = BTreeSet::new();
    for path in routes::paths() {
        for method in routes::methods(home.port, &bearer, &path) {
            routed.insert((path.replace("{*", "{"), method));
        }
    }
    let difference = |one: &BTreeSet<(String, String)>, other| -> Vec<String> {
        one.difference(other).map(|(path, method)| format!("{method} {path}")).collect()
    };
    let table = "src-tauri/crates/http/src/operations/table.rs";
    assert_eq!(difference(&routed, &documented), [""; 0], "add a line to {table} and run `cargo xtask gen`");
    assert_eq!(difference(&documented, &routed), [""; 0], "remove the line from {table} and run `cargo xtask gen`");
}

/// Requests of each operation: a few in CI, enough for 20,000 in all in `cargo xtask prove openapi`.
#[expect(clippy::disallowed_methods, reason = "`cargo xtask prove` sets the scale")]
fn requests() -> String {
    std::env::var("CAIRN_PROVE_RUNS").unwrap_or_else(|_| "3".to_owned())
}

#[test]
fn responses_match_the_document() {
    // No request may leave this machine. A small context ends long answers.
    let home = Home::new().with("CAIRN_PROXY", "http://127.0.0.1:1").with("OLLAMA_CONTEXT_LENGTH", "256");
    let user = home.folder.path().join("user");
    let home = home.with("HOME", user.to_string_lossy()).with("CAIRN_CHAT_TITLES", "0").with("CAIRN_STALL", "500ms");
    let caller = home.folder.path().join("caller.gguf");
    std::fs::write(&caller, tool_caller()).expect("the home is writable");
    let daemon = home.serve();
    succeeded(&home.run(&["import", &caller.to_string_lossy(), "caller"]));
    let bearer = home.bearer().expect("the daemon has a token");
    let (_, chat) =
        exchange(home.port, "POST", "/app/chats", &[("Authorization", bearer.as_str())], "{}").expect("a chat");
    let chat: Value = serde_json::from_str(&chat).expect("the chat is JSON");

    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("it/schemathesis");
    let output = Command::new(installed("schemathesis/bin/schemathesis"))
        .arg("--config-file")
        .arg(folder.join("schemathesis.toml"))
        .args(["run", &format!("http://127.0.0.1:{}/openapi.json", home.port), "--phases", "fuzzing"])
        .args(["--header", &format!("Authorization: {bearer}"), "--max-examples", &requests(), "--seed", "1"])
        .env("CAIRN_CHAT", chat["id"].as_str().expect("an id"))
        .env("PYTHONPATH", folder)
        .current_dir(home.folder.path())
        .output()
        .expect("schemathesis starts");
    println!("{}", text(&output.stdout));
    assert!(output.status.success(), "{}{}", text(&output.stdout), text(&output.stderr));
    let log = daemon.log();
    assert!(!log.contains("panicked"), "{log}");
}
