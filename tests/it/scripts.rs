//! What scripts rely on: exit codes, closed pipes, a daemon that is gone when the command that ended it returns.

use std::io::Read;
use std::process::Stdio;
use std::time::{Duration, Instant};

use crate::cairn::{Home, kill, text};

#[test]
fn a_reader_that_leaves_is_no_error() {
    let home = Home::new();
    let _daemon = home.serve();
    for words in [&["list"][..], &["ps"], &["show", "pebble", "-v"], &["--version"], &["run", "pebble", "Hi"], &[]] {
        let mut child =
            home.command(words).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("cairn starts");
        drop(child.stdout.take());
        let output = child.wait_with_output().expect("cairn ends");
        assert!(output.status.success(), "{words:?}: {} {}", output.status, text(&output.stderr));
    }
}

#[test]
fn an_empty_prompt_loads_and_says_nothing() {
    let home = Home::new();
    let daemon = home.serve();
    let loaded = || daemon.get("/api/ps").expect("the daemon answers").contains("pebble");
    for words in [&["run", "pebble", ""][..], &["run", "pebble", "--force", ""]] {
        let output = home.run(words);
        assert!(output.status.success() && output.stdout.is_empty(), "{words:?}: {}", text(&output.stderr));
        assert!(loaded(), "{words:?} leaves the model in memory");
        let output = home.run(&["run", "pebble", "", "--keepalive", "0"]);
        assert!(output.status.success() && !loaded(), "nothing is to be kept: {}", text(&output.stderr));
    }
}

#[test]
fn a_stopped_daemon_is_gone() {
    let home = Home::new();
    for _ in 0..3 {
        let _daemon = home.serve();
        let output = home.run(&["stop", "--daemon"]);
        assert!(output.status.success(), "{}", text(&output.stderr));
    }
}

#[test]
fn a_relative_home_is_one_folder_for_all() {
    let home = Home::new();
    for words in [&["list"][..], &["stop", "--daemon"]] {
        let mut command = home.command(words);
        let output = command.current_dir(home.folder.path()).env("CAIRN_HOME", "here").output().expect("cairn starts");
        assert!(output.status.success(), "{words:?}: {}", text(&output.stderr));
    }
    assert!(home.folder.path().join("here/state/logs").is_dir(), "the daemon, in another folder, keeps its log there");
}

#[test]
fn ctrl_c_ends_a_question_and_its_answer() {
    let home = Home::new();
    let path = home.folder.path().join("slow.gguf");
    cairn_testkit::write_file(&cairn_testkit::slow_llama(), &path).expect("the home is writable");
    let daemon = home.serve();
    let words = ["run", "--nowordwrap", &path.to_string_lossy(), "hello"];
    let mut child = home.command(&words).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("cairn starts");
    child.stdout.as_mut().expect("it is piped").read_exact(&mut [0]).expect("the answer begins");
    assert!(kill(child.id(), "-INT"), "it is still answering");
    let output = child.wait_with_output().expect("cairn ends");
    assert_eq!(output.status.code(), Some(1), "an answer that was cut short is no success");
    assert_eq!(text(&output.stderr), "Error: interrupted\n", "it says why");
    let since = Instant::now();
    // With nothing to keep, the model leaves memory as soon as nobody computes with it.
    assert!(home.run(&["run", &path.to_string_lossy(), "", "--keepalive", "0"]).status.success(), "it unloads");
    while daemon.get("/api/ps").is_some_and(|ps| ps.contains("slow")) {
        assert!(since.elapsed() < Duration::from_secs(10), "the answer goes on without its client");
        std::thread::sleep(Duration::from_millis(20));
    }
}
