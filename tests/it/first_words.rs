//! First steps of a new user: Pebble answers, the lists show it, and bad files are refused with a reason.

use std::path::Path;

use crate::cairn::{Home, succeeded, text};

#[test]
fn pebble_names_the_pull_command() {
    let home = Home::new();
    let answer = succeeded(&home.run(&["run", "pebble", "How do I pull a model?"]));
    assert!(answer.contains("cairn pull"), "Pebble should name the command: {answer}");
}

#[test]
fn piped_input_becomes_the_prompt() {
    let home = Home::new();
    let answer = succeeded(&home.run_with_input(&["run", "pebble"], "How do I list my models?"));
    assert!(answer.contains("cairn list"), "Pebble should name the command: {answer}");
}

#[test]
fn verbose_flag_reports_token_counts() {
    let home = Home::new();
    let output = home.run(&["run", "pebble", "--verbose", "Hello"]);
    succeeded(&output);
    let stderr = text(&output.stderr);
    for label in ["total duration", "prompt eval count", "prompt eval rate", "eval count", "eval rate"] {
        assert!(stderr.contains(label), "{label} is missing from {stderr}");
    }
}

#[test]
fn list_commands_show_stored_and_loaded_models() {
    let home = Home::new();
    let list = succeeded(&home.run(&["list"]));
    assert!(list.starts_with("NAME") && list.contains("pebble:latest"), "{list}");
    succeeded(&home.run(&["run", "pebble", "Hi"]));
    let running = succeeded(&home.run(&["ps"]));
    assert!(running.contains("pebble:latest") && running.contains("100% CPU"), "{running}");
    assert!(succeeded(&home.run(&["show", "pebble"])).contains("llama"), "show names the architecture");
    succeeded(&home.run(&["stop", "pebble"]));
    assert!(!succeeded(&home.run(&["ps"])).contains("pebble"), "stop unloads");
}

/// Runs a file that is not a usable model and checks the error.
fn refused(home: &Home, file: &Path, expected: &[&str]) {
    let output = home.run(&["run", &file.to_string_lossy(), "hello"]);
    let stderr = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{} must fail with exit code 1: {stderr}", file.display());
    assert!(!stderr.contains("panicked"), "{stderr}");
    for words in expected {
        assert!(stderr.contains(words), "{words:?} is missing from {stderr:?}");
    }
}

#[test]
fn bad_files_are_refused_with_a_reason() {
    let home = Home::new();
    let folder = home.folder.path();
    let put = |name: &str, bytes: &[u8]| {
        let path = folder.join(name);
        std::fs::write(&path, bytes).expect("the home is writable");
        path
    };
    let good = cairn_testkit::write(&cairn_testkit::tiny_llama());
    refused(&home, &put("cut.gguf", &good[..good.len() - 1000]), &["cut.gguf"]);
    refused(&home, &put("head.gguf", &good[..20]), &["head.gguf"]);
    refused(&home, &put("notes.gguf", b"These are my notes."), &["GGUF"]);
    std::fs::create_dir(folder.join("folder.gguf")).expect("the home is writable");
    refused(&home, &folder.join("folder.gguf"), &["directory"]);
    refused(&home, &folder.join("absent.gguf"), &["absent.gguf"]);

    let replace = |from: &[u8], to: &[u8]| {
        let at = good.windows(from.len()).position(|window| window == from).expect("the bytes are in the file");
        let mut bytes = good.clone();
        bytes[at..at + to.len()].copy_from_slice(to);
        bytes
    };
    let architecture = replace(
        b"general.architecture\x08\0\0\0\x05\0\0\0\0\0\0\0llama",
        b"general.architecture\x08\0\0\0\x05\0\0\0\0\0\0\0lorem",
    );
    refused(&home, &put("arch.gguf", &architecture), &["lorem", "llama"]);
    // A row of the tensor table: name, number of dimensions, dimensions, type, offset.
    let name = b"output_norm.weight";
    let at =
        good.windows(name.len()).position(|window| window == name).expect("every model has this tensor") + name.len();
    let mut unknown = good.clone();
    unknown[at + 4 + 8..at + 4 + 8 + 4].copy_from_slice(&999u32.to_le_bytes());
    refused(&home, &put("type.gguf", &unknown), &["999", "output_norm.weight"]);
}

#[test]
fn split_model_runs_from_any_part() {
    let home = Home::new();
    let path = |number: usize| home.folder.path().join(format!("m-{number:05}-of-00003.gguf"));
    for (number, part) in (1..).zip(cairn_testkit::split(&cairn_testkit::write(&cairn_testkit::tiny_llama()), 3)) {
        std::fs::write(path(number), part).expect("the home is writable");
    }
    for number in [1, 3] {
        succeeded(&home.run(&["run", &path(number).to_string_lossy(), ""]));
    }
    let described = succeeded(&home.run(&["gguf", &path(2).to_string_lossy()]));
    let facts = ["\"llama\"", "output_norm.weight", "of part 1", "of part 3"];
    assert!(facts.iter().all(|fact| described.contains(fact)), "all parts are described: {described}");
    let verified = succeeded(&home.run(&["gguf", "verify", &path(3).to_string_lossy()]));
    assert!(verified.contains("every number is finite"), "all parts are verified: {verified}");
    std::fs::remove_file(path(1)).expect("the folder is writable");
    refused(&home, &path(2), &["3 files", "m-00001-of-00003.gguf"]);
}

#[test]
fn model_larger_than_memory_is_refused_unless_forced() {
    let home = Home::new();
    let memory = cairn_hardware::Machine::probe().memory;
    let bytes = memory.limit_bytes.unwrap_or(u64::MAX).min(memory.total_bytes) * 3 / 2;
    let path = home.folder.path().join("huge.gguf");
    cairn_testkit::write_sparse(&cairn_testkit::huge_llama(bytes), &path).expect("sparse files need no disk space");
    refused(&home, &path, &["GiB", "--force"]);
    let loaded = home.run(&["run", &path.to_string_lossy(), "--force", ""]);
    assert!(loaded.status.success(), "forced: {}", text(&loaded.stderr));
}
