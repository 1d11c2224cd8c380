//! Pulls from a registry: complete, interrupted, corrupted, paused and resumed.

#[cfg(target_os = "linux")]
mod full;
mod nearby;
pub(crate) mod published;
#[cfg(unix)]
mod refused;
mod several;
#[cfg(unix)]
mod survive;
mod templates;

use std::io::Read;
use std::process::Stdio;
use std::time::{Duration, Instant};

use cairn_testkit::registry::{FakeRegistry, Fault, Faults};
use serde_json::{Value, json};

use crate::cairn::{Home, kill, succeeded, text};
use published::{Published, leftovers};

/// Publishes a model that can be run; returns its name.
pub(crate) fn tiny(registry: &FakeRegistry, model: &str, seed: u64) -> String {
    Published::tiny(registry, model, seed).name
}

fn registry(faults: Faults) -> FakeRegistry {
    FakeRegistry::start(1, faults).expect("loopback has free ports")
}

/// Returns a home with a short stall timeout for downloads.
fn home() -> Home {
    Home::new().with("CAIRN_STALL", "1s")
}

fn downloads(home: &Home) -> Vec<Value> {
    let stdout = succeeded(&home.run(&["downloads", "--json"]));
    let list: Value = serde_json::from_str(&stdout).expect("valid JSON");
    list["downloads"].as_array().expect("a list").clone()
}

fn listed(home: &Home) -> String {
    succeeded(&home.run(&["list"]))
}

/// Waits until a condition holds.
fn until(expected: &str, mut condition: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(60);
    while !condition() {
        assert!(Instant::now() < deadline, "timeout: {expected}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn pulled_model_is_complete_and_runs() {
    let home = home();
    let registry = registry(Faults { sign_in: true, redirect: true, ..Faults::default() });
    let model = Published::tiny(&registry, "tiny", 1);
    let output = home.run(&["pull", &model.name, "--insecure"]);
    succeeded(&output);
    let stderr = text(&output.stderr);
    let hex = model.large().digest.hex();
    for line in ["pulling manifest\n", &format!("pulling {} (", &hex[..12]), "verifying sha256 digest\n", "success\n"] {
        assert!(stderr.contains(line), "{line:?} is missing from {stderr:?}");
    }
    assert!(!stderr.contains('\x1b'), "no escape sequences without a terminal: {stderr:?}");
    model.assert_is_in(&home);
    assert_eq!(leftovers(&home), [""; 0], "no leftovers");
    assert!(listed(&home).contains(&model.name), "the model is listed");
    succeeded(&home.run(&["run", &model.name, "hello"]));

    let sent = registry.sent_bytes(&model.large().digest.to_string());
    let again = home.run(&["pull", &model.name, "--insecure", "--json"]);
    let lines: Vec<Value> =
        succeeded(&again).lines().map(|line| serde_json::from_str(line).expect("each line is JSON")).collect();
    assert_eq!(lines.first(), Some(&json!({"status": "pulling manifest"})), "Ollama's first line");
    assert_eq!(lines.last(), Some(&json!({"status": "success"})), "Ollama's last line");
    assert!(lines.iter().any(|line| line["completed"] == line["total"] && line["total"].is_u64()), "{lines:?}");
    assert_eq!(registry.sent_bytes(&model.large().digest.to_string()), sent, "existing blobs are not downloaded");
    // Plain HTTP is allowed for loopback registries.
    succeeded(&home.run(&["pull", &format!("http://{}", model.name)]));
}

#[test]
fn updates_name_newer_models_and_the_command() {
    let home = home();
    let registry = registry(Faults::default());
    let old = Published::of_noise(&registry, "m", 10, 200_000);
    succeeded(&home.run(&["pull", &old.name, "--insecure"]));
    let table = || succeeded(&home.run(&["updates", "--insecure"]));
    assert!(table().contains("current") && !table().contains("cairn pull"), "{}", table());
    let new = Published::of_noise(&registry, "m", 20, 200_000);
    let newer = table();
    let names = [&new.name, "newer at its registry", "KB", &format!("update with `cairn pull {}`", new.name)];
    assert!(names.iter().all(|name| newer.contains(name)), "{newer}");
    registry.set_offline(true);
    let offline = home.run(&["updates", "--insecure"]);
    assert!(text(&offline.stderr).contains(&format!("Cannot check {}: ", new.name)), "{}", text(&offline.stderr));
    assert!(succeeded(&offline).contains("unknown"), "the row remains");
}

#[test]
fn run_pulls_a_missing_model() {
    let home = home();
    let registry = registry(Faults::default());
    let model = Published::tiny(&registry, "wanted", 2);
    let output = home.run(&["run", &model.name, "hello", "--insecure"]);
    succeeded(&output);
    assert!(text(&output.stderr).contains("is not here yet"), "{}", text(&output.stderr));
    model.assert_is_in(&home);
}

#[test]
fn pull_of_new_version_removes_unused_layers() {
    let home = home();
    let registry = registry(Faults::default());
    let old = Published::of_noise(&registry, "m", 10, 200_000);
    succeeded(&home.run(&["pull", &old.name, "--insecure"]));
    let new = Published::of_noise(&registry, "m", 20, 200_000);
    let output = home.run(&["pull", &new.name, "--insecure"]);
    succeeded(&output);
    assert!(text(&output.stderr).contains("removing unused layers\n"), "{}", text(&output.stderr));
    new.assert_is_in(&home);
    let blobs = std::fs::read_dir(published::models(&home).join("blobs")).expect("there are some").count();
    assert_eq!(blobs, new.blobs.len(), "blobs of the old version are deleted");
}

#[test]
fn invalid_pulls_fail_with_a_reason() {
    let home = home();
    let registry = registry(Faults::default());
    let check = |words: &[&str], parts: &[&str]| {
        let output = home.run(words);
        let stderr = text(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{words:?} must fail: {stderr}");
        for part in parts {
            assert!(stderr.contains(part), "{words:?}: {part:?} is missing from {stderr:?}");
        }
    };
    let host = registry.host();
    let missing = format!("{host}/library/nothing");
    check(&["pull", &missing, "--insecure"], &["pull model manifest: file does not exist", "check the spelling"]);
    check(&["pull", "http://192.0.2.1/library/m"], &["insecure protocol http", "--insecure"]);
    check(&["pull", "a b"], &["invalid model name"]);
    check(&["pull", "pebble"], &["part of Cairn"]);
    let tensors = vec![published::blob("tensor", *b"t"), published::blob("config", *b"{}")];
    let mlx = Published::at(&registry, "mlx", tensors);
    check(&["pull", &mlx.name, "--insecure"], &["MLX", "GGUF"]);
    // Connections to this port are refused.
    check(&["pull", "127.0.0.1:9/library/m", "--insecure"], &["127.0.0.1:9", "CAIRN_PROXY"]);
    check(&["downloads", "pause", "missing"], &["there is no download"]);
    assert!(!listed(&home).contains(&host), "no failed pull is listed");
}

#[test]
fn wrong_bytes_are_refused_and_nothing_is_listed() {
    let home = home();
    let registry = registry(Faults { per_1000: vec![(Fault::Flip, 1000)], ..Faults::default() });
    let model = Published::of_noise(&registry, "m", 30, 300_000);
    let output = home.run(&["pull", &model.name, "--insecure"]);
    let stderr = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{stderr}");
    assert!(stderr.contains("digest mismatch, file must be downloaded again: want sha256:"), "{stderr}");
    assert!(!listed(&home).contains("/library/m"), "the model is not listed");
    let row = &downloads(&home)[0];
    assert_eq!((&row["state"], &row["model"]), (&json!("failed"), &json!(model.name)), "the download can be resumed");
    registry.set_faults(Faults::default());
    succeeded(&home.run(&["downloads", "resume", &model.name]));
    until("the model is listed", || listed(&home).contains(&model.name));
    model.assert_is_in(&home);
}

/// After a kill during a download, almost no byte is downloaded twice.
#[test]
#[cfg(unix)]
fn pull_resumes_after_daemon_kill() {
    const LAYER: usize = 80 << 20;
    const UNSYNCED_BYTES: u64 = 16 << 20;
    let home = home();
    // Slow enough that socket buffers hold few bytes.
    let registry = registry(Faults { bytes_per_second: Some(6 << 20), ..Faults::default() });
    let model = Published::of_noise(&registry, "m", 40, LAYER);
    let digest = model.large().digest.to_string();
    let mut daemon = home.serve();
    succeeded(&home.run(&["pull", &model.name, "--insecure", "--detach"]));
    until("most bytes were sent", || registry.sent_bytes(&digest) > 50 << 20);
    assert!(kill(daemon.child.id(), "-KILL"), "the daemon runs");
    daemon.child.wait().expect("the process exits");
    let sent = registry.sent_bytes(&digest);
    assert!(!leftovers(&home).is_empty(), "downloaded bytes are kept");
    // The daemon resumes without a request.
    registry.set_faults(Faults::default());
    let _daemon = home.serve();
    assert!(!listed(&home).contains(&model.name), "a partial model is not listed");
    until("the model is listed", || listed(&home).contains(&model.name));
    model.assert_is_in(&home);
    let twice = registry.sent_bytes(&digest).saturating_sub(LAYER as u64);
    println!("{sent} bytes were sent before the kill, {twice} of all twice");
    // Each of eight connections has a chunk in flight, and socket buffers hold some bytes.
    assert!(twice <= UNSYNCED_BYTES + (4 << 20), "{twice} bytes were downloaded twice");
    // The record of the pull is removed after the model is listed.
    until("no leftovers", || leftovers(&home).is_empty());
}

#[test]
#[cfg(unix)]
fn download_is_stopped_resumed_paused_and_discarded() {
    let home = home();
    let registry = registry(Faults { bytes_per_second: Some(200 << 10), ..Faults::default() });
    let model = Published::of_noise(&registry, "m", 50, 4 << 20);
    let daemon = home.serve();
    let state = || downloads(&home).first().map(|row| row["state"].clone()).unwrap_or_default();
    let held_bytes = || downloads(&home)[0]["held_bytes"].as_u64().unwrap_or_default();

    // The user presses Ctrl-C.
    let mut pull =
        home.command(&["pull", &model.name, "--insecure"]).stderr(Stdio::piped()).spawn().expect("the command starts");
    until("the download has progress", || !downloads(&home).is_empty() && held_bytes() > 500_000);
    assert!(kill(pull.id(), "-INT"), "the command runs");
    let mut stderr = String::new();
    pull.stderr.take().expect("the stream is piped").read_to_string(&mut stderr).expect("UTF-8");
    assert_eq!(pull.wait().expect("the process exits").code(), Some(1), "{stderr}");
    assert!(stderr.contains("Nothing is lost"), "{stderr}");
    until("the download is stopped", || state() == "stopped");
    let kept = held_bytes();
    assert!(kept > 500_000, "downloaded bytes are kept: {kept}");

    succeeded(&home.run(&["downloads", "resume", &model.name]));
    until("the download has more progress", || held_bytes() > kept);
    succeeded(&home.run(&["downloads", "pause", "1"]));
    assert_eq!(state(), "paused", "the pause is immediate");
    // A pause survives a daemon restart.
    drop(daemon);
    let daemon = home.serve();
    assert_eq!(state(), "paused", "still paused");
    assert!(held_bytes() > kept, "downloaded bytes are kept");

    let stdout = succeeded(&home.run(&["downloads", "discard", &model.name]));
    assert!(stdout.contains("discarded; freed"), "{stdout}");
    assert_eq!(downloads(&home), [Value::Null; 0], "the download is discarded");
    assert_eq!(leftovers(&home), [""; 0], "no leftovers");

    succeeded(&home.run(&["pull", &model.name, "--insecure", "--detach", "--limit", "300k"]));
    let table = succeeded(&home.run(&["downloads"]));
    assert!(table.contains(&model.name) && table.contains("at most 300 KB/s"), "{table}");
    succeeded(&home.run(&["downloads", "cancel", &model.name]));
    assert_eq!(state(), "stopped", "downloaded bytes are kept");
    registry.set_faults(Faults::default());
    let unlimited = home.run(&["pull", &model.name, "--insecure", "--limit", "0"]);
    succeeded(&unlimited);
    assert!(text(&unlimited.stderr).contains("no limit"), "0 means unlimited: {}", text(&unlimited.stderr));
    model.assert_is_in(&home);
    drop(daemon);
}

#[test]
fn concurrent_pulls_share_one_download() {
    let home = home();
    let registry = registry(Faults { bytes_per_second: Some(1 << 20), ..Faults::default() });
    let model = Published::of_noise(&registry, "m", 60, 2 << 20);
    let _daemon = home.serve();
    let pulls: Vec<_> = (0..5)
        .map(|_| {
            let mut pull = home.command(&["pull", &model.name, "--insecure"]);
            pull.stderr(Stdio::null()).spawn().expect("the command starts")
        })
        .collect();
    for mut pull in pulls {
        assert!(pull.wait().expect("the process exits").success(), "each pull succeeds");
    }
    let sent = registry.sent_bytes(&model.large().digest.to_string());
    // A connection that hands half of its range to another still has bytes in flight.
    assert!(sent < 2 * model.large().bytes.len() as u64, "the download is not shared: {sent} bytes");
}

#[test]
fn mirror_supplies_blobs_but_not_manifests() {
    let (origin, mirror) = (registry(Faults::default()), registry(Faults::default()));
    let model = Published::of_noise(&origin, "m", 70, 400_000);
    // The mirror has the same blobs but another manifest.
    Published::of_noise(&mirror, "m", 70, 400_000);
    let digest = model.large().digest.to_string();
    let home = home().with("CAIRN_MIRRORS", format!("{}=http://{}", origin.host(), mirror.host()));
    succeeded(&home.run(&["pull", &model.name, "--insecure"]));
    model.assert_is_in(&home);
    assert!(origin.sent_bytes(&digest) == 0 && mirror.sent_bytes(&digest) >= 400_000, "the blob is from the mirror");

    // From here on the registry is unreachable.
    let name = model.name.clone();
    drop(origin);
    succeeded(&home.run(&["rm", &name]));
    let output = home.run(&["pull", &name, "--insecure"]);
    assert_eq!(
        output.status.code(),
        Some(1),
        "manifests of a mirror that was not joined are refused: {}",
        text(&output.stderr)
    );
    assert!(!listed(&home).contains(&name), "the model is not listed");
}

#[test]
fn ollama_package_pulls_with_progress() {
    let home = home();
    let registry = registry(Faults { bytes_per_second: Some(2 << 20), ..Faults::default() });
    let model = Published::tiny(&registry, "tiny", 80);
    let _daemon = home.serve();
    let address = format!("http://127.0.0.1:{}", home.port);
    let report = crate::clients::script("pulls.py", &[&address, &model.name]);
    let (statuses, listed) = (&report["statuses"], &report["listed"]);
    let expected = json!(["pulling manifest", "verifying sha256 digest", "writing manifest", "success"]);
    assert_eq!(*statuses, expected, "Ollama's steps");
    assert!(listed.as_array().is_some_and(|names| names.contains(&json!(model.name))), "{report}");
    let pairs = report["progress"][model.large().digest.to_string()].as_array().expect("progress of the blob");
    let completed: Vec<u64> = pairs.iter().map(|pair| pair[0].as_u64().expect("a number")).collect();
    assert!(completed.len() > 3 && completed.is_sorted(), "progress increases: {completed:?}");
    assert_eq!(completed.last(), Some(&(model.large().bytes.len() as u64)), "progress reaches the total");
    assert_eq!(report["whole"], "success", "without streaming");
    let missing = "pull model manifest: file does not exist";
    assert_eq!(report["missing"][0], 500, "Ollama's status: {report}");
    for way in [&report["missing"][1], &report["missing_streamed"]] {
        assert!(way.as_str().is_some_and(|text| text.starts_with(missing)), "{report}");
    }
}
