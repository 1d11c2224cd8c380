//! Hostile names are refused by every interface that accepts a name, and nothing is written outside the library.

use std::collections::BTreeMap;
use std::path::Path;

use cairn_testkit::hostile::{INVALID_DIGESTS, INVALID_NAMES, UNUSUAL_VALID_NAMES, long_names};
use serde_json::json;

use crate::cairn::Home;

/// Entries of a home that the daemon writes in normal operation.
const OWN: [&str; 4] = ["state", "run", "cache", "serve.log"];

/// Collects all files below a folder with their contents, except [`OWN`] and the library.
fn tree(folder: &Path, at: &Path, into: &mut BTreeMap<String, Vec<u8>>) {
    for entry in std::fs::read_dir(at).expect("the home can be read").flatten() {
        let path = entry.path();
        let name = path.strip_prefix(folder).expect("the entry is below the folder").to_string_lossy().into_owned();
        if OWN.contains(&name.as_str()) || name == "models" {
            continue;
        }
        if path.is_dir() {
            into.insert(name, Vec::new());
            tree(folder, &path, into);
        } else {
            into.insert(name, std::fs::read(&path).unwrap_or_default());
        }
    }
}

/// Returns the files outside the library, and the names of all files in it.
fn state(home: &Home) -> (BTreeMap<String, Vec<u8>>, Vec<String>) {
    let mut files = BTreeMap::new();
    tree(home.folder.path(), home.folder.path(), &mut files);
    let mut manifests = BTreeMap::new();
    let models = home.folder.path().join("models");
    let mut waiting = vec![models.clone()];
    while let Some(folder) = waiting.pop() {
        for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
            match entry.path().is_dir() {
                true => waiting.push(entry.path()),
                false => {
                    let name = entry
                        .path()
                        .strip_prefix(&models)
                        .expect("the entry is below the folder")
                        .to_string_lossy()
                        .into_owned();
                    manifests.insert(name, ());
                }
            }
        }
    }
    (files, manifests.into_keys().collect())
}

#[test]
fn hostile_names_change_no_files() {
    let home = Home::new();
    // Names with `..` would resolve to this file.
    std::fs::write(home.folder.path().join("x"), "canary").expect("the home is writable");
    let daemon = home.serve();
    let copied = daemon.post("/api/copy", &json!({"source": "pebble", "destination": "good"}));
    assert_eq!(copied.as_deref(), Some(""), "a valid name is accepted");
    let before = state(&home);

    let long = long_names();
    let names: Vec<&str> = INVALID_NAMES.iter().copied().chain(long.iter().map(String::as_str)).collect();
    let mut requests_sent = 0;
    for name in &names {
        let short = name.get(..80).unwrap_or(name);
        let requests = [
            ("POST", "/api/copy", json!({"source": "good", "destination": name})),
            ("POST", "/api/copy", json!({"source": name, "destination": "stolen"})),
            ("DELETE", "/api/delete", json!({"model": name})),
            ("DELETE", "/api/delete", json!({"name": name})),
            ("POST", "/api/create", json!({"model": name, "from": "good", "system": "x"})),
            ("POST", "/api/create", json!({"model": "stolen", "from": name, "system": "x"})),
            ("POST", "/api/show", json!({"model": name})),
            ("POST", "/api/generate", json!({"model": name, "prompt": "x"})),
            ("POST", "/api/chat", json!({"model": name, "messages": [{"role": "user", "content": "x"}]})),
        ];
        for (method, path, body) in requests {
            let answer = match method {
                "POST" => daemon.post(path, &body),
                _ => daemon.delete(path, &body),
            };
            let answer = answer.unwrap_or_else(|| panic!("{path} does not answer to {short:?}"));
            let error = serde_json::from_str::<serde_json::Value>(&answer).ok();
            let refused = error.is_some_and(|answer| answer["error"].is_string());
            assert!(refused, "{method} {path} accepted {short:?}: {answer}");
            requests_sent += 1;
        }
    }
    for digest in INVALID_DIGESTS {
        for path in [format!("/api/blobs/{digest}"), format!("/v2/library/good/blobs/{digest}")] {
            // A request line cannot contain these bytes, so they are percent-encoded.
            let encoded: String = path
                .bytes()
                .map(|byte| match byte {
                    b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'/' | b':' | b'-' | b'.' => char::from(byte).to_string(),
                    byte => format!("%{byte:02x}"),
                })
                .collect();
            let answer = daemon.post(&encoded, &json!({})).unwrap_or_default();
            assert!(!answer.contains("root:"), "{encoded}: {answer}");
            requests_sent += 1;
        }
    }
    assert!(requests_sent > 1_000, "every name over every interface: {requests_sent}");
    let after = state(&home);
    assert_eq!(after.0, before.0, "no file outside the library changed");
    assert_eq!(after.1, before.1, "no file of the library changed");
    for name in UNUSUAL_VALID_NAMES {
        let copied = daemon.post("/api/copy", &json!({"source": "good", "destination": name}));
        assert_eq!(copied.as_deref(), Some(""), "{name:?} is unusual but valid");
    }
    assert_eq!(state(&home).0, before.0, "no file outside the library changed");
}

#[test]
fn hostile_cli_names_change_no_files() {
    let home = Home::new();
    std::fs::write(home.folder.path().join("x"), "canary").expect("the home is writable");
    let _daemon = home.serve();
    assert!(home.run(&["cp", "pebble", "good"]).status.success(), "a valid name is accepted");
    let before = state(&home);
    // Arguments cannot contain a zero byte.
    for name in INVALID_NAMES.iter().filter(|name| !name.contains('\0')) {
        for words in [&["cp", "good", "--", name][..], &["cp", "--", name, "stolen"], &["rm", "--", name]] {
            let output = home.run(words);
            let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
            assert!(!output.status.success(), "{words:?} succeeded");
            assert!(stderr.starts_with("Error: ") && !stderr.contains("panicked"), "{words:?}: {stderr}");
        }
    }
    assert_eq!(state(&home), before, "no file changed");
}
