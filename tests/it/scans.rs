//! `cairn scan` finds models of other apps and suggests an import command. A starting daemon collects garbage.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, UNIX_EPOCH};

use serde_json::Value;

use crate::cairn::{Home, refused, succeeded, text};

/// Returns a home with a separate user folder for other apps.
fn home() -> Home {
    let home = Home::new();
    let user = user(&home).to_string_lossy().into_owned();
    std::fs::create_dir_all(&user).expect("the home is writable");
    home.with("HOME", user)
        .with("HF_HOME", "")
        .with("HF_HUB_CACHE", "")
        .with("HUGGINGFACE_HUB_CACHE", "")
        .with("LLAMA_CACHE", "")
        .with("XDG_CACHE_HOME", "")
        .with("XDG_DATA_HOME", "")
        .with("XDG_CONFIG_HOME", "")
}

fn user(home: &Home) -> PathBuf {
    home.folder.path().join("user")
}

fn model_file(path: &Path, seed: u64) {
    std::fs::create_dir_all(path.parent().expect("the path has a folder")).expect("the home is writable");
    let spec = cairn_testkit::ModelSpec { seed, ..cairn_testkit::tiny_llama() };
    cairn_testkit::write_file(&spec, path).expect("the home is writable");
}

fn json(home: &Home, words: &[&str]) -> Value {
    let stdout = succeeded(&home.run(words));
    assert_eq!(stdout.lines().count(), 1, "one line of JSON: {stdout}");
    serde_json::from_str(&stdout).unwrap_or_else(|error| panic!("{words:?}: {error}: {stdout}"))
}

/// Returns the state and the app of a model in a scan result, by its file name.
fn found(scanned: &Value, file: &str) -> (String, String) {
    let models = scanned["models"].as_array().expect("a list");
    let ends = |model: &&Value| model["path"].as_str().is_some_and(|path| path.ends_with(file));
    let model = models.iter().find(ends).unwrap_or_else(|| panic!("{file} is missing from {scanned}"));
    let text = |key: &str| model[key].as_str().unwrap_or_default().to_owned();
    (text("state"), text("app"))
}

#[cfg(unix)]
#[test]
fn models_of_other_apps_are_found_and_imported() {
    let home = home();
    let user = user(&home);
    let at = |path: &str| user.join(path);
    model_file(&at(".lmstudio/models/me/Tiny-GGUF/tiny.Q8_0.gguf"), 1);
    std::fs::write(at(".lmstudio/models/me/Tiny-GGUF/cut.gguf"), "GGUF").expect("the home is writable");
    model_file(&at(".local/share/Jan/data/llamacpp/models/own/model.gguf"), 2);
    model_file(&at(".local/share/nomic.ai/GPT4All/gpt.gguf"), 3);
    // The layout of the Hugging Face cache: links to files named by digest.
    let hub = at(".cache/huggingface/hub/models--me--tiny");
    model_file(&hub.join("file"), 4);
    let bytes = std::fs::read(hub.join("file")).expect("the file exists");
    let digest = cairn_store::Digest::of(&bytes).hex();
    std::fs::create_dir_all(hub.join("blobs")).expect("the home is writable");
    std::fs::create_dir_all(hub.join("snapshots/0a1b")).expect("the home is writable");
    std::fs::rename(hub.join("file"), hub.join("blobs").join(&digest)).expect("the folder is writable");
    let link = hub.join("snapshots/0a1b/hub.gguf");
    std::os::unix::fs::symlink(format!("../../blobs/{digest}"), &link).expect("the home is writable");
    // A split model, and a link cycle.
    let whole = cairn_testkit::write(&cairn_testkit::ModelSpec { seed: 5, ..cairn_testkit::tiny_llama() });
    std::fs::create_dir_all(at(".cache/llama.cpp")).expect("the home is writable");
    for (number, part) in (1..).zip(cairn_testkit::split(&whole, 2)) {
        let path = at(&format!(".cache/llama.cpp/m-{number:05}-of-00002.gguf"));
        std::fs::write(path, part).expect("the home is writable");
    }
    std::os::unix::fs::symlink("..", at(".lmstudio/models/round")).expect("the home is writable");

    let scanned = json(&home, &["scan", "--json"]);
    let check = |file: &str, state: &str, app: &str| {
        assert_eq!(found(&scanned, file), (state.to_owned(), app.to_owned()), "{file}");
    };
    check("tiny.Q8_0.gguf", "new", "LM Studio");
    check("cut.gguf", "broken", "LM Studio");
    check("own/model.gguf", "new", "Jan");
    check("gpt.gguf", "new", "GPT4All");
    check("hub.gguf", "new", "Hugging Face");
    check("m-00001-of-00002.gguf", "new", "llama.cpp");
    assert_eq!(scanned["models"].as_array().map(Vec::len), Some(6), "each model once: {scanned}");

    let output = home.run(&["scan"]);
    let stdout = succeeded(&output);
    let (table, last) = stdout.trim_end().rsplit_once('\n').expect("a table and a line");
    for part in ["NAME", "FROM", "STATE", "new, split in 2 files", "broken: ", "Hugging Face", "5.8 MB"] {
        assert!(table.contains(part), "{part:?} is missing from {table}");
    }
    let command = last
        .strip_prefix("To import a model: cairn ")
        .and_then(|rest| rest.split_once("  ("))
        .expect("the suggested command");
    let words: Vec<String> = command.0.split(' ').map(|word| word.replacen('~', &user.to_string_lossy(), 1)).collect();
    succeeded(&home.run(&words.iter().map(String::as_str).collect::<Vec<_>>()));

    succeeded(&home.run(&["import", &link.to_string_lossy(), "hub"]));
    refused(&home.run(&["import", "--move", &link.to_string_lossy(), "other"]), "is a link to");
    let scanned = json(&home, &["scan", "--json"]);
    assert_eq!(found(&scanned, "hub.gguf").0, "here", "identified by its digest: {scanned}");
    assert_eq!(found(&scanned, "own/model.gguf").0, "maybe_here", "the same size as a stored blob: {scanned}");
    let scanned = json(&home, &["scan", "--digests", "--json"]);
    let states = ["tiny.Q8_0.gguf", "own/model.gguf", "gpt.gguf"].map(|file| found(&scanned, file).0);
    let here = states.iter().filter(|state| *state == "here").count();
    assert!(
        here <= 1 && states.iter().all(|state| state == "here" || state == "new"),
        "digests resolve every state: {states:?}"
    );
}

#[test]
fn scan_includes_folders_given_as_arguments() {
    let home = home();
    let folder = home.folder.path().join("elsewhere");
    model_file(&folder.join("a/b/model.gguf"), 1);
    let absent = home.folder.path().join("absent");
    let output = home.run(&["scan", &folder.to_string_lossy(), &absent.to_string_lossy()]);
    refused(&output, "cannot scan ");
    let stdout = text(&output.stdout);
    assert!(stdout.contains("a/b/model.gguf") && stdout.contains("tiny-llama:latest"), "{stdout}");
    assert!(text(&output.stderr).contains("absent ("), "the error names the folder: {}", text(&output.stderr));
    refused(&home.run(&["scan", &absent.to_string_lossy(), "--json"]), "absent (");
    let nothing = succeeded(&home.run(&["scan"]));
    assert!(nothing.starts_with("No models of other apps were found"), "{nothing}");

    // A library in Ollama's layout is listed by model names, with the setting that links it.
    let theirs = Home::new();
    model_file(&theirs.folder.path().join("a.gguf"), 1);
    succeeded(&theirs.run(&["import", &theirs.folder.path().join("a.gguf").to_string_lossy(), "Them"]));
    let library = theirs.folder.path().join("models");
    let stdout = succeeded(&home.run(&["scan", &library.to_string_lossy()]));
    assert!(stdout.contains("Them:latest") && stdout.contains("CAIRN_LIBRARIES="), "{stdout}");
}

/// Writes an unreferenced blob with the oldest possible modification time.
fn unreferenced_blob(home: &Home, digit: &str) -> PathBuf {
    let blobs = home.folder.path().join("models/blobs");
    std::fs::create_dir_all(&blobs).expect("the home is writable");
    let path = blobs.join(format!("sha256-{}", digit.repeat(64)));
    let file = std::fs::File::create(&path).expect("the home is writable");
    file.set_len(5000).and_then(|()| file.set_modified(UNIX_EPOCH)).expect("a file's time can be set");
    path
}

#[test]
fn daemon_start_collects_garbage() {
    let home = Home::new();
    model_file(&home.folder.path().join("a.gguf"), 1);
    succeeded(&home.run(&["import", &home.folder.path().join("a.gguf").to_string_lossy(), "a"]));
    succeeded(&home.run(&["stop", "--daemon"]));
    let partial = home.folder.path().join("models/.cairn/partials/sha256-x");
    std::fs::create_dir_all(partial.parent().expect("the path has a folder")).expect("the home is writable");
    std::fs::write(&partial, "x").expect("the home is writable");

    // While Ollama downloads, blobs without a manifest may belong to the download.
    let old = unreferenced_blob(&home, "0");
    let theirs = home.folder.path().join("models/blobs/sha256-1-partial");
    std::fs::write(&theirs, "x").expect("the home is writable");
    let daemon = home.serve();
    succeeded(&home.run(&["list"]));
    std::thread::sleep(Duration::from_millis(500));
    assert!(old.exists() && !daemon.log().contains("removed garbage"), "{}", daemon.log());
    drop(daemon);

    let theirs = std::fs::File::options().write(true).open(&theirs).expect("the file exists");
    theirs.set_modified(UNIX_EPOCH).expect("a file's time can be set");
    let daemon = home.serve();
    let since = Instant::now();
    while old.exists() {
        assert!(since.elapsed() < Duration::from_secs(20), "timeout: the blob is not removed: {}", daemon.log());
        std::thread::sleep(Duration::from_millis(10));
    }
    while !daemon.log().contains("removed garbage") {
        assert!(since.elapsed() < Duration::from_secs(20), "timeout: no log line: {}", daemon.log());
        std::thread::sleep(Duration::from_millis(10));
    }
    assert_eq!(daemon.log().matches("freed_bytes").count(), 1, "one log line: {}", daemon.log());
    assert!(partial.exists(), "a download of our own is not touched");
    succeeded(&home.run(&["run", "a", "hello"]));

    // A second daemon of the same library collects nothing.
    let old = unreferenced_blob(&home, "2");
    let second = Home::new().with("OLLAMA_MODELS", home.folder.path().join("models").to_string_lossy());
    let other = second.serve();
    std::thread::sleep(Duration::from_millis(500));
    assert!(old.exists(), "{}", other.log());
    drop(other);
    drop(daemon);
    let home = home.with("OLLAMA_NOPRUNE", "1");
    let daemon = home.serve();
    std::thread::sleep(Duration::from_millis(500));
    assert!(old.exists(), "OLLAMA_NOPRUNE disables the collection: {}", daemon.log());
}
