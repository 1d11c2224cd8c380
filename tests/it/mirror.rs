//! This machine's models, pulled by other programs; and those that it fetches for them.

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

/// Imports a tiny model and says where it is.
fn with_model() -> Home {
    let home = Home::new();
    let file = home.folder.path().join("tiny.gguf");
    cairn_testkit::write_file(&cairn_testkit::tiny_llama(), &file).expect("the home is writable");
    let imported = home.run(&["import", &file.to_string_lossy(), "mine"]);
    assert!(imported.status.success(), "{}", String::from_utf8_lossy(&imported.stderr));
    home
}

#[test]
fn ollamas_own_client_pulls_from_here() {
    let home = with_model();
    let daemon = home.serve();
    let store = home.folder.path().join("theirs");
    let host = format!("127.0.0.1:{}", home.port);
    ollama_client::pull(&host, "library/mine", "latest", &store).expect("the stock client's ways lead to a model");
    let blobs = names(&home.folder.path().join("models/blobs"));
    assert_eq!(names(&store.join("blobs")), blobs, "the same contents, each proven by its digest");
    assert_eq!(
        std::fs::read(store.join("manifests").join(&host).join("library/mine/latest")).expect("the manifest is there"),
        std::fs::read(home.folder.path().join("models/manifests/registry.ollama.ai/library/mine/latest"))
            .expect("ours is there"),
        "byte for byte"
    );
    let error = ollama_client::pull(&host, "library/none", "latest", &store).expect_err("there is no such model");
    assert_eq!(error, "file does not exist", "as a registry would say it");
    drop(daemon);

    // What it wrote, we can run.
    let other = Home::new().with("OLLAMA_MODELS", store.to_string_lossy());
    let listed = other.run(&["list"]);
    let listed = String::from_utf8_lossy(&listed.stdout).into_owned();
    assert!(listed.contains(&format!("{host}/library/mine:latest")), "{listed}");
}

/// Gives a registry a model of noise; its blobs.
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
            let named = (Digest::of(&bytes), bytes.len() as u64);
            registry.put_blob(&named.0.to_string(), Arc::from(bytes));
            named
        })
        .collect()
}

/// A home whose daemon fetches from a registry for those who ask it.
fn mirror_of(registry: &FakeRegistry) -> Home {
    Home::new().with("CAIRN_MIRROR", "1").with("CAIRN_MIRROR_ORIGINS", format!("http://{}/library", registry.host()))
}

#[test]
fn fifty_clients_at_once_cost_the_origin_one_pull() {
    // So fast that no stream takes over the rest of another's range: what is on its way then would be sent in vain.
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
            assert_eq!(got, expected, "every client has every blob, each proven by its digest");
        }
    });
    for (digest, size_bytes) in &blobs {
        assert_eq!(registry.sent_bytes(&digest.to_string()), *size_bytes, "{digest} left its origin once");
    }
    let manifest = format!("models/manifests/{}/library/wanted/latest", registry.host());
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(20);
    while !home.folder.path().join(&manifest).exists() {
        assert!(std::time::Instant::now() < deadline, "it is this machine's too: {}", daemon.log());
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    // Without its origin it is still there, and says that nobody could be asked.
    drop(registry);
    let late = stores.join("late");
    ollama_client::pull(host, "library/wanted", "latest", &late).expect("what is here does not need the origin");
    assert_eq!(names(&late.join("blobs")).len(), blobs.len(), "from here");
}

#[test]
fn only_configured_origins_are_asked() {
    let registry = FakeRegistry::start(1, Faults::default()).expect("loopback has free ports");
    publish(&registry, "wanted", 7, 1000);
    let home = mirror_of(&registry);
    let daemon = home.serve();
    let check = |path: &str| {
        let heard = daemon.get(path).unwrap_or_default();
        assert!(heard.contains("MANIFEST_UNKNOWN"), "{path}: {heard}");
    };
    check("/v2/other/wanted/manifests/latest");
    check("/v2/library/wanted/manifests/latest?ns=127.0.0.1:1");
    check("/v2/library/nothing/manifests/latest");
    let asked: Vec<String> = registry.requests().into_iter().map(|seen| seen.request.target).collect();
    assert_eq!(asked, ["/v2/library/nothing/manifests/latest"], "the one that is of the origin");
}

#[test]
fn a_mirror_that_was_joined_is_believed() {
    // A registry that nobody can reach, and a mirror of it that has the model.
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
        let said = [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).concat();
        (output.status.success(), said)
    };
    let (pulled, said) = run(&home, &["pull", name, "--insecure"]);
    assert!(!pulled, "a mirror that was not joined says nothing of names: {said}");

    let (joined, said) = run(&home, &["mirror", "join", &address, "AAAAA-BBBBB-CCCCC-DDDDD"]);
    assert!(!joined && said.contains("rejected the join code"), "{said}");
    let (_, said) = run(&mirror, &["mirror", "serve", "--json"]);
    let served: serde_json::Value = serde_json::from_str(&said).expect("it is JSON");
    let code = served["code"].as_str().expect("there is a code");
    let (joined, said) = run(&home, &["mirror", "join", &address, code]);
    let fingerprint = served["fingerprint"].as_str().expect("there is a key");
    assert!(joined && said.contains(fingerprint), "{said}");
    let (again, said) = run(&home, &["mirror", "join", &address, code]);
    assert!(!again, "a code is good once: {said}");

    let (pulled, said) = run(&home, &["pull", name, "--insecure"]);
    assert!(pulled && said.contains("was taken from the mirror"), "{said}");
    let manifest = "models/manifests/127.0.0.1:1/library/mine/latest";
    let read = |home: &Home| std::fs::read(home.folder.path().join(manifest)).expect("it is there");
    assert_eq!(read(&home), read(&mirror), "byte for byte");
    let (_, said) = run(&mirror, &["mirror", "stats", "--json"]);
    let stats: serde_json::Value = serde_json::from_str(&said).expect("it is JSON");
    assert!(stats["sent_bytes"].as_u64() > Some(0) && stats["hits"].as_u64() > Some(0), "{said}");
    let (_, said) = run(&mirror, &["mirror", "peers"]);
    assert!(said.contains("fetched for"), "{said}");

    let (forgot, said) = run(&home, &["mirror", "forget", &address]);
    assert!(forgot, "{said}");
    run(&home, &["rm", name]);
    let (pulled, said) = run(&home, &["pull", name, "--insecure"]);
    assert!(!pulled, "whom one forgot one does not believe: {said}");
}

/// What a command said on both ways, and whether it succeeded.
fn said(home: &Home, words: &[&str]) -> (bool, String) {
    let output = home.run(words);
    (output.status.success(), [text(&output.stdout), text(&output.stderr)].concat())
}

/// Joins a mirror by the code that it shows.
fn join(home: &Home, mirror: &Home) -> String {
    let served: serde_json::Value =
        serde_json::from_str(&succeeded(&mirror.run(&["mirror", "serve", "--json"]))).expect("it is JSON");
    let address = format!("http://127.0.0.1:{}", mirror.port);
    succeeded(&home.run(&["mirror", "join", &address, served["code"].as_str().expect("there is a code")]));
    address
}

#[test]
fn an_origin_that_goes_away_and_comes_back_with_something_else() {
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
    let (pulled, heard) = said(&first, &["pull", &name, "--insecure"]);
    assert!(pulled && !heard.contains("was taken from the mirror"), "the origin itself said what it is: {heard}");
    let stats: serde_json::Value =
        serde_json::from_str(&succeeded(&mirror.run(&["mirror", "stats", "--json"]))).expect("it is JSON");
    assert!(stats["sent_bytes"].as_u64() > Some(0), "its contents come through the mirror: {stats}");
    // The mirror has the model itself a moment later.
    let manifest = format!("models/manifests/{name}/latest");
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(20);
    while !mirror.folder.path().join(&manifest).exists() {
        assert!(std::time::Instant::now() < deadline, "what it fetched for clients is its own, too");
        std::thread::sleep(std::time::Duration::from_millis(20));
    }

    registry.set_offline(true);
    let second = client();
    let _second = second.serve();
    let address = join(&second, &mirror);
    let (pulled, heard) = said(&second, &["pull", &name, "--insecure"]);
    let marked = format!("was taken from the mirror {}", address.trim_start_matches("http://"));
    assert!(pulled && heard.contains(&marked), "it is marked: {heard}");
    let read = |home: &Home| std::fs::read(home.folder.path().join(&manifest)).expect("it is there");
    assert_eq!(read(&second), read(&mirror), "byte for byte");

    registry.set_offline(false);
    publish(&registry, "wanted", 12, 2_000_000);
    // One that failed is asked last for a moment.
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(8);
    let (pulled, heard) = loop {
        let (pulled, heard) = said(&second, &["pull", &name, "--insecure"]);
        if !heard.contains("was taken from the mirror") {
            break (pulled, heard);
        }
        assert!(heard.contains("failed a moment ago"), "it says why: {heard}");
        assert!(std::time::Instant::now() < deadline, "the origin is asked again: {heard}");
        std::thread::sleep(std::time::Duration::from_millis(100));
    };
    let lines: Vec<&str> = heard.lines().filter(|line| line.contains("is not what the mirror")).collect();
    assert!(pulled && lines.len() == 1, "one line says that they disagree: {heard}");
    assert_ne!(read(&second), read(&first), "the origin's word is taken");
}

#[test]
fn a_mirror_that_starts_anew_goes_on_for_its_clients() {
    let faults = Faults { bytes_per_second: Some(1_000_000), ..Faults::default() };
    let registry = FakeRegistry::start(1, faults).expect("loopback has free ports");
    let blobs = publish(&registry, "wanted", 13, 12_000_000);
    let mirror = mirror_of(&registry);
    let mut daemon = mirror.serve();
    let home = Home::new().with("CAIRN_STALL", "5s");
    let _daemon = home.serve();
    // As from any registry: the mirror is the only one that is asked.
    let name = format!("127.0.0.1:{}/library/wanted", mirror.port);
    let client = home.command(&["pull", &name, "--insecure"]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let client = client.expect("cairn starts");
    let large = blobs[0].0.to_string();
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(30);
    while registry.sent_bytes(&large) < 3_000_000 {
        assert!(std::time::Instant::now() < deadline, "the model comes: {}", daemon.log());
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    daemon.child.kill().expect("it runs");
    daemon.child.wait().expect("it ends");
    drop(daemon);
    registry.set_faults(Faults::default());
    let _daemon = mirror.serve();
    let ended = client.wait_with_output().expect("cairn ends");
    let heard = [text(&ended.stdout), text(&ended.stderr)].concat();
    assert!(ended.status.success(), "the client gets it all the same: {heard}");
    let got = names(&home.folder.path().join("models/blobs"));
    let expected: BTreeSet<String> = blobs.iter().map(|(digest, _)| digest.file_name()).collect();
    assert!(got.is_superset(&expected), "all of it: {got:?}");
}
