//! Models pushed to a registry and pulled back. The registry is Debian's `docker-registry`, which is Docker's
//! Distribution; these tests are skipped with a message without it.

use cairn_store::Digest;
use cairn_testkit::distribution::{Access, Distribution};
use cairn_testkit::ollama_client;
use serde_json::Value;

use crate::cairn::{Home, succeeded, text};

/// Returns a home with a model under a name of the registry, the name, and the manifest.
fn with_model(registry: &Distribution) -> (Home, String, Vec<u8>) {
    let home = Home::new();
    let file = home.folder.path().join("tiny.gguf");
    cairn_testkit::write_file(&cairn_testkit::tiny_llama(), &file).expect("the home is writable");
    succeeded(&home.run(&["import", &file.to_string_lossy(), "mine"]));
    let name = format!("{}/library/x", registry.host());
    succeeded(&home.run(&["cp", "mine", &name]));
    let manifest = manifest(&home, registry);
    (home, name, manifest)
}

fn manifest(home: &Home, registry: &Distribution) -> Vec<u8> {
    let manifests = home.folder.path().join("models/manifests");
    std::fs::read(manifests.join(registry.host()).join("library/x/latest")).expect("the manifest exists")
}

#[test]
fn pushed_model_is_pulled_back_unchanged() {
    let Some(registry) = Distribution::start(Access::Open) else { return };
    let (home, name, sent) = with_model(&registry);
    let _daemon = home.serve();
    let output = home.run(&["push", &name, "--insecure"]);
    let closing = format!("\nYou can find your model at:\n\n\t{name}:latest\n");
    assert_eq!(succeeded(&output), closing, "Ollama's last lines");
    let stderr = text(&output.stderr);
    for line in ["retrieving manifest\n", "pushing ", "pushing manifest\n", "success\n"] {
        assert!(stderr.contains(line), "{line:?} is missing from {stderr:?}");
    }

    // Plain HTTP reads the same bytes.
    assert_eq!(registry.get("/v2/library/x/manifests/latest", ""), sent, "an identical manifest");
    let read: Value = serde_json::from_slice(&sent).expect("valid JSON");
    let layers = read["layers"].as_array().expect("a list").iter().chain([&read["config"]]);
    let digests: Vec<&str> = layers.filter_map(|layer| layer["digest"].as_str()).collect();
    assert!(digests.len() >= 2, "weights and a config: {digests:?}");
    for digest in &digests {
        let bytes = registry.get(&format!("/v2/library/x/blobs/{digest}"), "");
        assert_eq!(Digest::of(&bytes).to_string(), *digest, "the blob matches its digest");
    }

    // A second push sends no blobs, and its JSON has every step.
    let again = succeeded(&home.run(&["push", &name, "--insecure", "--json"]));
    let lines: Vec<Value> = again.lines().map(|line| serde_json::from_str(line).expect("each line is JSON")).collect();
    assert_eq!(lines.first().map(|line| &line["status"]), Some(&Value::from("retrieving manifest")), "{again}");
    assert_eq!(lines.last().map(|line| &line["status"]), Some(&Value::from("success")), "{again}");
    assert_eq!(lines.len(), digests.len() + 3, "one line per blob: {again}");

    // Delete the model and pull it back.
    succeeded(&home.run(&["rm", "mine", &name]));
    let blobs = || std::fs::read_dir(home.folder.path().join("models/blobs")).map_or(0, Iterator::count);
    assert_eq!(blobs(), 0, "all blobs are deleted");
    succeeded(&home.run(&["pull", &name, "--insecure"]));
    assert_eq!(manifest(&home, &registry), sent, "the same manifest");
    assert_eq!(blobs(), digests.len(), "all blobs");
    succeeded(&home.run(&["verify", &name]));

    // The stock client requires a `Location` header for blobs, which this registry does not send.
    let store = home.folder.path().join("theirs");
    let refused = ollama_client::pull(registry.host(), "library/x", "latest", &store);
    assert_eq!(
        refused,
        Err("http: no Location header in response".to_owned()),
        "the stock client cannot pull from this registry"
    );
}

#[test]
fn invalid_pushes_fail_with_a_reason() {
    // The user `u` with the password `p`, as htpasswd writes them with bcrypt.
    let users = "u:$2y$04$bDUoMtO8iG0L2wW6gqtEce7jr4Wljqg/kQUXE6vFYNI8vB/fiEPIK\n";
    let Some(registry) = Distribution::start(Access::Htpasswd(users)) else { return };
    let (home, name, _) = with_model(&registry);
    let daemon = home.serve();
    let check = |words: &[&str], part: &str| {
        let output = home.run(words);
        let stderr = text(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{words:?} must fail: {stderr}");
        assert!(stderr.contains(part), "{words:?}: {part:?} is missing from {stderr:?}");
    };
    check(&["push", &name, "--insecure"], "you are not authorized to push to this namespace");
    check(&["push", "missing/nothing"], "model 'missing/nothing' not found");
    check(&["push", "pebble"], "part of Cairn");
    check(&["push", "a b"], "invalid model name");
    drop(daemon);
}
