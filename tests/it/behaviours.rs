//! The behaviours of Ollama that other servers of its API most often get wrong: one row of [`table::BEHAVIOURS`] each.
//!
//! A row names the tests that prove the behaviour, here or beside the code, and states where Cairn differs on purpose.

mod answers;
mod check;
mod engine;
mod library;
mod queue;
mod requests;
mod table;

use std::sync::OnceLock;

use cairn_store::Digest;
use serde_json::{Value, json};

use crate::cairn::{Home, exchange};
use crate::pulls::published::models;

/// The file of a small model.
fn tiny() -> &'static [u8] {
    static FILE: OnceLock<Vec<u8>> = OnceLock::new();
    FILE.get_or_init(|| cairn_testkit::write(&cairn_testkit::tiny_llama()))
}

/// Returns a home with the model `m`.
fn home() -> Home {
    let home = Home::new().with("CAIRN_HIDE_PEBBLE", "1");
    store(&home, "m", &[("model", tiny())]);
    home
}

/// Adds a model to the library of a home, before its daemon starts.
fn store(home: &Home, name: &str, layers: &[(&str, &[u8])]) {
    let blobs = models(home).join("blobs");
    std::fs::create_dir_all(&blobs).expect("the home is writable");
    let layer = |(kind, contents): &(&str, &[u8])| {
        let digest = Digest::of(contents);
        std::fs::write(blobs.join(digest.file_name()), contents).expect("the home is writable");
        let kind = format!("application/vnd.ollama.image.{kind}");
        json!({"mediaType": kind, "digest": digest.to_string(), "size": contents.len()})
    };
    let layers: Vec<Value> = layers.iter().map(layer).collect();
    let manifest = manifest(home, name);
    std::fs::create_dir_all(manifest.parent().expect("the path has a folder")).expect("the home is writable");
    std::fs::write(manifest, json!({"layers": layers}).to_string()).expect("the home is writable");
}

/// Returns the path of the manifest of a model with a short name.
fn manifest(home: &Home, name: &str) -> std::path::PathBuf {
    models(home).join("manifests/registry.ollama.ai/library").join(name).join("latest")
}

/// Sends a POST and returns the status and the body.
fn post(home: &Home, path: &str, body: &Value) -> (u16, String) {
    exchange(home.port, "POST", path, &[], &body.to_string()).expect("the daemon answers")
}

/// Sends a POST that must succeed with one JSON object, and returns the object.
fn post_json(home: &Home, path: &str, mut body: Value) -> Value {
    body["stream"] = json!(false);
    let (status, reply) = post(home, path, &body);
    assert_eq!(status, 200, "{path}: {reply}");
    serde_json::from_str(&reply).unwrap_or_else(|error| panic!("{path}: {error}: {reply}"))
}

/// Returns the `models` of `/api/tags` or `/api/ps`.
fn list(home: &Home, path: &str) -> Vec<Value> {
    let (_, body) = exchange(home.port, "GET", path, &[], "").expect("the daemon answers");
    let mut list: Value = serde_json::from_str(&body).unwrap_or_else(|error| panic!("{path}: {error}: {body}"));
    serde_json::from_value(list["models"].take()).unwrap_or_else(|error| panic!("{path}: {error}: {body}"))
}

/// Returns the names of the models in a list, in its order.
fn names(models: &[Value]) -> Vec<&str> {
    models.iter().map(|model| model["name"].as_str().expect("a name")).collect()
}
