//! What exists in the daemon under test: names and ids that valid requests use.

use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::cairn::{Home, exchange, succeeded};

/// More models than this are deleted, because lists of all models would get slow.
const MAX_MODELS: usize = 20;
const MAX_CHATS: usize = 40;
/// Longest time until the rows of an unloaded model are stored.
const CONTEXT_TIMEOUT: Duration = Duration::from_secs(5);

#[derive(Debug, Default)]
pub(super) struct World {
    /// A model that is loaded and run.
    pub(super) model: String,
    /// An embedding model.
    pub(super) embedder: String,
    /// A name for copies of the first model.
    pub(super) made: String,
    /// A model of the fake registry, and the registry.
    pub(super) pulled: String,
    pub(super) registry: String,
    /// The digest of a stored blob, and a blob that is not stored.
    pub(super) digest: String,
    pub(super) new_digest: String,
    pub(super) new_blob: String,
    /// A model file outside of the library, and its folder.
    pub(super) file: String,
    pub(super) folder: String,
    /// A key of a peer.
    pub(super) key: String,
    pub(super) chat: String,
    /// A collection with a document, and a collection that requests delete.
    pub(super) collection: String,
    pub(super) document: String,
    pub(super) deleted_collection: String,
    /// A chat that requests delete and restore.
    pub(super) deleted_chat: String,
    /// The question and the answer of the chat.
    pub(super) question: String,
    pub(super) message: String,
    pub(super) download: String,
    pub(super) context: String,
    /// A ticket for a session.
    pub(super) ticket: String,
    /// A model of the fake registry that is downloaded very slowly.
    pub(super) slow: String,
}

impl World {
    /// Texts that are valid for some field.
    pub(super) fn words(&self) -> [&str; 11] {
        let Self { model, made, pulled, registry, digest, file, chat, message, download, context, key, .. } = self;
        [model, made, pulled, registry, digest, file, chat, message, download, context, key]
    }

    /// Adds what earlier requests have removed, removes what they have added too often, and reads the ids.
    pub(super) fn refresh(&mut self, home: &Home) {
        let own = |method: &str, path: &str, body: Value| {
            let bearer = home.bearer().expect("the daemon has a token");
            let body = if body.is_null() { String::new() } else { body.to_string() };
            let response = exchange(home.port, method, path, &[("Authorization", &bearer)], &body);
            let (status, body) = response.unwrap_or_else(|| panic!("{method} {path}: no response"));
            assert!(status < 500, "{method} {path}: {status} {body}");
            serde_json::from_str::<Value>(&body).unwrap_or_default()
        };
        self.restore_models(home);
        let models = own("GET", "/api/tags", Value::Null);
        for name in names(&models["models"], "name").iter().skip(MAX_MODELS) {
            if ![&self.model, &self.embedder, &self.pulled].contains(&name) {
                own("DELETE", "/api/delete", json!({"model": name}));
            }
        }
        let new_chat = json!({"title": "Bread", "model": self.model});
        self.deleted_chat = text(&own("POST", "/app/chats", new_chat.clone())["id"]);
        self.chat = text(&own("POST", "/app/chats", new_chat)["id"]);
        let chats = names(&own("GET", "/app/chats", Value::Null)["chats"], "id");
        for id in chats.iter().skip(MAX_CHATS) {
            own("DELETE", &format!("/app/chats/{id}?forever=true"), Value::Null);
        }
        let messages = format!("/app/chats/{}/messages", self.chat);
        // Long enough for chunks, which appear in the list of contexts.
        let words: String = (0..400).map(|word| format!("{word} ")).collect();
        own("POST", &messages, json!({"content": words, "options": {"num_predict": 2}}));
        let messages = own("GET", &messages, Value::Null);
        self.question = text(&messages["messages"][0]["id"]);
        self.message = last(&messages["messages"], "id");
        own("PUT", "/app/presets/calm", json!({"name": "calm", "model": self.model, "options": {}}));
        // Requests of earlier rounds may have changed them.
        for id in names(&own("GET", "/app/collections", Value::Null)["collections"], "id") {
            own("DELETE", &format!("/app/collections/{id}"), Value::Null);
        }
        let new_collection = json!({"name": "Notes", "model": self.embedder});
        self.deleted_collection = text(&own("POST", "/app/collections", new_collection.clone())["id"]);
        self.collection = text(&own("POST", "/app/collections", new_collection)["id"]);
        let documents = format!("/app/collections/{}/documents?name=notes.md", self.collection);
        self.document = text(&own("POST", &documents, json!("# Notes"))["id"]);
        self.download = text(&own("POST", "/app/downloads", json!({"model": self.slow, "insecure": true}))["id"]);
        self.ticket = own("POST", "/app/session/ticket", Value::Null)["url"]
            .as_str()
            .and_then(|url| Some(url.split_once("#t=")?.1.to_owned()))
            .unwrap_or_default();
        // Unloading the model stores its rows, so that there is a context.
        own("POST", "/api/generate", json!({"model": self.model, "keep_alive": 0}));
        let until = Instant::now() + CONTEXT_TIMEOUT;
        self.context = String::new();
        while self.context.is_empty() && Instant::now() < until {
            self.context = last(&own("GET", "/app/cache/contexts", Value::Null)["contexts"], "id");
        }
        self.key = own("GET", "/app/mirror", Value::Null)["key"].as_str().unwrap_or_default().to_owned();
    }

    /// Writes and imports the models, which some requests move or delete.
    fn restore_models(&self, home: &Home) {
        let file = PathBuf::from(&self.file);
        if !file.exists() {
            fs::create_dir_all(&self.folder).expect("the home is writable");
            cairn_testkit::write_file(&cairn_testkit::tiny_llama(), &file).expect("the home is writable");
        }
        let is_here = |model: &str| {
            let show = json!({"model": model}).to_string();
            exchange(home.port, "POST", "/api/show", &[], &show).is_some_and(|(status, _)| status == 200)
        };
        if !is_here(&self.model) {
            succeeded(&home.run(&["import", &self.file, &self.model]));
        }
        if !is_here(&self.embedder) {
            let file = home.folder.path().join("embedder.gguf");
            let spec = cairn_testkit::tiny_bert(&cairn_testkit::families::BERT);
            cairn_testkit::write_file(&spec, &file).expect("the home is writable");
            succeeded(&home.run(&["import", &file.to_string_lossy(), &self.embedder]));
        }
    }
}

/// Returns a text, or the digits of a number.
fn text(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

fn names(list: &Value, key: &str) -> Vec<String> {
    list.as_array().into_iter().flatten().map(|row| text(&row[key])).collect()
}

fn last(list: &Value, key: &str) -> String {
    names(list, key).pop().unwrap_or_default()
}
