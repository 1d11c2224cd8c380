//! `cairn search`.

use std::fs::{File, OpenOptions};
use std::io::Read;
use std::process::Stdio;
use std::time::Duration;

use cairn_testkit::hub::FakeHub;
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use serde_json::Value;

use crate::cairn::{Home, succeeded, text};

fn home(hub: &str) -> Home {
    Home::new().with("CAIRN_HUB", hub).with("CAIRN_STALL", "2s")
}

/// Returns the cells of the table row that begins with a name.
fn row(table: &str, name: &str) -> Vec<String> {
    let line = table.lines().find(|line| line.starts_with(&format!("{name} ")));
    let line = line.unwrap_or_else(|| panic!("{name} is not in {table}"));
    line.split("    ").map(str::trim).filter(|cell| !cell.is_empty()).map(str::to_owned).collect()
}

#[test]
fn catalogue_lists_only_architectures_of_the_engine() {
    let supported: Vec<&str> = cairn_models::ARCHITECTURES.iter().flat_map(|family| family.names()).copied().collect();
    for variant in cairn_registry::catalogue("").iter().flat_map(|model| &model.variants) {
        let architecture = variant.architecture.as_deref().unwrap_or_default();
        assert!(supported.contains(&architecture), "{}: the engine does not load {architecture:?}", variant.name);
    }
}

#[test]
fn search_finds_models_that_can_be_pulled() {
    let hub = FakeHub::with_one_model().expect("loopback has free ports");
    let home = home(&hub.url());
    let output = home.run(&["search", "tiny"]);
    let table = succeeded(&output);
    assert_eq!(text(&output.stderr), "", "no errors, and no progress without a terminal");
    assert!(table.starts_with("NAME "), "{table}");
    let own = row(&table, "tinyllama:1.1b");
    assert_eq!(own[1], "≈638 MB", "a row of the catalogue");
    assert!(["fits", "slow", "too big"].contains(&own[2].as_str()), "the fit for this machine: {own:?}");
    assert_eq!(own[3..], ["1.1B, Q4_0, chat", "Ollama's library"]);
    let far = row(&table, "hf.co/me/Tiny-GGUF:Q4_K_M");
    assert_eq!(far[1..], ["1 MB", "fits", "Q4_K_M, also Q8_0", "Hugging Face"], "a row of the index");
    assert!(table.contains("`cairn pull NAME`"), "the pull command is shown: {table}");

    succeeded(&home.run(&["cp", "pebble", "hf.co/me/tiny-gguf:q4_k_m"]));
    let table = succeeded(&home.run(&["search", "TINY"]));
    assert_eq!(row(&table, "hf.co/me/Tiny-GGUF:Q4_K_M")[4], "Hugging Face, here", "the model is already here");
    let found: Value = serde_json::from_str(&succeeded(&home.run(&["search", "tiny", "--json"]))).expect("valid JSON");
    let models = found["models"].as_array().expect("a list");
    let of = |from: &str| models.iter().find(|model| model["from"] == from).unwrap_or_else(|| panic!("{found}"));
    assert_eq!((&of("library")["here"], &of("hugging_face")["here"]), (&Value::from(false), &Value::from(true)));
    assert_eq!(of("hugging_face")["variants"][1]["name"], "hf.co/me/Tiny-GGUF:Q8_0", "all variants");
    let first: Value =
        serde_json::from_str(&succeeded(&home.run(&["search", "tiny", "--limit", "1", "--json"]))).expect("valid JSON");
    assert_eq!(first["models"].as_array().map(Vec::len), Some(1), "the limit applies");
}

#[test]
fn search_without_the_index_uses_the_catalogue_with_a_note() {
    // Connections to this port are refused.
    let home = home("http://127.0.0.1:9");
    let output = home.run(&["search", "qwen", "code"]);
    let table = succeeded(&output);
    assert!(table.contains("qwen2.5-coder:7b"), "{table}");
    let stderr = text(&output.stderr);
    assert_eq!(stderr.lines().count(), 1, "one line: {stderr}");
    assert!(stderr.starts_with("Note: only the catalogue") && stderr.contains("127.0.0.1:9"), "{stderr}");
    let found: Value = serde_json::from_str(&succeeded(&home.run(&["search", "qwen", "--json"]))).expect("valid JSON");
    assert!(
        found["problem"].as_str().is_some_and(|line| line.contains("127.0.0.1:9")),
        "the JSON has the error: {found}"
    );
}

#[test]
fn search_without_results_suggests_next_steps() {
    let hub = FakeHub::with_one_model().expect("loopback has free ports");
    let home = home(&hub.url());
    let stdout = succeeded(&home.run(&["search", "no", "such", "model"]));
    for part in ["no models found for: no such model\n", "fewer or other words", "cairn pull NAME"] {
        assert!(stdout.contains(part), "{part:?} is missing from {stdout:?}");
    }
    let quiet = home.run(&["search", "no-such-model", "--json"]);
    assert_eq!(succeeded(&quiet).trim(), r#"{"models":[]}"#, "an empty list");
    let long = home.run(&["search", &"x".repeat(300)]);
    assert!(!long.status.success() && text(&long.stderr).contains("at most 200 characters"), "{}", text(&long.stderr));
    assert!(!home.run(&["search"]).status.success(), "words are required");
}

/// The line is shown in a terminal and erased at the end.
#[test]
fn slow_search_shows_a_progress_line() {
    let hub = FakeHub::start(|_| {
        std::thread::sleep(Duration::from_millis(2_500));
        (200, b"[]".to_vec())
    });
    let hub = hub.expect("loopback has free ports");
    let home = home(&hub.url()).with("CAIRN_STALL", "20s");
    let _daemon = home.serve();
    let mut screen = File::from({
        let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).expect("the system has pseudo-terminals");
        grantpt(&master).and_then(|()| unlockpt(&master)).expect("the pseudo-terminal can be unlocked");
        master
    });
    let name = ptsname(&screen, Vec::new()).expect("a pseudo-terminal has a name");
    let side = OpenOptions::new().read(true).write(true).open(name.to_str().expect("the name is UTF-8"));
    let mut command = home.command(&["search", "tinyllama"]);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::from(side.expect("its other side opens"))).spawn();
    let output = child.expect("cairn starts").wait_with_output().expect("the command ends");
    assert!(succeeded(&output).contains("tinyllama:1.1b"), "the model is listed");
    // When the other side is closed, reading ends with an error.
    drop(command);
    let mut seen = Vec::new();
    let mut buffer = [0; 100];
    while let Ok(count @ 1..) = screen.read(&mut buffer) {
        seen.extend_from_slice(&buffer[..count]);
    }
    assert_eq!(text(&seen), "searching...\r\x1b[K", "the line, and the sequence that erases it");
}
