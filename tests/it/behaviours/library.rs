//! Names, digests, manifests, and the removal of unused blobs at the start.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use cairn_store::Digest;
use serde_json::json;

use super::{home, list, manifest, names, post, post_json, store, tiny};
use crate::cairn::Home;
use crate::pulls::published::models;

/// Behaviour 5.
#[test]
fn digest_of_a_model_is_that_of_its_manifest_file() {
    let home = home();
    let _daemon = home.serve();
    post_json(&home, "/api/create", json!({"model": "made", "from": "m", "system": "Be brief."}));
    let listed = list(&home, "/api/tags");
    assert_eq!(listed.len(), 2, "{listed:?}");
    for model in &listed {
        let name = model["name"].as_str().and_then(|name| name.strip_suffix(":latest")).expect("a name with a tag");
        let bytes = fs::read(manifest(&home, name)).expect("the manifest exists");
        assert_eq!(model["digest"], Digest::of(&bytes).hex(), "{name}: without sha256:");
    }
    let blobs = fs::read_dir(models(&home).join("blobs")).expect("the folder exists");
    for blob in blobs {
        let name = blob.expect("the folder can be read").file_name().into_string().expect("UTF-8");
        assert!(name.len() == 71 && name.starts_with("sha256-"), "{name}");
    }
}

/// Behaviour 6: manifests that are written here. `pulls` compares pulled ones.
#[test]
fn manifest_of_a_created_model_ends_with_a_newline() {
    let home = home();
    let _daemon = home.serve();
    post_json(&home, "/api/create", json!({"model": "made", "from": "m", "system": "Be brief."}));
    let made = fs::read_to_string(manifest(&home, "made")).expect("the manifest exists");
    assert!(made.ends_with("}\n") && made.lines().count() == 1, "{made:?}");
    // A copy is the same file, also without a newline.
    let (status, reply) = post(&home, "/api/copy", &json!({"source": "m", "destination": "copied"}));
    assert_eq!(status, 200, "{reply}");
    let read = |name: &str| fs::read(manifest(&home, name)).expect("the manifest exists");
    assert_eq!(read("copied"), read("m"), "the copy");
}

/// Behaviour 7.
#[test]
fn name_in_another_case_is_the_same_model_and_keeps_its_spelling() {
    let home = home();
    store(&home, "Guide", &[("model", tiny())]);
    let _daemon = home.serve();
    let loaded = post_json(&home, "/api/generate", json!({"model": "gUIDE:LATEST"}));
    assert_eq!(loaded["model"], "gUIDE:LATEST", "the response repeats the name of the request");
    post_json(&home, "/api/create", json!({"model": "GUIDE", "from": "m", "system": "Be brief."}));
    let listed = list(&home, "/api/tags");
    assert_eq!(names(&listed), ["Guide:latest", "m:latest"], "the first spelling stays");
    let shown = post_json(&home, "/api/show", json!({"model": "guide"}));
    assert_eq!(shown["system"], "Be brief.", "the model was replaced");
    let check = |name: &str, status: u16| {
        let (found, reply) = post(&home, "/api/show", &json!({"model": name}));
        assert_eq!(found, status, "{name}: {reply}");
    };
    check("a.b/guide", 400);
    check("a-b/c.d", 404);
    check(&"x".repeat(80), 404);
    check(&"x".repeat(81), 400);
    check(&format!("{}/x/x", "h".repeat(350)), 404);
    check(&format!("{}/x/x", "h".repeat(351)), 400);
}

/// Behaviour 26: the order of `/api/tags`.
#[test]
fn models_in_a_list_are_sorted_by_age() {
    let home = home();
    for (name, age) in [("a", 20), ("b", 10), ("c", 30)] {
        store(&home, name, &[("model", tiny())]);
        make_older(&manifest(&home, name), Duration::from_secs(age));
    }
    let _daemon = home.serve();
    assert_eq!(names(&list(&home, "/api/tags")), ["m:latest", "b:latest", "a:latest", "c:latest"], "newest first");
}

/// Writes a blob of this age, and returns its path.
fn blob(home: &Home, contents: &[u8], age: Duration) -> PathBuf {
    let path = models(home).join("blobs").join(Digest::of(contents).file_name());
    fs::write(&path, contents).expect("the home is writable");
    make_older(&path, age);
    path
}

/// Sets the time of a file that was just written back by `age`.
fn make_older(path: &Path, age: Duration) {
    let file = File::options().write(true).open(path).expect("the file exists");
    let written = file.metadata().and_then(|metadata| metadata.modified()).expect("the file has a time");
    file.set_modified(written - age).expect("the time can be set");
}

/// Waits until a condition holds.
fn until(expected: &str, condition: impl Fn() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(60);
    while !condition() {
        assert!(Instant::now() < deadline, "timeout: {expected}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Behaviour 30: the removal of unused files at the start.
#[test]
fn daemon_start_removes_old_unreferenced_blobs_unless_a_manifest_is_damaged() {
    const OLD: Duration = Duration::from_secs(3700);
    let home = home();
    let used = blob(&home, tiny(), OLD);
    let (unused, recent) = (blob(&home, b"unused", OLD), blob(&home, b"recent", Duration::from_secs(3000)));
    let _daemon = home.serve();
    until("the unused blob is removed", || !unused.exists());
    assert!(used.exists() && recent.exists(), "a referenced or recent blob stays");

    let damaged = home_with_damage();
    let unused = blob(&damaged, b"unused", OLD);
    let daemon = damaged.serve();
    until("the log has the reason", || daemon.log().contains("cannot collect garbage"));
    assert!(unused.exists(), "the references are incomplete: {}", daemon.log());
}

/// Returns a home with a manifest that cannot be parsed.
fn home_with_damage() -> Home {
    let home = home();
    store(&home, "broken", &[("model", tiny())]);
    fs::write(manifest(&home, "broken"), "{").expect("the home is writable");
    home
}
