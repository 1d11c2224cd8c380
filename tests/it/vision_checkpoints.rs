//! Models with vision towers from checkpoints, through the daemon: they see as those of the same weights in GGUF files do.

use std::path::Path;

use cairn_convert::FileType;
use cairn_testkit::checkpoint::checkpoint;
use it::checkpoints::{self, Case};
use serde_json::{Value, json};

use crate::cairn::{Daemon, Home, succeeded, text};

/// A PNG file of 8 x 6 pixels with smooth and with changing colors, so that the order of pixels and of patches matters.
const COLORS: &str = concat!(
    "iVBORw0KGgoAAAANSUhEUgAAAAgAAAAGCAIAAABxZ0isAAAAmklEQVR42gXBQQeCQRAG4JeIiIjOe58/sb9iznuKiIiILnOJiIiITnv4iEZERL",
    "clIiJi6LgiIiKic88DAA4lj3JARVCNqCXUMxoA3R09PD0DvYTekT6Jvpl+AB8cHz2fAp+FL5GviS3zDZDCydLLKshaZBNlm2SXZQ/o0OnI6zjo",
    "RHQadZZ0nnUBWNNZy1s7WEesG62XrJ9t8Af6TUQnhLgvLwAAAABJRU5ErkJggg==",
);
/// A GIF file of one pixel.
const BLACK: &str = "R0lGODlhAQABAIAAAAAAAP///yH5BAEAAAAALAAAAAABAAEAAAIBRAA7";

fn put(folder: &Path, name: &str, contents: &[u8]) {
    std::fs::create_dir_all(folder).expect("the home is writable");
    std::fs::write(folder.join(name), contents).expect("the home is writable");
}

/// Creates a model from a Modelfile with these words of `FROM`. Returns what the command prints.
fn create(home: &Home, name: &str, from: &[&str], more: &[&str]) -> String {
    let lines: String = from.iter().map(|from| format!("FROM {from}\n")).collect();
    put(home.folder.path(), "Modelfile", lines.as_bytes());
    let path = home.folder.path().join("Modelfile");
    let output = home.run(&[&["create", name, "-f", &*path.to_string_lossy()], more].concat());
    println!("{name}");
    succeeded(&output);
    text(&output.stderr)
}

fn ask(daemon: &Daemon<'_>, path: &str, body: Value) -> Value {
    let reply = daemon.post(path, &body).expect("the daemon answers");
    serde_json::from_str(&reply).expect("valid JSON")
}

/// Returns the log probabilities of an answer about a picture.
fn seen(daemon: &Daemon<'_>, model: &str, image: &str) -> Value {
    let message = json!({"role": "user", "content": "Look", "images": [image]});
    let options = json!({"temperature": 0, "num_predict": 4});
    let body = json!({"model": model, "messages": [message], "stream": false, "options": options, "logprobs": true});
    let reply = ask(daemon, "/api/chat", body);
    assert!(reply["logprobs"].is_array(), "{model}: {reply}");
    reply["logprobs"].clone()
}

#[test]
fn model_from_a_folder_sees_as_one_from_gguf_files() {
    let home = Home::new();
    let daemon = home.serve();
    let folder = home.folder.path();
    let has_tower = |case: &Case| case.spec.tower.is_some() && case.target == FileType::F16;
    for Case { name, spec, .. } in checkpoints::all().into_iter().filter(has_tower) {
        let made = checkpoint(&spec);
        for (file, contents) in &made.files {
            put(&folder.join(name), file, contents);
        }
        let files = checkpoints::open(&made.files, &folder.join(name)).expect("files");
        let model = checkpoints::convert(&files, FileType::F32).expect("a valid checkpoint");
        put(folder, "model.gguf", &model);
        put(folder, "mmproj.gguf", made.tower.as_ref().expect("a checkpoint with a tower"));
        let own = format!("{name}-folder");
        let printed = create(&home, &own, &[&format!("./{name}")], &["-q", "f32"]);
        assert!(
            printed.contains("converting vision tower to F32") && !printed.contains("warning"),
            "{name}: {printed}"
        );
        create(&home, name, &["./model.gguf", "./mmproj.gguf"], &[]);
        for model in [own.as_str(), name] {
            let shown = ask(&daemon, "/api/show", json!({"model": model}));
            let capabilities = shown["capabilities"].as_array().cloned().unwrap_or_default();
            assert!(capabilities.contains(&json!("vision")), "{model}: {capabilities:?}");
        }
        let [colors, black] = [COLORS, BLACK].map(|image| seen(&daemon, &own, image));
        assert_ne!(colors, black, "{name}: the image changes the answer");
        assert_eq!(colors, seen(&daemon, name, COLORS), "{name}: the same weights");
        let printed = create(&home, &own, &[&format!("./{name}")], &["-q", "q4_K_M"]);
        assert!(printed.contains("converting vision tower to F16"), "{name}: {printed}");
        seen(&daemon, &own, COLORS);
    }
}
