//! Models that go to a registry and come back. The registry is Debian's `docker-registry`, which is Docker's own
//! distribution; where a machine lacks it, these journeys say so and end.

use cairn_store::Digest;
use cairn_testkit::distribution::{Access, Distribution};
use cairn_testkit::ollama_client;
use serde_json::Value;

use crate::cairn::{Home, succeeded, text};

/// A home with a model under a name of the registry; the bytes of its manifest.
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
    std::fs::read(manifests.join(registry.host()).join("library/x/latest")).expect("the model is here")
}

#[test]
fn a_model_goes_and_comes_back() {
    let Some(registry) = Distribution::start(Access::Open) else { return };
    let (home, name, sent) = with_model(&registry);
    let _daemon = home.serve();
    let output = home.run(&["push", &name, "--insecure"]);
    let closing = format!("\nYou can find your model at:\n\n\t{name}:latest\n");
    assert_eq!(succeeded(&output), closing, "as Ollama closes");
    let said = text(&output.stderr);
    for line in ["retrieving manifest\n", "pushing ", "pushing manifest\n", "success\n"] {
        assert!(said.contains(line), "{line:?} is missing from {said:?}");
    }

    // Plain HTTP reads the same.
    assert_eq!(registry.get("/v2/library/x/manifests/latest", ""), sent, "the manifest, byte for byte");
    let read: Value = serde_json::from_slice(&sent).expect("it is JSON");
    let layers = read["layers"].as_array().expect("a list").iter().chain([&read["config"]]);
    let digests: Vec<&str> = layers.filter_map(|layer| layer["digest"].as_str()).collect();
    assert!(digests.len() >= 2, "a file and a config: {digests:?}");
    for digest in &digests {
        let bytes = registry.get(&format!("/v2/library/x/blobs/{digest}"), "");
        assert_eq!(Digest::of(&bytes).to_string(), *digest, "the contents are what they are called");
    }

    // Again there is nothing to send, and scripts see every step.
    let again = succeeded(&home.run(&["push", &name, "--insecure", "--json"]));
    let lines: Vec<Value> = again.lines().map(|line| serde_json::from_str(line).expect("each is JSON")).collect();
    assert_eq!(lines.first().map(|line| &line["status"]), Some(&Value::from("retrieving manifest")), "{again}");
    assert_eq!(lines.last().map(|line| &line["status"]), Some(&Value::from("success")), "{again}");
    assert_eq!(lines.len(), digests.len() + 3, "one line for each of the contents: {again}");

    // Gone from here, and back.
    succeeded(&home.run(&["rm", "mine", &name]));
    let blobs = || std::fs::read_dir(home.folder.path().join("models/blobs")).map_or(0, Iterator::count);
    assert_eq!(blobs(), 0, "nothing of it is here");
    succeeded(&home.run(&["pull", &name, "--insecure"]));
    assert_eq!(manifest(&home, &registry), sent, "the same manifest");
    assert_eq!(blobs(), digests.len(), "all its contents");
    succeeded(&home.run(&["verify", &name]));

    // The stock client wants a `Location` with a blob, which this registry does not send.
    let store = home.folder.path().join("theirs");
    let refused = ollama_client::pull(registry.host(), "library/x", "latest", &store);
    assert_eq!(refused, Err("http: no Location header in response".to_owned()), "so it cannot pull from there");
}

#[test]
fn what_cannot_be_pushed_is_said() {
    // The user `u` with the password `p`, as htpasswd writes them with bcrypt.
    let users = "u:$2y$04$bDUoMtO8iG0L2wW6gqtEce7jr4Wljqg/kQUXE6vFYNI8vB/fiEPIK\n";
    let Some(registry) = Distribution::start(Access::Htpasswd(users)) else { return };
    let (home, name, _) = with_model(&registry);
    let daemon = home.serve();
    let check = |words: &[&str], part: &str| {
        let output = home.run(words);
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{words:?} must be refused: {said}");
        assert!(said.contains(part), "{words:?}: {part:?} is missing from {said:?}");
    };
    check(&["push", &name, "--insecure"], "you are not authorized to push to this namespace");
    check(&["push", "nobody/nothing"], "model 'nobody/nothing' not found");
    check(&["push", "pebble"], "part of Cairn");
    check(&["push", "a b"], "invalid model name");
    drop(daemon);
}
