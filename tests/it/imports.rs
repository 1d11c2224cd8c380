//! Imports of model files: by copy, link and move, and after a kill.

use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::json;

use crate::cairn::{self, Home, kill, succeeded, text};

fn refused(output: &Output, part: &str) {
    let stderr = cairn::refused(output, part);
    assert!(stderr.starts_with("Error: "), "the line is an error: {stderr:?}");
}

fn model_file(home: &Home, name: &str, seed: u64) -> PathBuf {
    let path = home.folder.path().join(name);
    let spec = cairn_testkit::ModelSpec { seed, ..cairn_testkit::tiny_llama() };
    cairn_testkit::write_file(&spec, &path).expect("the home is writable");
    path
}

/// Returns the names of all blob files.
fn blobs(home: &Home) -> Vec<String> {
    let folder = std::fs::read_dir(home.folder.path().join("models/blobs"));
    let names = folder.into_iter().flatten().flatten().map(|entry| entry.file_name().to_string_lossy().into_owned());
    names.collect()
}

#[test]
fn imported_file_runs_and_is_deleted() {
    let home = Home::new();
    let path = model_file(&home, "Tiny Model-Q8_0.gguf", 1);
    let stdout = succeeded(&home.run(&["import", &path.to_string_lossy(), "mine"]));
    assert!(["copied", "reflinked"].iter().any(|way| stdout.starts_with(way)), "the import method is shown: {stdout}");
    assert!(stdout.ends_with("mine:latest is ready: cairn run mine\n"), "the run command is shown: {stdout}");
    let again = succeeded(&home.run(&["import", &path.to_string_lossy(), "mine"]));
    assert!(again.contains("already: nothing was copied"), "{again}");
    // From here on only the blob is left.
    std::fs::remove_file(&path).expect("the folder is writable");
    let list = succeeded(&home.run(&["list"]));
    assert!(list.contains("mine:latest") && list.contains("5.8 MB"), "{list}");
    assert!(succeeded(&home.run(&["show", "mine"])).contains("llama"), "show names the architecture");
    succeeded(&home.run(&["run", "mine", "hello", "--keepalive", "5m"]));
    assert!(succeeded(&home.run(&["ps"])).contains("mine:latest"), "the model is loaded");

    let other = model_file(&home, "other.gguf", 2);
    refused(&home.run(&["import", &other.to_string_lossy(), "mine"]), "another model named mine:latest");
    refused(&home.run(&["import", &other.to_string_lossy(), "pebble"]), "part of Cairn");
    succeeded(&home.run(&["import", &other.to_string_lossy(), "mine", "--force"]));
    assert_eq!(succeeded(&home.run(&["rm", "mine"])), "deleted 'mine'\n", "Ollama's text");
    assert!(blobs(&home).is_empty(), "no blobs are left: {:?}", blobs(&home));
    refused(&home.run(&["rm", "mine"]), "model 'mine' not found");
    refused(&home.run(&["rm", "pebble"]), "neither replaced nor deleted");
}

#[test]
fn imported_model_answers_over_http() {
    let home = Home::new();
    let path = model_file(&home, "a.gguf", 1);
    let daemon = home.serve();
    succeeded(&home.run(&["import", &path.to_string_lossy()]));
    let tags = daemon.get("/api/tags").expect("the daemon answers");
    assert!(tags.contains("\"tiny-llama:latest\""), "named by the file's metadata: {tags}");
    let chat = json!({
        "model": "tiny-llama", "messages": [{"role": "user", "content": "hi"}], "stream": false,
        "options": {"num_predict": 4}
    });
    let answer = daemon.post("/api/chat", &chat).expect("the daemon answers");
    assert!(answer.contains("\"done\":true"), "{answer}");
}

#[cfg(unix)]
#[test]
fn linked_file_becomes_read_only_with_a_note() {
    use std::os::unix::fs::{MetadataExt, PermissionsExt};
    let home = Home::new();
    let path = model_file(&home, "a.gguf", 1);
    let stdout = succeeded(&home.run(&["import", "--link", &path.to_string_lossy(), "mine"]));
    assert!(stdout.starts_with("linked 5.8 MB") && stdout.contains("was made read-only"), "{stdout}");
    let found = std::fs::metadata(&path).expect("the file exists");
    assert_eq!((found.permissions().mode() & 0o222, found.nlink()), (0, 2), "a read-only file with two links");
    succeeded(&home.run(&["run", "mine", "hello"]));
    succeeded(&home.run(&["rm", "mine"]));
    assert_eq!(std::fs::metadata(&path).expect("the file exists").nlink(), 1, "the store's link is deleted");
}

#[cfg(unix)]
#[test]
fn moved_file_is_only_in_the_store() {
    use std::os::unix::fs::PermissionsExt;
    let home = Home::new();
    let path = model_file(&home, "a.gguf", 1);
    let words = |path: &Path| ["import".to_owned(), "--move".to_owned(), path.to_string_lossy().into_owned()];
    let moving = |path: &Path| home.run(&words(path).each_ref().map(String::as_str));
    let link = home.folder.path().join("link.gguf");
    std::os::unix::fs::symlink(&path, &link).expect("the home is writable");
    refused(&moving(&link), "is a link to");
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o444)).expect("the folder is writable");
    refused(&moving(&path), "write-protected");
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o644)).expect("the folder is writable");
    assert!(blobs(&home).is_empty() && path.exists(), "nothing was imported: {:?}", blobs(&home));

    let stdout = succeeded(&moving(&path));
    assert!(stdout.starts_with("moved 5.8 MB\n") && stdout.contains("no longer where it was"), "{stdout}");
    assert!(!path.exists() && blobs(&home).len() == 2, "the file was moved: {:?}", blobs(&home));
    succeeded(&home.run(&["run", "tiny-llama", "hello"]));
    let folder = home.folder.path().join("models/blobs");
    let blob_paths = blobs(&home).into_iter().map(|name| folder.join(name));
    let largest = blob_paths.max_by_key(|path| path.metadata().map_or(0, |found| found.len())).expect("there are two");
    refused(&moving(&largest), "`cairn cp`");
    assert!(largest.exists(), "a blob cannot be moved out of the library");

    let split = std::fs::read(model_file(&home, "whole.gguf", 2)).expect("the file exists");
    let part = |number: usize| home.folder.path().join(format!("m-{number:05}-of-00002.gguf"));
    for (number, bytes) in (1..).zip(cairn_testkit::split(&split, 2)) {
        std::fs::write(part(number), bytes).expect("the home is writable");
    }
    let output = home.run(&["import", "--move", "--json", &part(1).to_string_lossy(), "parts"]);
    let imported: serde_json::Value = serde_json::from_str(&succeeded(&output)).expect("one JSON object");
    assert_eq!((&imported["model"], &imported["moved"]), (&json!("parts:latest"), &json!(true)), "{imported}");
    assert!(!part(1).exists() && !part(2).exists(), "all parts were moved");
    succeeded(&home.run(&["verify"]));
    refused(&home.run(&["import", "--move", &part(1).to_string_lossy()]), "m-00001-of-00002.gguf");
    let both = home.run(&["import", "--move", "--link", "x.gguf"]);
    assert_eq!(both.status.code(), Some(2), "the flags exclude each other: {}", text(&both.stderr));
}

#[test]
fn import_copy_keeps_the_disk_reserve() {
    let home = Home::new().with("CAIRN_DISK_RESERVE", "900T");
    let path = model_file(&home, "a.gguf", 1);
    let output = home.run(&["import", "--copy", &path.to_string_lossy()]);
    // With reflinks, nothing is copied.
    if !text(&output.stdout).starts_with("reflinked") {
        refused(&output, "stay free (CAIRN_DISK_RESERVE)");
        assert!(blobs(&home).is_empty() && staged_files(&home) == 0, "no blobs are left: {:?}", blobs(&home));
    }
}

#[test]
fn folder_import_imports_every_model() {
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
    assert_eq!(last["error"], "2 of 3 models were imported", "the last line reports the failures: {lines}");
    assert_eq!(models.len(), 2, "one line per model: {lines}");
    let files = models.iter().filter_map(|model| model["file"].as_str());
    assert!(
        files.clone().all(|file| file.ends_with(".gguf")) && files.count() == 2,
        "each line names its file: {lines}"
    );
    let list = succeeded(&home.run(&["list"]));
    assert!(models.iter().all(|model| list.contains(model["model"].as_str().expect("a name"))), "{list}");
    std::fs::remove_file(folder.join("broken.gguf")).expect("the folder is writable");
    let stdout = succeeded(&home.run(&["import", "--move", &folder.to_string_lossy()]));
    assert_eq!(stdout.matches("no longer where it was").count(), 2, "both files were moved: {stdout}");
    refused(&home.run(&["import", &folder.to_string_lossy()]), "has no GGUF files");
    refused(&home.run(&["import", &folder.to_string_lossy(), "name"]), "one name; leave the name out");
}

/// Asserts that a command failed with all of these parts in its stderr.
fn refused_with(output: &Output, parts: &[&str]) {
    for part in parts {
        cairn::refused(output, part);
    }
}

#[test]
fn non_model_files_are_refused_without_leftovers() {
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
    assert!(blobs(&home).is_empty(), "no blobs are left: {:?}", blobs(&home));
}

/// Writes a sparse model file of 500 MB: quick to create, slow to copy.
fn large_file(home: &Home) -> PathBuf {
    file_of(home, 500_000_000)
}

fn file_of(home: &Home, bytes: u64) -> PathBuf {
    let path = home.folder.path().join("large.gguf");
    cairn_testkit::write_sparse(&cairn_testkit::huge_llama(bytes), &path).expect("sparse files need no disk space");
    path
}

/// Returns the number of staged files.
fn staged_files(home: &Home) -> usize {
    std::fs::read_dir(home.folder.path().join("models/.cairn/drafts")).map_or(0, Iterator::count)
}

/// Waits until a process has a file open. Only Linux shows that; elsewhere it returns at once.
#[cfg(unix)]
fn await_reading(pid: u32, path: &Path) {
    let Ok(path) = path.canonicalize() else { return };
    let reads = || {
        let open = std::fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
        open.map(|entry| std::fs::read_link(entry.path())).any(|file| file.is_ok_and(|file| file == path))
    };
    let since = Instant::now();
    while cfg!(target_os = "linux") && !reads() {
        assert!(since.elapsed() < Duration::from_secs(30), "timeout: the daemon did not open {}", path.display());
        std::thread::yield_now();
    }
}

/// Waits until the import has staged a file.
fn await_staged_file(home: &Home) {
    let since = Instant::now();
    while staged_files(home) == 0 {
        assert!(since.elapsed() < Duration::from_secs(20), "timeout: no staged file");
        std::thread::sleep(Duration::from_millis(2));
    }
}

#[test]
fn killed_import_leaves_no_broken_model() {
    let home = Home::new();
    let path = large_file(&home);
    for _ in 0..3 {
        let daemon = home.serve();
        let words = ["import", &path.to_string_lossy(), "large"];
        let mut import =
            home.command(&words).stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("cairn starts");
        await_staged_file(&home);
        assert!(kill(daemon.child.id(), "-KILL"), "the daemon runs");
        import.wait().expect("the process exits");
    }
    let _daemon = home.serve();
    let list = succeeded(&home.run(&["list"]));
    let listed = list.contains("large");
    if listed {
        // The last import finished before the signal, so the model must be complete.
        succeeded(&home.run(&["show", "large"]));
    }
    succeeded(&home.run(&["import", &path.to_string_lossy(), "large"]));
    let left = blobs(&home);
    assert!(left.len() == 2 && left.iter().all(|name| name.starts_with("sha256-")), "the blobs of one model: {left:?}");
    assert_eq!(staged_files(&home), 0, "no staged files are left");
}

#[cfg(unix)]
#[test]
fn killed_move_loses_no_data() {
    use std::os::unix::fs::PermissionsExt;
    let home = Home::new();
    // A move copies nothing, so only a larger file takes long enough to be killed.
    let path = file_of(&home, 2_500_000_000);
    let bytes = std::fs::metadata(&path).expect("the file exists").len();
    let words = ["import", "--move", &path.to_string_lossy(), "large"];
    let mut killed = 0;
    for wait_ms in [0, 50, 250] {
        let daemon = home.serve();
        let mut import =
            home.command(&words).stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("cairn starts");
        await_reading(daemon.child.id(), &path);
        std::thread::sleep(Duration::from_millis(wait_ms));
        assert!(kill(daemon.child.id(), "-KILL"), "the daemon runs");
        import.wait().expect("the process exits");
        match std::fs::metadata(&path) {
            Ok(found) => {
                killed += 1;
                let writable = found.permissions().mode() & 0o200 != 0;
                assert!(found.len() == bytes && writable, "the file is unchanged");
            }
            Err(_) => break,
        }
    }
    assert!(killed > 0, "no import was killed before it finished");
    let _daemon = home.serve();
    if path.exists() {
        let stdout = succeeded(&home.run(&words));
        assert!(stdout.starts_with("moved ") || stdout.contains("already"), "nothing was copied: {stdout}");
    }
    assert!(!path.exists(), "the file was moved");
    assert!(succeeded(&home.run(&["list"])).contains("large"), "the model is listed");
    succeeded(&home.run(&["verify", "large"]));
}

#[test]
fn interrupted_import_leaves_no_files() {
    let home = Home::new();
    let path = large_file(&home);
    let _daemon = home.serve();
    let words = ["import", &path.to_string_lossy(), "large"];
    let import = home.command(&words).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("cairn starts");
    await_staged_file(&home);
    assert!(kill(import.id(), "-INT"), "the import runs");
    let output = import.wait_with_output().expect("cairn ends");
    refused(&output, "interrupted");
    let since = Instant::now();
    while staged_files(&home) > 0 || !blobs(&home).is_empty() {
        assert!(since.elapsed() < Duration::from_secs(20), "a staged file is left: {:?}", blobs(&home));
        std::thread::sleep(Duration::from_millis(20));
    }
    assert!(!succeeded(&home.run(&["list"])).contains("large"), "no such model is listed");
}

#[cfg(unix)]
#[test]
fn model_file_runs_from_any_path() {
    let home = Home::new();
    let folder = home.folder.path();
    let path = model_file(&home, "Qwen3-0.6B (v1.1) Q8_0.gguf", 1);
    // The layout of the Hugging Face cache: a link with the file's name to a blob without an extension.
    std::fs::create_dir(folder.join("snapshots")).expect("the home is writable");
    std::fs::copy(&path, folder.join("0a1b2c3d")).expect("the home is writable");
    let link = folder.join("snapshots/Model.Q8_0.gguf");
    std::os::unix::fs::symlink("../0a1b2c3d", &link).expect("the home is writable");
    let run = |path: &Path| {
        let mut command = home.command(&["run", &path.to_string_lossy(), "hello"]);
        let output = command.current_dir(folder).output().expect("cairn starts");
        succeeded(&output);
        let stderr = text(&output.stderr);
        assert!(!stderr.contains("template"), "the file's own template is used: {stderr}");
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
    let stderr = text(&output.stderr);
    assert_eq!(stderr.matches("no chat template").count(), 1, "one note: {stderr}");
    succeeded(&home.run(&["import", &bare.to_string_lossy(), "bare"]));
    let output = home.run(&["run", "bare", "hello"]);
    assert!(text(&output.stderr).contains("no chat template"), "a model of a library: {}", text(&output.stderr));
}

#[test]
fn gguf_verify_reports_non_finite_numbers() {
    let home = Home::new();
    let path = model_file(&home, "a.gguf", 1);
    let stdout = succeeded(&home.run(&["gguf", "verify", &path.to_string_lossy()]));
    assert!(stdout.contains("every number is finite"), "{stdout}");
    let mut bytes = std::fs::read(&path).expect("the file exists");
    let end = bytes.len();
    bytes[end - 4..].copy_from_slice(&f32::NAN.to_le_bytes());
    std::fs::write(&path, bytes).expect("the home is writable");
    let output = home.run(&["gguf", "verify", &path.to_string_lossy()]);
    assert!(text(&output.stdout).contains("1 of"), "the number of bad tensors: {}", text(&output.stdout));
    refused(&output, "numbers that are not finite");
}
