//! Libraries: linked ones, copies, deletions, garbage collection, disk usage, verification, and two daemons that share
//! one library.

use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::cairn::{Home, refused, succeeded, text};

fn json(home: &Home, words: &[&str]) -> Value {
    let stdout = succeeded(&home.run(words));
    assert_eq!(stdout.lines().count(), 1, "one line of JSON: {stdout}");
    serde_json::from_str(&stdout).unwrap_or_else(|error| panic!("{words:?}: {error}: {stdout}"))
}

fn model_file(folder: &Path, seed: u64) -> PathBuf {
    let path = folder.join(format!("{seed}.gguf"));
    let spec = cairn_testkit::ModelSpec { seed, ..cairn_testkit::tiny_llama() };
    cairn_testkit::write_file(&spec, &path).expect("the folder is writable");
    path
}

/// Returns a home that uses this library.
fn home_with(library: &Path) -> Home {
    Home::new().with("OLLAMA_MODELS", library.to_string_lossy())
}

fn path(home: &Home, name: &str) -> PathBuf {
    home.folder.path().join(name)
}

#[test]
fn linked_libraries_are_read_and_absent_ones_reported() {
    let other = Home::new();
    succeeded(&other.run(&["import", &model_file(other.folder.path(), 1).to_string_lossy(), "Far"]));
    let (linked, gone) = (path(&other, "models"), path(&other, "unmounted/models"));
    let list = std::env::join_paths([&linked, &gone]).expect("no colons in these paths");
    let home = Home::new().with("CAIRN_LIBRARIES", list.to_string_lossy());

    let output = home.run(&["ls"]);
    assert!(succeeded(&output).contains("Far:latest"), "models of linked libraries are listed");
    let absent = format!("The library {} is absent: there is no such folder.\n", gone.display());
    assert_eq!(text(&output.stderr), absent, "only the missing linked library is reported");
    let listed = json(&home, &["ls", "--json"]);
    assert_eq!(listed["models"][0]["name"], "Far:latest", "{listed}");
    let states: Vec<&str> =
        listed["libraries"].as_array().expect("a list").iter().flat_map(|l| l["state"].as_str()).collect();
    assert_eq!(states, ["absent", "present", "absent"], "{listed}");

    succeeded(&home.run(&["run", "far", "hello"]));
    refused(&home.run(&["rm", "far"]), "which Cairn only reads");
    assert_eq!(succeeded(&home.run(&["cp", "far", "Near"])), "copied 'far' to 'Near'\n", "Ollama's text");
    let digest = |model: &Value| model["digest"].as_str().expect("a text").to_owned();
    let listed = json(&home, &["ls", "--json"]);
    assert_eq!(digest(&listed["models"][0]), digest(&listed["models"][1]), "the same digest: {listed}");
    std::fs::rename(&linked, path(&other, "away")).expect("the folder is writable");
    succeeded(&home.run(&["run", "near", "hello"]));
    let output = home.run(&["ls", "n"]);
    assert!(succeeded(&output).contains("Near:latest"), "the copy does not need the linked library");
    assert_eq!(
        text(&output.stderr).matches("absent").count(),
        2,
        "both linked libraries are reported: {}",
        text(&output.stderr)
    );
}

#[test]
fn missing_configured_library_is_reported() {
    let home = Home::new();
    let home = home_with(&path(&home, "unmounted"));
    let output = home.run(&["ls"]);
    succeeded(&output);
    assert!(text(&output.stderr).contains("unmounted is absent"), "{}", text(&output.stderr));
    assert!(text(&home.run(&["du"]).stderr).contains("unmounted is absent"), "du reports it too");
    succeeded(&home.run(&["gc"]));
    succeeded(&home.run(&["verify"]));
}

#[test]
fn deletion_reports_freed_bytes_and_keeps_shared_blobs() {
    let home = Home::new();
    succeeded(&home.run(&["import", &model_file(home.folder.path(), 1).to_string_lossy(), "a"]));
    let copied = json(&home, &["cp", "a", "me/b:v1", "--json"]);
    assert_eq!(copied, serde_json::json!({"source": "a", "destination": "me/b:v1", "copied_bytes": 0}), "stable");
    let du = json(&home, &["du", "--json"]);
    let rows = du["libraries"][0]["models"].as_array().expect("a list");
    assert!(rows.len() == 2 && rows.iter().all(|row| row["own_bytes"] == 0), "all bytes are shared: {du}");
    let bytes = du["total_bytes"].as_u64().expect("a number");
    assert!(bytes > 5_000_000 && rows[0]["shared_bytes"] == bytes, "shared bytes are counted once: {du}");

    let output = home.run(&["rm", "a"]);
    assert_eq!(succeeded(&output), "deleted 'a'\n", "Ollama's text");
    assert_eq!(text(&output.stderr), "freed 0 B\n", "the copy still uses the blobs");
    succeeded(&home.run(&["run", "me/b:v1", "hello"]));
    let du = succeeded(&home.run(&["du"]));
    assert!(du.contains("me/b:v1") && du.contains("5.8 MB") && du.contains("free on its disk"), "{du}");
    let deleted = json(&home, &["rm", "ME/B:v1", "--json"]);
    assert_eq!(deleted["model"], "me/b:v1", "{deleted}");
    assert_eq!(deleted["freed_bytes"], bytes, "all bytes are freed: {deleted}");
    refused(&home.run(&["cp", "a", "c"]), "model \"a\" not found");
    refused(&home.run(&["cp", "pebble", "a b"]), "destination \"a b\" is invalid");
}

#[test]
fn garbage_is_listed_and_removed() {
    let home = Home::new();
    succeeded(&home.run(&["import", &model_file(home.folder.path(), 1).to_string_lossy(), "a"]));
    let blobs = path(&home, "models/blobs");
    let unnamed = format!("sha256-{}", "0".repeat(64));
    for name in [unnamed.as_str(), "sha256-1-partial", "sha256-1-partial-0"] {
        let file = std::fs::File::create(blobs.join(name)).expect("the library is writable");
        file.set_len(0).and_then(|()| file.set_modified(std::time::UNIX_EPOCH)).expect("a file's time can be set");
    }
    std::fs::create_dir_all(path(&home, "models/.cairn/partials")).expect("the library is writable");
    std::fs::write(path(&home, "models/.cairn/partials/x"), "x").expect("the library is writable");
    let count = || std::fs::read_dir(&blobs).expect("the file exists").count();
    let stdout = succeeded(&home.run(&["gc", "--dry-run"]));
    assert!(
        stdout.contains("would remove") && stdout.contains(&unnamed) && stdout.contains("--partials removes it"),
        "{stdout}"
    );
    assert_eq!(count(), 5, "a dry run removes nothing");
    let collected = json(&home, &["gc", "--json"]);
    assert_eq!(collected["removed"].as_array().map(Vec::len), Some(1), "{collected}");
    assert_eq!(collected["kept"].as_array().map(Vec::len), Some(2), "{collected}");
    assert_eq!(count(), 4, "the unreferenced blob is removed");
    assert!(
        succeeded(&home.run(&["gc", "--partials"])).contains("2 files removed"),
        "--partials removes partial files"
    );
    assert!(path(&home, "models/.cairn/partials/x").exists(), "Cairn's own downloads are not touched");
    assert_eq!(count(), 2, "the model and its config are left");
    succeeded(&home.run(&["run", "a", "hello"]));

    let broken = path(&home, "models/manifests/registry.ollama.ai/library/broken");
    std::fs::create_dir_all(&broken)
        .and_then(|()| std::fs::write(broken.join("latest"), "{"))
        .expect("the folder is writable");
    refused(&home.run(&["gc"]), "nothing was removed");
    succeeded(&home.run(&["rm", "broken"]));
    assert_eq!(succeeded(&home.run(&["gc"])), "nothing to remove\n", "gc works again");
}

#[test]
fn damage_is_found_and_reported_with_advice() {
    let home = Home::new();
    succeeded(&home.run(&["import", &model_file(home.folder.path(), 1).to_string_lossy(), "a"]));
    succeeded(&home.run(&["import", &model_file(home.folder.path(), 2).to_string_lossy(), "b"]));
    let stdout = succeeded(&home.run(&["verify"]));
    assert!(stdout.starts_with("2 models, ") && stdout.ends_with("all match their digests\n"), "{stdout}");
    let largest = std::fs::read_dir(path(&home, "models/blobs")).expect("the file exists").flatten().map(|e| e.path());
    let largest = largest.max_by_key(|path| path.metadata().map_or(0, |found| found.len())).expect("there are some");
    let mut bytes = std::fs::read(&largest).expect("the folder is writable");
    bytes[1_000_000] ^= 0x10;
    std::fs::write(&largest, bytes).expect("the folder is writable");

    let output = home.run(&["verify"]);
    refused(&output, "cairn pull");
    refused(&output, "cairn verify --discard");
    assert!(text(&output.stdout).contains("is damaged: its bytes have the digest"), "{}", text(&output.stdout));
    let output = home.run(&["verify", "a", "b", "--json"]);
    assert_eq!(output.status.code(), Some(1), "exit code 1");
    let report: Value = serde_json::from_slice(&output.stdout).expect("one JSON object");
    assert_eq!(report["flawed"].as_array().map(Vec::len), Some(1), "{report}");
    let damaged = report["flawed"][0]["models"][0].as_str().expect("a name").to_owned();
    let sound = if damaged == "a:latest" { "b" } else { "a" };
    succeeded(&home.run(&["verify", sound, "pebble"]));
    refused(&home.run(&["verify", &damaged, "--discard"]), "cairn pull");
    assert!(!largest.exists(), "the damaged blob is deleted");
    refused(&home.run(&["verify", &damaged]), "cairn pull");
    assert!(succeeded(&home.run(&["du"])).contains("incomplete: pull it again"), "du reports it too");
    refused(&home.run(&["verify", "missing"]), "model 'missing' not found");
}

#[test]
fn list_commands_print_json_for_scripts() {
    let home = Home::new();
    succeeded(&home.run(&["run", "pebble", ""]));
    assert_eq!(json(&home, &["ps", "--json"])["models"][0]["name"], "pebble:latest", "loaded models");
    assert_eq!(json(&home, &["ps", "x", "--json"])["models"], serde_json::json!([]), "no loaded model of that name");
    assert_eq!(json(&home, &["show", "pebble", "--json"])["details"]["format"], "gguf", "details");
    assert_eq!(json(&home, &["ls", "PEB", "--json"])["models"][0]["name"], "pebble:latest", "stored models");
}

/// Two daemons with separate homes change one library concurrently.
#[test]
fn two_daemons_share_a_library() {
    let shared = Home::new();
    let library = path(&shared, "models");
    let homes = [home_with(&library), home_with(&library)];
    let daemons = [homes[0].serve(), homes[1].serve()];
    succeeded(&homes[0].run(&["import", &model_file(shared.folder.path(), 1).to_string_lossy(), "a"]));
    succeeded(&homes[1].run(&["import", &model_file(shared.folder.path(), 2).to_string_lossy(), "b"]));
    std::thread::scope(|scope| {
        for (index, home) in homes.iter().enumerate() {
            scope.spawn(move || {
                let base = ["a", "b"][index];
                for turn in 0..12 {
                    let mine = format!("own{index}:{}", turn % 3);
                    succeeded(&home.run(&["cp", base, &mine]));
                    // Both daemons create and delete this name, so the deletion may fail.
                    succeeded(&home.run(&["cp", base, "common"]));
                    let _ = home.run(&["rm", "common"]);
                    if turn % 3 == 2 {
                        succeeded(&home.run(&["rm", &mine]));
                    }
                    if turn % 4 == index {
                        succeeded(&home.run(&["gc"]));
                    }
                }
            });
        }
    });
    for home in &homes {
        let verified = succeeded(&home.run(&["verify"]));
        assert!(verified.contains("all match their digests"), "{verified}");
        for model in ["a", "b", "own0:0", "own1:1"] {
            succeeded(&home.run(&["show", model]));
        }
    }
    drop(daemons);
    let names =
        std::fs::read_dir(library.join("blobs")).expect("the file exists").flatten().map(|entry| entry.file_name());
    let odd: Vec<_> = names.filter(|name| !name.to_string_lossy().starts_with("sha256-")).collect();
    assert!(odd.is_empty(), "no temporary files are left: {odd:?}");
}
