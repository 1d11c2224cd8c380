//! Pulls of models that this version cannot run.

use std::sync::Arc;

use cairn_disk::RealDisk;
use cairn_gguf::{DType, Writer};
use cairn_store::{Library, Staging};
use cairn_testkit::registry::{FakeRegistry, Faults};

use super::published::{Published, blob};
use super::{home, listed, registry, text, until};
use crate::cairn::{kill, succeeded};
use crate::terminal::Terminal;

const MIB: u64 = 1 << 20;

/// Publishes a model of an unknown architecture with `metadata_bytes` of metadata and 8 MiB of tensors.
fn unknown(registry: &FakeRegistry, model: &str, metadata_bytes: usize) -> Published {
    let mut writer = Writer::default();
    writer.set("general.architecture", "lorem").set("general.name", model);
    for number in 0..metadata_bytes / 50_000 {
        writer.set(format!("lorem.text_{number}"), "x".repeat(50_000));
    }
    writer.tensor("t", DType::F32, &[2 << 20], vec![0; 8 << 20]).expect("the tensor is sound");
    let config = br#"{"model_format":"gguf"}"#.as_slice();
    Published::at(registry, model, vec![blob("model", writer.finish()), blob("config", config)])
}

fn sent(registry: &FakeRegistry, model: &Published) -> u64 {
    registry.sent_bytes(&model.large().digest.to_string())
}

#[test]
fn refused_model_is_downloaded_only_on_request() {
    let home = home();
    let registry = registry(Faults::default());
    let model = unknown(&registry, "m", 0);
    for words in [&["pull", &model.name, "--insecure"][..], &["run", &model.name, "hello", "--insecure"]] {
        let output = home.run(words);
        let stderr = text(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{words:?} must fail: {stderr}");
        for part in ["cannot run", "here yet: architecture lorem", "--force", "8.4 MB"] {
            assert!(stderr.contains(part), "{words:?}: {part:?} is missing from {stderr:?}");
        }
    }
    assert!(sent(&registry, &model) <= MIB, "only the beginning: {} bytes", sent(&registry, &model));
    assert!(!listed(&home).contains(&model.name), "the model is not listed");
    succeeded(&home.run(&["pull", &model.name, "--insecure", "--force"]));
    model.assert_is_in(&home);
    assert_eq!(sent(&registry, &model), model.large().bytes.len() as u64, "no byte was sent twice");
}

#[test]
fn terminal_asks_before_a_refused_model_is_downloaded() {
    let home = home();
    let _daemon = home.serve();
    let registry = registry(Faults::default());
    let model = unknown(&registry, "m", 0);
    for (answer, downloads) in [("n\n", false), ("y\n", true)] {
        let mut terminal = Terminal::begin(&home, &["pull", &model.name, "--insecure"]);
        let question = terminal.wait_for("[y/N]");
        assert!(question.contains("architecture lorem"), "the reason precedes the question: {question}");
        terminal.type_in(answer);
        assert_eq!(terminal.end().success(), downloads, "{answer:?}");
        assert_eq!(listed(&home).contains(&model.name), downloads, "{answer:?}");
    }
}

#[test]
fn beginning_survives_a_kill_of_the_daemon() {
    let home = home();
    let registry = registry(Faults { bytes_per_second: Some(400_000), ..Faults::default() });
    let model = unknown(&registry, "m", 2_000_000);
    // Before the daemon starts, because opening locks files.
    let library = Library::new(home.folder.path().join("models"));
    let staging = Staging::open(&library, Arc::new(RealDisk)).expect("the library is writable");
    let mut daemon = home.serve();
    succeeded(&home.run(&["pull", &model.name, "--insecure", "--detach"]));
    until("some bytes are stored", || staging.durable_bytes(&model.large().digest) >= MIB / 2);
    assert!(kill(daemon.child.id(), "-KILL"), "the daemon runs");
    daemon.child.wait().expect("the process exits");
    registry.set_faults(Faults::default());
    let before = sent(&registry, &model);
    let output = home.run(&["pull", &model.name, "--insecure"]);
    assert!(text(&output.stderr).contains("architecture lorem"), "{}", text(&output.stderr));
    let again = sent(&registry, &model) - before;
    // The beginning has 4 MiB, of which some are stored.
    assert!(again < 4 * MIB, "{again} bytes were sent after the kill");
}
