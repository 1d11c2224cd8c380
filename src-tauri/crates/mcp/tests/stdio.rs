//! Servers that are programs: the usual one, and those that flood, hang, die or lie.
//!
//! `examples/fake_server.rs` is the program. Cargo builds it with these tests.
#![cfg(unix)]

#[path = "support/timeouts.rs"]
mod timeouts;

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use cairn_mcp::limits::{MAX_RESULT_TEXT_BYTES, MAX_STDERR_LINE_BYTES, MAX_TOOLS, Timeouts};
use cairn_mcp::{Endpoint, Error, Excess, Launch, Omission, Server, ServerConfig, Surroundings, Task, ToolResult};
use rustix::process::{Pid, test_kill_process};
use serde_json::{Map, Value, json};
use timeouts::{IMPATIENT, PATIENT};

fn fake_server() -> String {
    let test = std::env::current_exe().expect("this program has a path");
    let folder = test.ancestors().nth(2).expect("target/PROFILE/deps/TEST");
    let path = folder.join("examples/fake_server");
    assert!(path.is_file(), "{} is missing; run all tests of the package, or build its examples", path.display());
    path.to_str().expect("the path is UTF-8").to_owned()
}

fn launch(timeouts: Timeouts) -> Launch {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let environment =
        ["PATH", "HOME", "CAIRN_API_KEY"].map(|name| (OsString::from(name), OsString::from("/usr/bin:/bin")));
    Launch {
        surroundings: Surroundings { environment: environment.into(), folder: Some(PathBuf::from("/")) },
        http: reqwest::Client::builder().no_proxy().build().expect("a client without settings"),
        client: ("cairn".to_owned(), "1".to_owned()),
        timeouts,
    }
}

fn server_with(mode: &str, timeouts: Timeouts) -> Server {
    let env = [("KEY".to_owned(), "x".to_owned())].into();
    let endpoint = Endpoint::Stdio { command: fake_server(), args: vec![mode.to_owned()], env };
    Server::new(ServerConfig { name: "fake".to_owned(), endpoint }, launch(timeouts))
}

fn server(mode: &str) -> Server {
    server_with(mode, PATIENT)
}

fn arguments(value: Value) -> Map<String, Value> {
    value.as_object().expect("an object").clone()
}

async fn call(server: &Server, tool: &str) -> Result<ToolResult, Error> {
    server.call(tool, arguments(json!({ "path": "a" }))).await
}

fn is_alive(pid: &str) -> bool {
    Pid::from_raw(pid.trim().parse().expect("a number")).is_some_and(|pid| test_kill_process(pid).is_ok())
}

/// Waits until a process ended. Orphans are reaped by the system's first process.
async fn wait_for_end(pid: &str) {
    let is_zombie =
        |pid: &str| std::fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|stat| stat.contains(") Z "));
    let ended = tokio::time::timeout(Duration::from_secs(30), async {
        while is_alive(pid) && !is_zombie(pid) {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    });
    ended.await.expect("the process ends");
}

#[tokio::test]
async fn tools_are_listed_and_called() {
    let server = server("normal");
    assert!(!server.is_running(), "a server starts with its first request");
    let list = server.tools().await.unwrap();
    let names: Vec<&str> = list.tools.iter().map(|tool| &*tool.name).collect();
    assert_eq!((names, list.omitted_count), (vec!["echo", "fail", "env"], 0));
    assert_eq!(list.tools[0].description, "Tool echo");
    assert!(server.is_running());
    let echoed = call(&server, "echo").await.unwrap();
    assert_eq!(echoed, ToolResult { text: r#"{"path":"a"}"#.to_owned(), ..ToolResult::default() });
    let failed = call(&server, "fail").await.unwrap();
    assert!(failed.is_error && failed.text == "no such file", "{failed:?}");
    let refused = call(&server, "missing").await.unwrap_err();
    assert!(
        matches!(&refused, Error::Refused { task: Task::Call, message, .. } if message == "unknown tool"),
        "{refused}"
    );
    let large = call(&server, "large").await.unwrap();
    assert!(large.is_truncated && large.text.len() < MAX_RESULT_TEXT_BYTES + 200);
}

#[tokio::test]
async fn program_inherits_only_harmless_variables() {
    let names = call(&server("normal"), "env").await.unwrap().text;
    let mut names: Vec<&str> = names.split(' ').collect();
    names.sort_unstable();
    assert_eq!(names, ["HOME", "KEY", "PATH"]);
}

#[tokio::test]
async fn missing_program_is_an_error_with_its_name() {
    let endpoint = Endpoint::Stdio { command: "/no/such/program".to_owned(), args: Vec::new(), env: [].into() };
    let server = Server::new(ServerConfig { name: "fake".to_owned(), endpoint }, launch(PATIENT));
    let error = server.tools().await.unwrap_err();
    assert!(matches!(&error, Error::Start { command, .. } if command == "/no/such/program"), "{error}");
}

#[tokio::test]
async fn program_that_ends_is_an_error_with_its_last_output() {
    for (mode, task, line) in
        [("die-start", Task::Start, "cannot read the configuration"), ("die", Task::Call, "secret file not found")]
    {
        let error = call(&server(mode), "echo").await.unwrap_err();
        let Error::Ended { task: during, how, stderr, .. } = &error else { panic!("{mode}: {error}") };
        assert_eq!((*during, stderr.0.as_slice()), (task, [line.to_owned()].as_slice()), "{mode}");
        assert!(how.contains("exit status"), "{mode}: {how}");
    }
}

#[tokio::test]
async fn server_that_died_is_started_again() {
    let server = server("die");
    assert!(server.tools().await.is_ok());
    assert!(matches!(call(&server, "echo").await, Err(Error::Ended { .. })));
    assert!(!server.is_running());
    assert_eq!(server.tools().await.unwrap().tools.len(), 3);
}

#[tokio::test]
async fn server_that_hangs_is_stopped_after_the_timeout() {
    let server = server_with("hang", Timeouts { call: IMPATIENT, ..PATIENT });
    let error = call(&server, "echo").await.unwrap_err();
    assert!(matches!(error, Error::Timeout { task: Task::Call, after: IMPATIENT, .. }), "{error}");
    assert!(!server.is_running());
    let error = server_with("hang-start", Timeouts { connect: IMPATIENT, ..PATIENT }).tools().await.unwrap_err();
    assert!(matches!(error, Error::Timeout { task: Task::Start, .. }), "{error}");
    let error =
        server_with("wrong-ids", Timeouts { call: IMPATIENT, ..PATIENT }).call("echo", Map::new()).await.unwrap_err();
    assert!(matches!(error, Error::Timeout { task: Task::Call, .. }), "a response to another request is none: {error}");
}

#[tokio::test]
async fn flood_ends_the_server() {
    for (mode, expected) in
        [("flood", Excess::Messages), ("flood-requests", Excess::Messages), ("flood-line", Excess::Message)]
    {
        let server = server(mode);
        let error = call(&server, "echo").await.unwrap_err();
        assert!(matches!(error, Error::Flood { excess, .. } if excess == expected), "{mode}: {error}");
        assert!(!server.is_running(), "{mode}");
    }
    let error = server("million-tools").tools().await.unwrap_err();
    assert!(matches!(error, Error::Flood { excess: Excess::Message, .. }), "{error}");
}

#[tokio::test]
async fn lists_of_tools_have_limits() {
    let many = server("many-tools").tools().await.unwrap();
    assert_eq!((many.tools.len(), many.omitted_count), (MAX_TOOLS, 5000 - MAX_TOOLS));
    for (mode, reason) in [("huge-schema", Omission::SchemaBytes), ("deep-schema", Omission::SchemaDepth)] {
        let list = server(mode).tools().await.unwrap();
        let names: Vec<&str> = list.tools.iter().map(|tool| &*tool.name).collect();
        assert_eq!((names, list.omitted[0].reason), (vec!["echo"], reason), "{mode}");
    }
    let pages = server("pages").tools().await.unwrap();
    assert_eq!(pages.tools.len(), 1, "pages without end");
}

#[tokio::test]
async fn invalid_responses_are_errors() {
    let error = server("wrong-types").tools().await.unwrap_err();
    assert!(matches!(error, Error::Failed { task: Task::List, .. }), "{error}");
    let error = call(&server("wrong-result"), "echo").await.unwrap_err();
    assert!(matches!(error, Error::Failed { task: Task::Call, .. }), "{error}");
}

#[tokio::test]
async fn other_output_and_requests_do_not_disturb_a_call() {
    for mode in ["garbage", "requests", "twice", "not-a-server"] {
        let server = server(mode);
        for _ in 0..2 {
            let result = call(&server, "echo").await;
            assert_eq!(result.map(|result| result.text), Ok(r#"{"path":"a"}"#.to_owned()), "{mode}");
        }
    }
}

#[tokio::test]
async fn endless_standard_error_is_read_and_bounded() {
    let server = server_with("stderr", PATIENT);
    assert_eq!(call(&server, "echo").await.unwrap().text, r#"{"path":"a"}"#);
    let error = call(&server_with("stderr", Timeouts { call: IMPATIENT, ..PATIENT }), "hang").await.unwrap_err();
    let Error::Timeout { stderr, .. } = error else { panic!("{error}") };
    assert!(stderr.0.iter().all(|line| line.len() <= MAX_STDERR_LINE_BYTES), "{stderr:?}");
}

#[tokio::test]
async fn programs_of_a_server_end_with_it() {
    let error = call(&server_with("child", Timeouts { call: IMPATIENT, ..PATIENT }), "hang").await.unwrap_err();
    let Error::Timeout { stderr, .. } = error else { panic!("{error}") };
    let child = stderr.0[0].trim_start_matches("child ").to_owned();
    wait_for_end(&child).await;
}

#[tokio::test]
async fn dropped_and_idle_servers_end() {
    let server = server("normal");
    let pid = call(&server, "pid").await.unwrap().text;
    assert!(is_alive(&pid));
    drop(server);
    wait_for_end(&pid).await;

    let server = server_with("normal", Timeouts { idle: IMPATIENT, ..PATIENT });
    let pid = call(&server, "pid").await.unwrap().text;
    wait_for_end(&pid).await;
    assert!(!server.is_running());
    assert_eq!(call(&server, "echo").await.unwrap().text, r#"{"path":"a"}"#, "the next request starts it again");
}
