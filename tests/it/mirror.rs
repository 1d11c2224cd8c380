//! Models that other programs pull from this daemon, including models that it fetches from an origin for them.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Stdio;
use std::sync::Arc;

use cairn_store::Digest;
use cairn_testkit::registry::{FakeRegistry, Faults};
use cairn_testkit::{Random, ollama_client};
use serde_json::json;

use crate::cairn::{Home, succeeded, text};

fn names(folder: &Path) -> BTreeSet<String> {
    let entries = std::fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    entries.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
}

/// Returns a home with a tiny imported model `mine`.
fn with_model() -> Home {
    let home = Home::new();
    let file = home.folder.path().join("tiny.gguf");
    cairn_testkit::write_file(&cairn_testkit::tiny_llama(), &file).expect("the home is writable");
    let imported = home.run(&["import", &file.to_string_lossy(), "mine"]);
    assert!(imported.status.success(), "{}", String::from_utf8_lossy(&imported.stderr));
    home
}

#[test]
fn stock_ollama_client_pulls_from_the_daemon() {
    let home = with_model();
    let daemon = home.serve();
    let store = home.folder.path().join("theirs");
    let host = format!("127.0.0.1:{}", home.port);
    ollama_client::pull(&host, "library/mine", "latest", &store).expect("the stock client can pull");
    let blobs = names(&home.folder.path().join("models/blobs"));
    assert_eq!(names(&store.join("blobs")), blobs, "the same blobs");
    assert_eq!(
        std::fs::read(store.join("manifests").join(&host).join("library/mine/latest"))
            .expect("the pulled manifest exists"),
        std::fs::read(home.folder.path().join("models/manifests/registry.ollama.ai/library/mine/latest"))
            .expect("the own manifest exists"),
        "identical manifests"
    );
    let error = ollama_client::pull(&host, "library/none", "latest", &store).expect_err("the model does not exist");
    assert_eq!(error, "file does not exist", "the text of a registry");
    drop(daemon);

    // Cairn can read the client's store.
    let other = Home::new().with("OLLAMA_MODELS", store.to_string_lossy());
    let listed = other.run(&["list"]);
    let listed = String::from_utf8_lossy(&listed.stdout).into_owned();
    assert!(listed.contains(&format!("{host}/library/mine:latest")), "{listed}");
}

/// Publishes a model of random bytes; returns its blobs.
fn publish(registry: &FakeRegistry, model: &str, seed: u64, large_bytes: usize) -> Vec<(Digest, u64)> {
    let mut random = Random::new(seed);
    let blobs: Vec<Vec<u8>> = [large_bytes, 5000, 300]
        .map(|len| {
            let mut bytes = vec![0; len];
            random.fill(&mut bytes);
            bytes
        })
        .into();
    let layers: Vec<_> = ["model", "license", "config"]
        .iter()
        .zip(&blobs)
        .map(|(kind, bytes)| {
            let media_type = format!("application/vnd.ollama.image.{kind}");
            json!({"mediaType": media_type, "digest": Digest::of(bytes).to_string(), "size": bytes.len()})
        })
        .collect();
    let manifest = json!({"schemaVersion": 2, "config": layers[2], "layers": &layers[..2]});
    registry.put_manifest(&format!("library/{model}"), "latest", manifest.to_string().as_bytes());
    blobs
        .into_iter()
        .map(|bytes| {
            let blob = (Digest::of(&bytes), bytes.len() as u64);
            registry.put_blob(&blob.0.to_string(), Arc::from(bytes));
            blob
        })
        .collect()
}

/// Returns a home whose daemon mirrors a registry.
fn mirror_of(registry: &FakeRegistry) -> Home {
    Home::new().with("CAIRN_MIRROR", "1").with("CAIRN_MIRROR_ORIGINS", format!("http://{}/library", registry.host()))
}

#[test]
fn fifty_concurrent_clients_cause_one_origin_pull() {
    // Fast enough that no connection takes over part of another's range, which would send bytes twice.
    let faults = Faults { bytes_per_second: Some(10_000_000), sign_in: true, redirect: true, ..Faults::default() };
    let registry = FakeRegistry::start(1, faults).expect("loopback has free ports");
    let blobs = publish(&registry, "wanted", 7, 6_000_000);
    let home = mirror_of(&registry);
    let daemon = home.serve();
    let host = &format!("127.0.0.1:{}", home.port);
    let stores = home.folder.path().join("clients");
    std::thread::scope(|scope| {
        let clients: Vec<_> = (0..50)
            .map(|n| {
                let store = stores.join(n.to_string());
                scope.spawn(move || {
                    ollama_client::pull(host, "library/wanted", "latest", &store).map(|()| names(&store.join("blobs")))
                })
            })
            .collect();
        let expected: BTreeSet<String> = blobs.iter().map(|(digest, _)| digest.file_name()).collect();
        for client in clients {
            let got = client.join().expect("a client does not panic");
            let got = got.unwrap_or_else(|error| panic!("{error}\n{}", daemon.log()));
            assert_eq!(got, expected, "every client has every blob");
        }
    });
    for (digest, size_bytes) in &blobs {
        assert_eq!(registry.sent_bytes(&digest.to_string()), *size_bytes, "the origin sent {digest} once");
    }
    let manifest = format!("models/manifests/{}/library/wanted/latest", registry.host());
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(20);
    while !home.folder.path().join(&manifest).exists() {
        assert!(std::time::Instant::now() < deadline, "timeout: the model is not in the library: {}", daemon.log());
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    // The mirror serves the model while the origin is unreachable.
    drop(registry);
    let late = stores.join("late");
    ollama_client::pull(host, "library/wanted", "latest", &late).expect("stored models do not need the origin");
    assert_eq!(names(&late.join("blobs")).len(), blobs.len(), "all blobs from the mirror");
}

#[test]
fn only_configured_origins_are_requested() {
    let registry = FakeRegistry::start(1, Faults::default()).expect("loopback has free ports");
    publish(&registry, "wanted", 7, 1000);
    let home = mirror_of(&registry);
    let daemon = home.serve();
    let check = |path: &str| {
        let response = daemon.get(path).unwrap_or_default();
        assert!(response.contains("MANIFEST_UNKNOWN"), "{path}: {response}");
    };
    check("/v2/other/wanted/manifests/latest");
    check("/v2/library/wanted/manifests/latest?ns=127.0.0.1:1");
    check("/v2/library/nothing/manifests/latest");
    let targets: Vec<String> = registry.requests().into_iter().map(|seen| seen.request.target).collect();
    assert_eq!(targets, ["/v2/library/nothing/manifests/latest"], "only the configured namespace");
}

#[test]
fn trusted_mirror_may_resolve_model_names() {
    // An unreachable registry, and a mirror of it that has the model.
    let name = "127.0.0.1:1/library/mine";
    let mirror = with_model();
    let copied = mirror.run(&["cp", "mine", name]);
    assert!(copied.status.success(), "{}", String::from_utf8_lossy(&copied.stderr));
    let _mirror = mirror.serve();
    let address = format!("http://127.0.0.1:{}", mirror.port);
    let home = Home::new().with("CAIRN_STALL", "1s").with("CAIRN_MIRRORS", format!("127.0.0.1:1={address}"));
    let _daemon = home.serve();
    let run = |home: &Home, words: &[&str]| {
        let output = home.run(words);
        let output_text =
            [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).concat();
        (output.status.success(), output_text)
    };
    let (pulled, output_text) = run(&home, &["pull", name, "--insecure"]);
    assert!(!pulled, "manifests of a mirror that was not joined are refused: {output_text}");

    let (joined, output_text) = run(&home, &["mirror", "join", &address, "AAAAA-BBBBB-CCCCC-DDDDD"]);
    assert!(!joined && output_text.contains("rejected the join code"), "{output_text}");
    let (_, output_text) = run(&mirror, &["mirror", "serve", "--json"]);
    let served: serde_json::Value = serde_json::from_str(&output_text).expect("valid JSON");
    let code = served["code"].as_str().expect("a code");
    let (joined, output_text) = run(&home, &["mirror", "join", &address, code]);
    let fingerprint = served["fingerprint"].as_str().expect("a fingerprint");
    assert!(joined && output_text.contains(fingerprint), "{output_text}");
    let (again, output_text) = run(&home, &["mirror", "join", &address, code]);
    assert!(!again, "a code can be used once: {output_text}");

    let (pulled, output_text) = run(&home, &["pull", name, "--insecure"]);
    assert!(pulled && output_text.contains("was taken from the mirror"), "{output_text}");
    let manifest = "models/manifests/127.0.0.1:1/library/mine/latest";
    let read = |home: &Home| std::fs::read(home.folder.path().join(manifest)).expect("the file exists");
    assert_eq!(read(&home), read(&mirror), "identical manifests");
    let (_, output_text) = run(&mirror, &["mirror", "stats", "--json"]);
    let stats: serde_json::Value = serde_json::from_str(&output_text).expect("valid JSON");
    assert!(stats["sent_bytes"].as_u64() > Some(0) && stats["hits"].as_u64() > Some(0), "{output_text}");
    let (_, output_text) = run(&mirror, &["mirror", "peers"]);
    assert!(output_text.contains("fetched for"), "{output_text}");

    let (forgotten, output_text) = run(&home, &["mirror", "forget", &address]);
    assert!(forgotten, "{output_text}");
    run(&home, &["rm", name]);
    let (pulled, output_text) = run(&home, &["pull", name, "--insecure"]);
    assert!(!pulled, "a forgotten mirror is not trusted: {output_text}");
}

/// Runs a command; returns whether it succeeded, and its stdout and stderr.
fn run(home: &Home, words: &[&str]) -> (bool, String) {
    let output = home.run(words);
    (output.status.success(), [text(&output.stdout), text(&output.stderr)].concat())
}

/// Joins a mirror by its code; returns the mirror's address.
fn join(home: &Home, mirror: &Home) -> String {
    let served: serde_json::Value =
        serde_json::from_str(&succeeded(&mirror.run(&["mirror", "serve", "--json"]))).expect("valid JSON");
    let address = format!("http://127.0.0.1:{}", mirror.port);
    succeeded(&home.run(&["mirror", "join", &address, served["code"].as_str().expect("a code")]));
    address
}

#[test]
fn mirror_serves_during_origin_outage_and_follows_the_new_version() {
    let registry = FakeRegistry::start(1, Faults::default()).expect("loopback has free ports");
    publish(&registry, "wanted", 11, 2_000_000);
    let name = format!("{}/library/wanted", registry.host());
    let mirror = mirror_of(&registry).with("CAIRN_STALL", "1s");
    let _mirror = mirror.serve();
    let client = || {
        let address = format!("{}=http://127.0.0.1:{}", registry.host(), mirror.port);
        Home::new().with("CAIRN_STALL", "1s").with("CAIRN_MIRRORS", address)
    };
    let first = client();
    let _first = first.serve();
    join(&first, &mirror);
    let (pulled, output) = run(&first, &["pull", &name, "--insecure", "--force"]);
    assert!(pulled && !output.contains("was taken from the mirror"), "the manifest is from the origin: {output}");
    let stats: serde_json::Value =
        serde_json::from_str(&succeeded(&mirror.run(&["mirror", "stats", "--json"]))).expect("valid JSON");
    assert!(stats["sent_bytes"].as_u64() > Some(0), "blobs come through the mirror: {stats}");
    // The mirror publishes the model shortly afterwards.
    let manifest = format!("models/manifests/{name}/latest");
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(20);
    while !mirror.folder.path().join(&manifest).exists() {
        assert!(std::time::Instant::now() < deadline, "timeout: the mirror does not publish the model");
        std::thread::sleep(std::time::Duration::from_millis(20));
    }

    registry.set_offline(true);
    let second = client();
    let _second = second.serve();
    let address = join(&second, &mirror);
    let (pulled, output) = run(&second, &["pull", &name, "--insecure", "--force"]);
    let marked = format!("was taken from the mirror {}", address.trim_start_matches("http://"));
    assert!(pulled && output.contains(&marked), "the output names the mirror: {output}");
    let read = |home: &Home| std::fs::read(home.folder.path().join(&manifest)).expect("the file exists");
    assert_eq!(read(&second), read(&mirror), "identical manifests");

    registry.set_offline(false);
    publish(&registry, "wanted", 12, 2_000_000);
    // A failed source is tried last for a few seconds.
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(8);
    let (pulled, output) = loop {
        let (pulled, output) = run(&second, &["pull", &name, "--insecure", "--force"]);
        if !output.contains("was taken from the mirror") {
            break (pulled, output);
        }
        assert!(output.contains("failed a moment ago"), "the reason is shown: {output}");
        assert!(std::time::Instant::now() < deadline, "timeout: the origin is not tried again: {output}");
        std::thread::sleep(std::time::Duration::from_millis(100));
    };
    let lines: Vec<&str> = output.lines().filter(|line| line.contains("is not what the mirror")).collect();
    assert!(pulled && lines.len() == 1, "one line reports the difference: {output}");
    assert_ne!(read(&second), read(&first), "the origin's manifest is stored");
}

#[test]
fn restarted_mirror_continues_client_pulls() {
    let faults = Faults { bytes_per_second: Some(1_000_000), ..Faults::default() };
    let registry = FakeRegistry::start(1, faults).expect("loopback has free ports");
    let blobs = publish(&registry, "wanted", 13, 12_000_000);
    let mirror = mirror_of(&registry);
    let mut daemon = mirror.serve();
    let home = Home::new().with("CAIRN_STALL", "5s");
    let _daemon = home.serve();
    // The client uses the mirror as its registry.
    let name = format!("127.0.0.1:{}/library/wanted", mirror.port);
    let client =
        home.command(&["pull", &name, "--insecure", "--force"]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let client = client.expect("cairn starts");
    let large = blobs[0].0.to_string();
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(30);
    while registry.sent_bytes(&large) < 3_000_000 {
        assert!(std::time::Instant::now() < deadline, "timeout: no progress: {}", daemon.log());
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    daemon.child.kill().expect("the daemon runs");
    daemon.child.wait().expect("the process exits");
    drop(daemon);
    registry.set_faults(Faults::default());
    let _daemon = mirror.serve();
    let ended = client.wait_with_output().expect("cairn ends");
    let output = [text(&ended.stdout), text(&ended.stderr)].concat();
    assert!(ended.status.success(), "the client completes the pull: {output}");
    let got = names(&home.folder.path().join("models/blobs"));
    let expected: BTreeSet<String> = blobs.iter().map(|(digest, _)| digest.file_name()).collect();
    assert!(got.is_superset(&expected), "all blobs: {got:?}");
}
