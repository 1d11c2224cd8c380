//! Models that come from a registry: pulled, interrupted in every way, spoilt on the way, stopped and resumed.

#[cfg(target_os = "linux")]
mod full;
mod nearby;
pub(crate) mod published;
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

/// Puts up a model that can be run; returns its name.
pub(crate) fn tiny(registry: &FakeRegistry, model: &str, seed: u64) -> String {
    Published::tiny(registry, model, seed).name
}

fn registry(faults: Faults) -> FakeRegistry {
    FakeRegistry::start(1, faults).expect("loopback has free ports")
}

/// A home in which downloads give up sooner than people would want.
fn home() -> Home {
    Home::new().with("CAIRN_STALL", "1s")
}

fn downloads(home: &Home) -> Vec<Value> {
    let said = succeeded(&home.run(&["downloads", "--json"]));
    let list: Value = serde_json::from_str(&said).expect("it is JSON");
    list["downloads"].as_array().expect("a list").clone()
}

fn listed(home: &Home) -> String {
    succeeded(&home.run(&["list"]))
}

/// Waits until something is so.
fn until(what: &str, mut so: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(60);
    while !so() {
        assert!(Instant::now() < deadline, "never: {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn a_model_is_pulled_and_runs() {
    let home = home();
    let registry = registry(Faults { sign_in: true, redirect: true, ..Faults::default() });
    let model = Published::tiny(&registry, "tiny", 1);
    let output = home.run(&["pull", &model.name, "--insecure"]);
    succeeded(&output);
    let said = text(&output.stderr);
    let hex = model.large().digest.hex();
    for line in ["pulling manifest\n", &format!("pulling {} (", &hex[..12]), "verifying sha256 digest\n", "success\n"] {
        assert!(said.contains(line), "{line:?} is missing from {said:?}");
    }
    assert!(!said.contains('\x1b'), "plain lines where no terminal is: {said:?}");
    model.assert_is_in(&home);
    assert_eq!(leftovers(&home), [""; 0], "nothing stays beside it");
    assert!(listed(&home).contains(&model.name), "it is listed");
    succeeded(&home.run(&["run", &model.name, "hello"]));

    let sent = registry.sent_bytes(&model.large().digest.to_string());
    let again = home.run(&["pull", &model.name, "--insecure", "--json"]);
    let lines: Vec<Value> =
        succeeded(&again).lines().map(|line| serde_json::from_str(line).expect("each line is JSON")).collect();
    assert_eq!(lines.first(), Some(&json!({"status": "pulling manifest"})), "as Ollama begins");
    assert_eq!(lines.last(), Some(&json!({"status": "success"})), "as Ollama ends");
    assert!(lines.iter().any(|line| line["completed"] == line["total"] && line["total"].is_u64()), "{lines:?}");
    assert_eq!(registry.sent_bytes(&model.large().digest.to_string()), sent, "what is here is not fetched");
    // This machine itself may be asked over plain http without a word about it.
    succeeded(&home.run(&["pull", &format!("http://{}", model.name)]));
}

#[test]
fn running_a_model_that_is_not_here_pulls_it() {
    let home = home();
    let registry = registry(Faults::default());
    let model = Published::tiny(&registry, "wanted", 2);
    let output = home.run(&["run", &model.name, "hello", "--insecure"]);
    succeeded(&output);
    assert!(text(&output.stderr).contains("is not here yet"), "{}", text(&output.stderr));
    model.assert_is_in(&home);
}

#[test]
fn a_new_version_takes_the_old_ones_place() {
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
    assert_eq!(blobs, new.blobs.len(), "those of the old version are gone");
}

#[test]
fn what_cannot_be_pulled_is_said() {
    let home = home();
    let registry = registry(Faults::default());
    let check = |words: &[&str], parts: &[&str]| {
        let output = home.run(words);
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{words:?} must be refused: {said}");
        for part in parts {
            assert!(said.contains(part), "{words:?}: {part:?} is missing from {said:?}");
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
    // Nobody listens there.
    check(&["pull", "127.0.0.1:9/library/m", "--insecure"], &["127.0.0.1:9", "CAIRN_PROXY"]);
    check(&["downloads", "pause", "nobody"], &["there is no download"]);
    assert!(!listed(&home).contains(&host), "nothing of it is a model");
}

#[test]
fn wrong_bytes_are_refused_and_nothing_is_listed() {
    let home = home();
    let registry = registry(Faults { per_1000: vec![(Fault::Flip, 1000)], ..Faults::default() });
    let model = Published::of_noise(&registry, "m", 30, 300_000);
    let output = home.run(&["pull", &model.name, "--insecure"]);
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("digest mismatch, file must be downloaded again: want sha256:"), "{said}");
    assert!(!listed(&home).contains("/library/m"), "it is no model");
    let row = &downloads(&home)[0];
    assert_eq!((&row["state"], &row["model"]), (&json!("failed"), &json!(model.name)), "it can be tried again");
    registry.set_faults(Faults::default());
    succeeded(&home.run(&["downloads", "resume", &model.name]));
    until("the model comes", || listed(&home).contains(&model.name));
    model.assert_is_in(&home);
}

/// A kill in the middle costs little: nearly everything that came before it is not fetched again.
#[test]
#[cfg(unix)]
fn a_killed_daemon_goes_on_where_it_was() {
    const LAYER: usize = 80 << 20;
    const UNKEPT: u64 = 16 << 20;
    let home = home();
    // Slow enough that little of what is sent is still in the sockets at any time.
    let registry = registry(Faults { bytes_per_second: Some(6 << 20), ..Faults::default() });
    let model = Published::of_noise(&registry, "m", 40, LAYER);
    let digest = model.large().digest.to_string();
    let mut daemon = home.serve();
    succeeded(&home.run(&["pull", &model.name, "--insecure", "--detach"]));
    until("most of it came", || registry.sent_bytes(&digest) > 50 << 20);
    assert!(kill(daemon.child.id(), "-KILL"), "it is at work");
    daemon.child.wait().expect("it is our child");
    let sent = registry.sent_bytes(&digest);
    assert!(!leftovers(&home).is_empty(), "what came is kept");
    // Nobody asks for it again.
    registry.set_faults(Faults::default());
    let _daemon = home.serve();
    assert!(!listed(&home).contains(&model.name), "part of a model is no model");
    until("the model is here", || listed(&home).contains(&model.name));
    model.assert_is_in(&home);
    let twice = registry.sent_bytes(&digest).saturating_sub(LAYER as u64);
    println!("{sent} bytes were sent before the kill, {twice} of all twice");
    // Eight streams each have a chunk on the way, and the sockets hold some.
    assert!(twice <= UNKEPT + (4 << 20), "{twice} bytes were fetched twice");
    assert_eq!(leftovers(&home), [""; 0], "nothing stays beside it");
}

#[test]
#[cfg(unix)]
fn it_is_stopped_resumed_paused_and_discarded() {
    let home = home();
    let registry = registry(Faults { bytes_per_second: Some(200 << 10), ..Faults::default() });
    let model = Published::of_noise(&registry, "m", 50, 4 << 20);
    let daemon = home.serve();
    let state = || downloads(&home).first().map(|row| row["state"].clone()).unwrap_or_default();
    let held = || downloads(&home)[0]["held_bytes"].as_u64().unwrap_or_default();

    // A person at it, who presses Ctrl-C.
    let mut pull =
        home.command(&["pull", &model.name, "--insecure"]).stderr(Stdio::piped()).spawn().expect("it starts");
    until("some of it is here", || !downloads(&home).is_empty() && held() > 500_000);
    assert!(kill(pull.id(), "-INT"), "it waits");
    let mut said = String::new();
    pull.stderr.take().expect("it is piped").read_to_string(&mut said).expect("it is text");
    assert_eq!(pull.wait().expect("it ends").code(), Some(1), "{said}");
    assert!(said.contains("Nothing is lost"), "{said}");
    until("nobody wants it any more", || state() == "stopped");
    let kept = held();
    assert!(kept > 500_000, "what came is kept: {kept}");

    succeeded(&home.run(&["downloads", "resume", &model.name]));
    until("more of it is here", || held() > kept);
    succeeded(&home.run(&["downloads", "pause", "1"]));
    assert_eq!(state(), "paused", "at once");
    // It stays so when the daemon starts anew.
    drop(daemon);
    let daemon = home.serve();
    assert_eq!(state(), "paused", "as it was left");
    assert!(held() > kept, "with what came");

    let said = succeeded(&home.run(&["downloads", "discard", &model.name]));
    assert!(said.contains("discarded; freed"), "{said}");
    assert_eq!(downloads(&home), [Value::Null; 0], "it is gone");
    assert_eq!(leftovers(&home), [""; 0], "and all of it");

    succeeded(&home.run(&["pull", &model.name, "--insecure", "--detach", "--limit", "300k"]));
    let table = succeeded(&home.run(&["downloads"]));
    assert!(table.contains(&model.name) && table.contains("at most 300 KB/s"), "{table}");
    succeeded(&home.run(&["downloads", "cancel", &model.name]));
    assert_eq!(state(), "stopped", "what came is kept");
    registry.set_faults(Faults::default());
    let unlimited = home.run(&["pull", &model.name, "--insecure", "--limit", "0"]);
    succeeded(&unlimited);
    assert!(text(&unlimited.stderr).contains("no limit"), "0 is no standstill: {}", text(&unlimited.stderr));
    model.assert_is_in(&home);
    drop(daemon);
}

#[test]
fn who_asks_for_the_same_model_shares_one_download() {
    let home = home();
    let registry = registry(Faults { bytes_per_second: Some(1 << 20), ..Faults::default() });
    let model = Published::of_noise(&registry, "m", 60, 2 << 20);
    let _daemon = home.serve();
    let pulls: Vec<_> = (0..5)
        .map(|_| {
            let mut pull = home.command(&["pull", &model.name, "--insecure"]);
            pull.stderr(Stdio::null()).spawn().expect("it starts")
        })
        .collect();
    for mut pull in pulls {
        assert!(pull.wait().expect("it ends").success(), "each has the model");
    }
    let sent = registry.sent_bytes(&model.large().digest.to_string());
    // A stream that gives half of its range to another has some of it on the way.
    assert!(sent < 2 * model.large().bytes.len() as u64, "there were as many downloads as callers: {sent} bytes");
}

#[test]
fn a_mirror_supplies_contents_and_never_says_what_a_name_is() {
    let (origin, mirror) = (registry(Faults::default()), registry(Faults::default()));
    let model = Published::of_noise(&origin, "m", 70, 400_000);
    // The mirror has the same contents, and another idea of the name.
    Published::of_noise(&mirror, "m", 70, 400_000);
    let digest = model.large().digest.to_string();
    let home = home().with("CAIRN_MIRRORS", format!("{}=http://{}", origin.host(), mirror.host()));
    succeeded(&home.run(&["pull", &model.name, "--insecure"]));
    model.assert_is_in(&home);
    assert!(origin.sent_bytes(&digest) == 0 && mirror.sent_bytes(&digest) >= 400_000, "the mirror has them");

    // From here on the registry is gone.
    let name = model.name.clone();
    drop(origin);
    succeeded(&home.run(&["rm", &name]));
    let output = home.run(&["pull", &name, "--insecure"]);
    assert_eq!(output.status.code(), Some(1), "it was not joined: {}", text(&output.stderr));
    assert!(!listed(&home).contains(&name), "so there is no such model here");
}

#[test]
fn the_ollama_package_pulls_with_progress() {
    let home = home();
    let registry = registry(Faults { bytes_per_second: Some(2 << 20), ..Faults::default() });
    let model = Published::tiny(&registry, "tiny", 80);
    let _daemon = home.serve();
    let address = format!("http://127.0.0.1:{}", home.port);
    let report = crate::clients::script("pulls.py", &[&address, &model.name]);
    let (statuses, listed) = (&report["statuses"], &report["listed"]);
    let expected = json!(["pulling manifest", "verifying sha256 digest", "writing manifest", "success"]);
    assert_eq!(*statuses, expected, "its steps");
    assert!(listed.as_array().is_some_and(|names| names.contains(&json!(model.name))), "{report}");
    let told = report["progress"][model.large().digest.to_string()].as_array().expect("the model is told of");
    let completed: Vec<u64> = told.iter().map(|pair| pair[0].as_u64().expect("a number")).collect();
    assert!(completed.len() > 3 && completed.is_sorted(), "it goes forwards: {completed:?}");
    assert_eq!(completed.last(), Some(&(model.large().bytes.len() as u64)), "to the end");
    assert_eq!(report["whole"], "success", "told as one");
    let missing = "pull model manifest: file does not exist";
    assert_eq!(report["missing"][0], 500, "as Ollama answers: {report}");
    for way in [&report["missing"][1], &report["missing_streamed"]] {
        assert!(way.as_str().is_some_and(|text| text.starts_with(missing)), "{report}");
    }
}
