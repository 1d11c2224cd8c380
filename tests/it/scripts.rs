//! Behaviour that scripts depend on: exit codes, closed pipes, and `stop --daemon` returning after the daemon ended.

use std::io::Read;
use std::process::Stdio;
use std::time::{Duration, Instant};

use crate::cairn::{Home, kill, text};

#[test]
fn closed_stdout_is_not_an_error() {
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
fn empty_prompt_loads_the_model_silently() {
    let home = Home::new();
    let daemon = home.serve();
    let loaded = || daemon.get("/api/ps").expect("the daemon answers").contains("pebble");
    for words in [&["run", "pebble", ""][..], &["run", "pebble", "--force", ""]] {
        let output = home.run(words);
        assert!(output.status.success() && output.stdout.is_empty(), "{words:?}: {}", text(&output.stderr));
        assert!(loaded(), "{words:?} leaves the model in memory");
        let output = home.run(&["run", "pebble", "", "--keepalive", "0"]);
        assert!(output.status.success() && !loaded(), "keepalive 0 unloads the model: {}", text(&output.stderr));
    }
}

#[test]
fn stop_command_waits_until_daemon_has_exited() {
    let home = Home::new();
    for _ in 0..3 {
        let _daemon = home.serve();
        let output = home.run(&["stop", "--daemon"]);
        assert!(output.status.success(), "{}", text(&output.stderr));
    }
}

#[test]
fn relative_home_resolves_to_one_folder() {
    let home = Home::new();
    for words in [&["list"][..], &["stop", "--daemon"]] {
        let mut command = home.command(words);
        let output = command.current_dir(home.folder.path()).env("CAIRN_HOME", "here").output().expect("cairn starts");
        assert!(output.status.success(), "{words:?}: {}", text(&output.stderr));
    }
    assert!(
        home.folder.path().join("here/state/logs").is_dir(),
        "the daemon, in another working directory, uses the same home"
    );
}

#[test]
fn ctrl_c_cancels_the_running_answer() {
    let home = Home::new();
    let path = home.folder.path().join("slow.gguf");
    cairn_testkit::write_file(&cairn_testkit::slow_llama(), &path).expect("the home is writable");
    let daemon = home.serve();
    let words = ["run", "--nowordwrap", &path.to_string_lossy(), "hello"];
    let mut child = home.command(&words).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("cairn starts");
    child.stdout.as_mut().expect("the stream is piped").read_exact(&mut [0]).expect("the answer starts");
    assert!(kill(child.id(), "-INT"), "the daemon runs");
    let output = child.wait_with_output().expect("cairn ends");
    assert_eq!(output.status.code(), Some(1), "an interrupted answer is an error");
    assert_eq!(text(&output.stderr), "Error: interrupted\n", "the reason");
    let since = Instant::now();
    // With keepalive 0, the model unloads when its last sequence ends.
    assert!(
        home.run(&["run", &path.to_string_lossy(), "", "--keepalive", "0"]).status.success(),
        "the command succeeds"
    );
    while daemon.get("/api/ps").is_some_and(|ps| ps.contains("slow")) {
        assert!(since.elapsed() < Duration::from_secs(10), "timeout: the answer continues without its client");
        std::thread::sleep(Duration::from_millis(20));
    }
}
