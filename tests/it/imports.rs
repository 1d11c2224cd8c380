//! Files of one's own: imported, run, chatted with, deleted; and what is left when an import is killed.

use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::json;

use crate::cairn::{self, Home, kill, succeeded, text};

fn refused(output: &Output, part: &str) {
    let said = cairn::refused(output, part);
    assert!(said.starts_with("Error: "), "it is said as an error: {said:?}");
}

fn model_file(home: &Home, name: &str, seed: u64) -> PathBuf {
    let path = home.folder.path().join(name);
    let spec = cairn_testkit::ModelSpec { seed, ..cairn_testkit::tiny_llama() };
    cairn_testkit::write_file(&spec, &path).expect("the home is writable");
    path
}

/// Names of the files that hold contents.
fn blobs(home: &Home) -> Vec<String> {
    let folder = std::fs::read_dir(home.folder.path().join("models/blobs"));
    let names = folder.into_iter().flatten().flatten().map(|entry| entry.file_name().to_string_lossy().into_owned());
    names.collect()
}

#[test]
fn a_file_is_imported_run_and_deleted() {
    let home = Home::new();
    let path = model_file(&home, "Tiny Model-Q8_0.gguf", 1);
    let said = succeeded(&home.run(&["import", &path.to_string_lossy(), "mine"]));
    assert!(["copied", "reflinked"].iter().any(|way| said.starts_with(way)), "how it came there: {said}");
    assert!(said.ends_with("mine:latest is ready: cairn run mine\n"), "how to run it: {said}");
    let again = succeeded(&home.run(&["import", &path.to_string_lossy(), "mine"]));
    assert!(again.contains("already: nothing was copied"), "{again}");
    // From here on the store's is used.
    std::fs::remove_file(&path).expect("it is ours");
    let list = succeeded(&home.run(&["list"]));
    assert!(list.contains("mine:latest") && list.contains("5.8 MB"), "{list}");
    assert!(succeeded(&home.run(&["show", "mine"])).contains("llama"), "its architecture");
    succeeded(&home.run(&["run", "mine", "hello", "--keepalive", "5m"]));
    assert!(succeeded(&home.run(&["ps"])).contains("mine:latest"), "it runs");

    let other = model_file(&home, "other.gguf", 2);
    refused(&home.run(&["import", &other.to_string_lossy(), "mine"]), "another model named mine:latest");
    refused(&home.run(&["import", &other.to_string_lossy(), "pebble"]), "part of Cairn");
    succeeded(&home.run(&["import", &other.to_string_lossy(), "mine", "--force"]));
    assert_eq!(succeeded(&home.run(&["rm", "mine"])), "deleted 'mine'\n", "as Ollama says it");
    assert!(blobs(&home).is_empty(), "nothing is left: {:?}", blobs(&home));
    refused(&home.run(&["rm", "mine"]), "model 'mine' not found");
    refused(&home.run(&["rm", "pebble"]), "neither replaced nor deleted");
}

#[test]
fn an_imported_model_answers_over_http() {
    let home = Home::new();
    let path = model_file(&home, "a.gguf", 1);
    let daemon = home.serve();
    succeeded(&home.run(&["import", &path.to_string_lossy()]));
    let tags = daemon.get("/api/tags").expect("the daemon answers");
    assert!(tags.contains("\"tiny-llama:latest\""), "named as the file names itself: {tags}");
    let chat = json!({
        "model": "tiny-llama", "messages": [{"role": "user", "content": "hi"}], "stream": false,
        "options": {"num_predict": 4}
    });
    let answer = daemon.post("/api/chat", &chat).expect("the daemon answers");
    assert!(answer.contains("\"done\":true"), "{answer}");
}

#[cfg(unix)]
#[test]
fn a_linked_file_becomes_read_only_and_says_so() {
    use std::os::unix::fs::{MetadataExt, PermissionsExt};
    let home = Home::new();
    let path = model_file(&home, "a.gguf", 1);
    let said = succeeded(&home.run(&["import", "--link", &path.to_string_lossy(), "mine"]));
    assert!(said.starts_with("linked 5.8 MB") && said.contains("was made read-only"), "{said}");
    let found = std::fs::metadata(&path).expect("it is there");
    assert_eq!((found.permissions().mode() & 0o222, found.nlink()), (0, 2), "one file, two names, no writing");
    succeeded(&home.run(&["run", "mine", "hello"]));
    succeeded(&home.run(&["rm", "mine"]));
    assert_eq!(std::fs::metadata(&path).expect("it is there").nlink(), 1, "only the store's name is gone");
}

#[cfg(unix)]
#[test]
fn a_moved_file_is_in_the_store_and_nowhere_else() {
    use std::os::unix::fs::PermissionsExt;
    let home = Home::new();
    let path = model_file(&home, "a.gguf", 1);
    let words = |path: &Path| ["import".to_owned(), "--move".to_owned(), path.to_string_lossy().into_owned()];
    let moving = |path: &Path| home.run(&words(path).each_ref().map(String::as_str));
    let link = home.folder.path().join("link.gguf");
    std::os::unix::fs::symlink(&path, &link).expect("the home is writable");
    refused(&moving(&link), "is a link to");
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o444)).expect("it is ours");
    refused(&moving(&path), "write-protected");
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o644)).expect("it is ours");
    assert!(blobs(&home).is_empty() && path.exists(), "nothing has changed: {:?}", blobs(&home));

    let said = succeeded(&moving(&path));
    assert!(said.starts_with("moved 5.8 MB\n") && said.contains("no longer where it was"), "{said}");
    assert!(!path.exists() && blobs(&home).len() == 2, "it is there: {:?}", blobs(&home));
    succeeded(&home.run(&["run", "tiny-llama", "hello"]));
    let folder = home.folder.path().join("models/blobs");
    let ours = blobs(&home).into_iter().map(|name| folder.join(name));
    let ours = ours.max_by_key(|path| path.metadata().map_or(0, |found| found.len())).expect("there are two");
    refused(&moving(&ours), "`cairn cp`");
    assert!(ours.exists(), "the library keeps it");

    let split = std::fs::read(model_file(&home, "whole.gguf", 2)).expect("it was written");
    let part = |number: usize| home.folder.path().join(format!("m-{number:05}-of-00002.gguf"));
    for (number, bytes) in (1..).zip(cairn_testkit::split(&split, 2)) {
        std::fs::write(part(number), bytes).expect("the home is writable");
    }
    let output = home.run(&["import", "--move", "--json", &part(1).to_string_lossy(), "parts"]);
    let imported: serde_json::Value = serde_json::from_str(&succeeded(&output)).expect("one JSON object");
    assert_eq!((&imported["model"], &imported["moved"]), (&json!("parts:latest"), &json!(true)), "{imported}");
    assert!(!part(1).exists() && !part(2).exists(), "all its files");
    succeeded(&home.run(&["verify"]));
    refused(&home.run(&["import", "--move", &part(1).to_string_lossy()]), "m-00001-of-00002.gguf");
    let both = home.run(&["import", "--move", "--link", "x.gguf"]);
    assert_eq!(both.status.code(), Some(2), "one or the other: {}", text(&both.stderr));
}

#[test]
fn a_copy_keeps_the_disks_reserve() {
    let home = Home::new().with("CAIRN_DISK_RESERVE", "900T");
    let path = model_file(&home, "a.gguf", 1);
    let output = home.run(&["import", "--copy", &path.to_string_lossy()]);
    // Where the file system shares, nothing is copied.
    if !text(&output.stdout).starts_with("reflinked") {
        refused(&output, "stay free (CAIRN_DISK_RESERVE)");
        assert!(blobs(&home).is_empty() && drafts(&home) == 0, "nothing is left: {:?}", blobs(&home));
    }
}

#[test]
fn every_model_of_a_folder_is_imported() {
    let home = Home::new();
    let folder = home.folder.path().join("mine");
    std::fs::create_dir_all(folder.join("deeper")).expect("the home is writable");
    let named = |path: &str, name: &str, seed: u64| {
        let name = name.to_owned();
        let bytes = cairn_testkit::write(&cairn_testkit::ModelSpec { seed, name, ..cairn_testkit::tiny_llama() });
        std::fs::write(folder.join(path), bytes).expect("the home is writable");
    };
    named("one.gguf", "Number One", 1);
    named("deeper/two.gguf", "Number Two", 2);
    std::fs::write(folder.join("broken.gguf"), "no model").expect("the home is writable");
    let output = home.run(&["import", "--json", &folder.to_string_lossy()]);
    refused_with(&output, &["broken.gguf", "not a GGUF file", "2 of 3 models were imported"]);
    let lines = text(&output.stdout);
    let mut models: Vec<serde_json::Value> =
        lines.lines().map(|line| serde_json::from_str(line).expect("each line is JSON")).collect();
    let last = models.pop().expect("there are lines");
    assert_eq!(last["error"], "2 of 3 models were imported", "the last line tells that some were not: {lines}");
    assert_eq!(models.len(), 2, "a line for each: {lines}");
    let files = models.iter().filter_map(|model| model["file"].as_str());
    assert!(files.clone().all(|file| file.ends_with(".gguf")) && files.count() == 2, "and which it is of: {lines}");
    let list = succeeded(&home.run(&["list"]));
    assert!(models.iter().all(|model| list.contains(model["model"].as_str().expect("a name"))), "{list}");
    std::fs::remove_file(folder.join("broken.gguf")).expect("it is ours");
    let said = succeeded(&home.run(&["import", "--move", &folder.to_string_lossy()]));
    assert_eq!(said.matches("no longer where it was").count(), 2, "both go: {said}");
    refused(&home.run(&["import", &folder.to_string_lossy()]), "has no GGUF files in it");
    refused(&home.run(&["import", &folder.to_string_lossy(), "name"]), "cannot all have one name");
}

/// It failed, and said all of this.
fn refused_with(output: &Output, parts: &[&str]) {
    for part in parts {
        cairn::refused(output, part);
    }
}

#[test]
fn files_that_are_no_models_are_refused_and_leave_nothing() {
    let home = Home::new();
    let put = |name: &str, bytes: &[u8]| {
        let path = home.folder.path().join(name);
        std::fs::write(&path, bytes).expect("the home is writable");
        path.to_string_lossy().into_owned()
    };
    let good = cairn_testkit::write(&cairn_testkit::tiny_llama());
    refused(&home.run(&["import", &put("notes.gguf", b"These are my notes.")]), "notes.gguf");
    refused(&home.run(&["import", &put("cut.gguf", &good[..good.len() - 1000])]), "cut.gguf");
    refused(&home.run(&["import", "absent.gguf"]), "absent.gguf");
    refused(&home.run(&["import", &put("good.gguf", &good), "not/a/good/name/at all"]), "invalid model name");
    assert!(blobs(&home).is_empty(), "nothing is left: {:?}", blobs(&home));
}

/// A model file of half a gigabyte, most of which is a hole: quick to make, and slow enough to copy.
fn large_file(home: &Home) -> PathBuf {
    file_of(home, 500_000_000)
}

fn file_of(home: &Home, bytes: u64) -> PathBuf {
    let path = home.folder.path().join("large.gguf");
    cairn_testkit::write_sparse(&cairn_testkit::huge_llama(bytes), &path).expect("sparse files take no room");
    path
}

/// Contents that are being written.
fn drafts(home: &Home) -> usize {
    std::fs::read_dir(home.folder.path().join("models/.cairn/drafts")).map_or(0, Iterator::count)
}

/// Waits until a process has a file open, where the system tells that.
#[cfg(unix)]
fn await_reading(pid: u32, path: &Path) {
    let Ok(path) = path.canonicalize() else { return };
    let reads = || {
        let open = std::fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
        open.map(|entry| std::fs::read_link(entry.path())).any(|file| file.is_ok_and(|file| file == path))
    };
    let since = Instant::now();
    while cfg!(target_os = "linux") && !reads() {
        assert!(since.elapsed() < Duration::from_secs(30), "the daemon never read {}", path.display());
        std::thread::yield_now();
    }
}

/// Waits until something of the import is in the store.
fn await_draft(home: &Home) {
    let since = Instant::now();
    while drafts(home) == 0 {
        assert!(since.elapsed() < Duration::from_secs(20), "the import does not begin");
        std::thread::sleep(Duration::from_millis(2));
    }
}

#[test]
fn a_killed_import_leaves_no_broken_model() {
    let home = Home::new();
    let path = large_file(&home);
    for _ in 0..3 {
        let daemon = home.serve();
        let words = ["import", &path.to_string_lossy(), "large"];
        let mut import =
            home.command(&words).stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("cairn starts");
        await_draft(&home);
        assert!(kill(daemon.child.id(), "-KILL"), "the daemon still works");
        import.wait().expect("it ends with its daemon");
    }
    let _daemon = home.serve();
    let list = succeeded(&home.run(&["list"]));
    let listed = list.contains("large");
    if listed {
        // The last one was quicker than the signal: then it must be whole.
        succeeded(&home.run(&["show", "large"]));
    }
    succeeded(&home.run(&["import", &path.to_string_lossy(), "large"]));
    let left = blobs(&home);
    assert!(left.len() == 2 && left.iter().all(|name| name.starts_with("sha256-")), "one model's contents: {left:?}");
    assert_eq!(drafts(&home), 0, "and nothing half-written");
}

#[cfg(unix)]
#[test]
fn a_killed_move_loses_nothing() {
    use std::os::unix::fs::PermissionsExt;
    let home = Home::new();
    // Nothing is copied, so only a larger one takes long enough to be killed in.
    let path = file_of(&home, 2_500_000_000);
    let bytes = std::fs::metadata(&path).expect("it is there").len();
    let words = ["import", "--move", &path.to_string_lossy(), "large"];
    let mut killed = 0;
    for wait_ms in [0, 50, 250] {
        let daemon = home.serve();
        let mut import =
            home.command(&words).stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("cairn starts");
        await_reading(daemon.child.id(), &path);
        std::thread::sleep(Duration::from_millis(wait_ms));
        assert!(kill(daemon.child.id(), "-KILL"), "the daemon still works");
        import.wait().expect("it ends with its daemon");
        match std::fs::metadata(&path) {
            Ok(found) => {
                killed += 1;
                let writable = found.permissions().mode() & 0o200 != 0;
                assert!(found.len() == bytes && writable, "it is as it was");
            }
            Err(_) => break,
        }
    }
    assert!(killed > 0, "none was killed in the middle");
    let _daemon = home.serve();
    if path.exists() {
        let said = succeeded(&home.run(&words));
        assert!(said.starts_with("moved ") || said.contains("already"), "nothing was copied: {said}");
    }
    assert!(!path.exists(), "it has gone");
    assert!(succeeded(&home.run(&["list"])).contains("large"), "and it is a model");
    succeeded(&home.run(&["verify", "large"]));
}

#[test]
fn an_interrupted_import_leaves_nothing() {
    let home = Home::new();
    let path = large_file(&home);
    let _daemon = home.serve();
    let words = ["import", &path.to_string_lossy(), "large"];
    let import = home.command(&words).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("cairn starts");
    await_draft(&home);
    assert!(kill(import.id(), "-INT"), "it still copies");
    let output = import.wait_with_output().expect("cairn ends");
    refused(&output, "interrupted");
    let since = Instant::now();
    while drafts(&home) > 0 || !blobs(&home).is_empty() {
        assert!(since.elapsed() < Duration::from_secs(20), "a draft stays: {:?}", blobs(&home));
        std::thread::sleep(Duration::from_millis(20));
    }
    assert!(!succeeded(&home.run(&["list"])).contains("large"), "there is no such model");
}

#[cfg(unix)]
#[test]
fn a_file_runs_by_whatever_path() {
    let home = Home::new();
    let folder = home.folder.path();
    let path = model_file(&home, "Qwen3-0.6B (v1.1) Q8_0.gguf", 1);
    // As the cache of the Hugging Face hub has it: a link with the file's name to contents without one.
    std::fs::create_dir(folder.join("snapshots")).expect("the home is writable");
    std::fs::copy(&path, folder.join("0a1b2c3d")).expect("the home is writable");
    let link = folder.join("snapshots/Model.Q8_0.gguf");
    std::os::unix::fs::symlink("../0a1b2c3d", &link).expect("the home is writable");
    let run = |path: &Path| {
        let mut command = home.command(&["run", &path.to_string_lossy(), "hello"]);
        let output = command.current_dir(folder).output().expect("cairn starts");
        succeeded(&output);
        let said = text(&output.stderr);
        assert!(!said.contains("template"), "the file's own template is used: {said}");
    };
    let relative = Path::new("Qwen3-0.6B (v1.1) Q8_0.gguf");
    for path in [&path, &link, relative, &Path::new("./snapshots/../").join(relative), Path::new("0a1b2c3d")] {
        run(path);
    }
    let running = succeeded(&home.run(&["ps"]));
    assert!(running.contains("file/"), "{running}");

    let bare = folder.join("bare.gguf");
    let whole = cairn_testkit::write(&cairn_testkit::tiny_llama());
    let key = b"tokenizer.chat_template";
    let at = whole.windows(key.len()).position(|window| window == key).expect("the file has a template");
    let mut bytes = whole;
    bytes[at..at + key.len()].copy_from_slice(b"tokenizer.chat_tempxxxx");
    std::fs::write(&bare, bytes).expect("the home is writable");
    let output = home.run(&["run", &bare.to_string_lossy(), "hello"]);
    succeeded(&output);
    let said = text(&output.stderr);
    assert_eq!(said.matches("no chat template").count(), 1, "one line says so: {said}");
}

#[test]
fn a_file_is_verified() {
    let home = Home::new();
    let path = model_file(&home, "a.gguf", 1);
    let said = succeeded(&home.run(&["gguf", "verify", &path.to_string_lossy()]));
    assert!(said.contains("every number is finite"), "{said}");
    let mut bytes = std::fs::read(&path).expect("it was written");
    let end = bytes.len();
    bytes[end - 4..].copy_from_slice(&f32::NAN.to_le_bytes());
    std::fs::write(&path, bytes).expect("the home is writable");
    let output = home.run(&["gguf", "verify", &path.to_string_lossy()]);
    assert!(text(&output.stdout).contains("1 of"), "the tensor is named: {}", text(&output.stdout));
    refused(&output, "numbers that are not finite");
}
