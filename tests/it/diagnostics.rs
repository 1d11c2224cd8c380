//! `cairn doctor`, `logs` and `bench`.

use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::process::Stdio;
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::cairn::{Home, refused, succeeded, text};

/// Runs `doctor --json`, and returns whether it succeeded, with its checks.
fn doctor(home: &Home) -> (bool, Vec<Value>) {
    let output = home.run(&["doctor", "--json"]);
    let report: Value = serde_json::from_slice(&output.stdout).expect("the report is JSON");
    (output.status.success(), report["checks"].as_array().expect("checks").clone())
}

/// The checks of a name as `status: text; advice`.
fn named(checks: &[Value], name: &str) -> Vec<String> {
    let word = |check: &Value, key: &str| check[key].as_str().unwrap_or_default().to_owned();
    let checks = checks.iter().filter(|check| check["name"] == name);
    checks
        .map(|check| format!("{}: {}; {}", word(check, "status"), word(check, "text"), word(check, "advice")))
        .collect()
}

#[test]
fn doctor_checks_an_intact_installation() {
    let home = Home::new();
    let (is_sound, checks) = doctor(&home);
    assert!(is_sound, "{checks:?}");
    let daemon = named(&checks, "daemon");
    assert!(daemon[0].starts_with("ok: not running"), "no daemon is started: {daemon:?}");
    let _daemon = home.serve();
    let (is_sound, checks) = doctor(&home);
    assert!(is_sound, "{checks:?}");
    let names = ["version", "settings", "data", "config", "cache", "runtime", "log", "disk", "clock"];
    for name in names.into_iter().chain(["daemon", "processor", "memory", "gpu", "models"]) {
        assert!(!named(&checks, name).is_empty(), "{name} is checked: {checks:?}");
        assert!(named(&checks, name).iter().all(|check| !check.starts_with("fault")), "{name}: {checks:?}");
    }
    assert!(named(&checks, "daemon")[0].contains(&home.port.to_string()), "the address: {checks:?}");
    let lines = succeeded(&home.run(&["doctor"]));
    assert_eq!(lines.lines().count(), checks.len(), "one line for each check: {lines}");
}

#[test]
fn doctor_names_what_to_do_about_damage() {
    let home = Home::new().with("OLLAMA_TYPO", "1");
    let manifest = home.folder.path().join("models/manifests/registry.ollama.ai/library/lost/latest");
    std::fs::create_dir_all(manifest.parent().expect("a folder")).expect("the home is writable");
    let layer = format!("sha256:{}", "0".repeat(64));
    let layer = format!(r#"{{"mediaType":"application/vnd.ollama.image.model","digest":"{layer}","size":5}}"#);
    std::fs::write(&manifest, format!(r#"{{"layers":[{layer}]}}"#)).expect("the home is writable");
    std::fs::write(manifest.with_file_name("broken"), "{").expect("the home is writable");
    let _daemon = home.serve();
    let (is_sound, checks) = doctor(&home);
    assert!(!is_sound, "{checks:?}");
    let models = named(&checks, "models");
    assert!(
        models.iter().any(|check| check.starts_with("fault: lost:latest lacks 1 file; `cairn pull lost")),
        "{models:?}"
    );
    assert!(
        models.iter().any(|check| check.contains("broken") && check.contains("pull the model again")),
        "{models:?}"
    );
    let settings = named(&checks, "settings");
    assert!(settings[0].starts_with("warning: OLLAMA_TYPO has no effect"), "{settings:?}");
    refused(&home.run(&["doctor"]), "2 faults");
}

#[test]
fn doctor_names_a_port_of_another_program() {
    let home = Home::new();
    // A program that closes every connection.
    let listener = TcpListener::bind(("127.0.0.1", home.port)).expect("the port is free");
    std::thread::spawn(move || listener.incoming().for_each(drop));
    let (is_sound, checks) = doctor(&home);
    assert!(is_sound, "only a warning: {checks:?}");
    let daemon = named(&checks, "daemon");
    let port = format!("warning: not running; port {} cannot be used", home.port);
    assert!(daemon[0].starts_with(&port) && daemon[0].contains("OLLAMA_HOST"), "{daemon:?}");
}

#[test]
fn logs_prints_the_end_and_follows() {
    let home = Home::new();
    refused(&home.run(&["logs"]), "no daemon has run yet");
    let daemon = home.serve();
    let path = succeeded(&home.run(&["logs", "--path"]));
    assert!(std::path::Path::new(path.trim_end()).is_file(), "{path:?} is the log");
    let all = succeeded(&home.run(&["logs"]));
    assert_eq!(succeeded(&home.run(&["logs", "-n", "1"])), format!("{}\n", all.lines().last().expect("a line")));

    let mut child = home.command(&["logs", "-f", "-n", "0"]).stdout(Stdio::piped()).spawn().expect("cairn starts");
    let lines = BufReader::new(child.stdout.take().expect("the stream is piped")).lines();
    let (sender, received) = channel();
    std::thread::spawn(move || lines.map_while(Result::ok).try_for_each(|line| sender.send(line)));
    let deadline = Instant::now() + Duration::from_secs(20);
    // The follower begins at the end of the log at some time after its start.
    let line = loop {
        daemon.post("/api/show", &serde_json::json!({"model": "missing"})).expect("the daemon answers");
        match received.recv_timeout(Duration::from_millis(300)) {
            Ok(line) => break line,
            Err(error) => assert!(Instant::now() < deadline, "the follower prints nothing: {error}"),
        }
    };
    child.kill().and_then(|()| child.wait()).expect("the child can be killed");
    assert!(line.contains("request rejected") && line.contains("missing"), "{line}");
}

#[test]
fn logs_ends_with_its_reader() {
    let home = Home::new();
    let _daemon = home.serve();
    let mut child = home.command(&["logs", "-f"]).stdout(Stdio::piped()).spawn().expect("cairn starts");
    let mut lines = BufReader::new(child.stdout.take().expect("the stream is piped")).lines();
    lines.next().expect("a line").expect("the line can be read");
    drop(lines);
    let deadline = Instant::now() + Duration::from_secs(20);
    let status = loop {
        match child.try_wait().expect("the child process can be polled") {
            Some(status) => break status,
            None => assert!(Instant::now() < deadline, "`logs -f` runs without a reader"),
        }
        std::thread::sleep(Duration::from_millis(30));
    };
    assert!(status.success(), "{status}");
}

#[test]
fn bench_reports_the_median_of_uncached_prompts() {
    let home = Home::new();
    let _daemon = home.serve();
    let words = ["bench", "pebble", "--runs", "3", "--prompt-tokens", "64", "--tokens", "8", "--json"];
    let report: Value = serde_json::from_str(&succeeded(&home.run(&words))).expect("the report is JSON");
    for phase in ["prompt", "answer"] {
        let speed = &report[phase];
        let all: Vec<f64> = serde_json::from_value(speed["all"].clone()).expect("numbers");
        assert_eq!(speed["tokens_per_second"], all[1], "the median of three: {report}");
    }
    // Only the first token, which begins every prompt, is cached.
    assert!(report["prompt"]["tokens"].as_u64() >= Some(60), "the whole prompt is computed: {report}");
    for name in ["processor", "kernel"] {
        assert!(report[name].as_str().is_some_and(|name| !name.is_empty()), "{name}: {report}");
    }
    let shown = succeeded(&home.run(&["bench", "pebble", "--runs", "1", "--prompt-tokens", "16", "--tokens", "4"]));
    assert!(shown.starts_with("pebble on ") && shown.contains("tokens/s"), "{shown}");
    let refusal = refused(&home.run(&["bench", "pebble", "--prompt-tokens", "100000"]), "--prompt-tokens 100000: ");
    assert!(refusal.contains("context length"), "a prompt that does not fit is not cut: {refusal}");
    let output = home.run(&["bench", "pebble", "--runs", "0"]);
    assert!(text(&output.stderr).contains("0 is not in 1..=1000"), "{}", text(&output.stderr));
}
