//! Remotes as real processes: daemons that serve the models of another `cairn`, which is killed at different times.

mod llama_server;

use std::io::{BufRead, BufReader, Write};
use std::process::Stdio;

use cairn_testkit::ModelSpec;
use serde_json::{Value, json};

use crate::cairn::{Home, kill, refused, succeeded, text};

/// Imports a model into the home of a running daemon.
fn import(home: &Home, model: &ModelSpec, name: &str) {
    let file = home.folder.path().join("model.gguf");
    cairn_testkit::write_file(model, &file).expect("the home is writable");
    succeeded(&home.run(&["import", &file.to_string_lossy(), name]));
}

fn url(home: &Home) -> String {
    format!("http://127.0.0.1:{}", home.port)
}

fn chat(model: &str, tokens: u32) -> Value {
    json!({"model": model, "messages": [{"role": "user", "content": "hello"}],
        "options": {"temperature": 0, "seed": 1, "num_predict": tokens}})
}

/// The text of the lines of an answer.
fn answer(reply: &str) -> String {
    let lines = reply.lines().map(|line| serde_json::from_str::<Value>(line).unwrap_or_else(|_| panic!("{line}")));
    lines.filter_map(|line| line["message"]["content"].as_str().map(str::to_owned)).collect()
}

#[test]
fn daemon_serves_the_models_of_another_daemon() {
    let owner = Home::new();
    let owning = owner.serve();
    import(&owner, &cairn_testkit::tiny_llama(), "mine");
    let user = Home::new();
    let serving = user.serve();
    let added = succeeded(&user.run(&["remote", "add", "nas", &url(&owner)]));
    assert!(added.contains("nas") && added.contains("cairn") && added.contains("mine:latest"), "{added}");
    let listed = succeeded(&user.run(&["list"]));
    assert!(listed.contains("mine:latest") && listed.contains("at nas"), "{listed}");
    let expected = owning.post("/api/chat", &chat("mine", 8)).expect("an answer");
    let reply = serving.post("/api/chat", &chat("mine", 8)).expect("an answer");
    assert_eq!(answer(&reply), answer(&expected), "the same answer");
    assert!(reply.lines().count() > 3 && reply.contains("\"eval_count\":8"), "streamed, with usage: {reply}");
    let completion = json!({"model": "mine", "max_tokens": 3, "messages": [{"role": "user", "content": "hello"}]});
    for path in ["/v1/chat/completions", "/v1/messages"] {
        let reply = serving.post(path, &completion).expect("an answer");
        assert!(reply.contains("_tokens\":3"), "{path}: {reply}");
    }
    succeeded(&user.run(&["run", "mine", "hello"]));
    succeeded(&user.run(&["show", "mine"]));
    assert!(
        !owner.run(&["list"]).stdout.is_empty() && !text(&owner.run(&["list"]).stdout).contains("at nas"),
        "no loop"
    );

    drop(owning);
    refused(&user.run(&["remote", "check"]), "not available: nas");
    let reply = serving.post("/api/chat", &chat("mine", 1)).expect("a reply");
    assert!(reply.contains("remote_unavailable") && !reply.contains(&owner.port.to_string()), "{reply}");
    let _restarted = owner.serve();
    succeeded(&user.run(&["remote", "check", "nas"]));
    let reply = serving.post("/api/chat", &chat("mine", 1)).expect("an answer");
    assert!(reply.contains("\"done\":true"), "{reply}");
    succeeded(&user.run(&["remote", "remove", "nas"]));
    assert!(!succeeded(&user.run(&["list"])).contains("mine"), "removed");
}

#[test]
fn daemon_refuses_itself_as_a_remote() {
    let home = Home::new();
    let _serving = home.serve();
    for url in [url(&home), format!("localhost:{}", home.port)] {
        refused(&home.run(&["remote", "add", "me", &url]), "it is this daemon");
    }
    let listed = succeeded(&home.run(&["remote", "list", "--json"]));
    assert!(!listed.contains("localhost") && !listed.contains("127.0.0.1"), "none was added: {listed}");
}

#[test]
fn killed_daemon_is_replaced_before_the_first_token_and_named_after_it() {
    let (first, second) = (Home::new(), Home::new());
    let (mut dying, _living) = (first.serve(), second.serve());
    for home in [&first, &second] {
        import(home, &cairn_testkit::slow_llama(), "mine");
    }
    let user = Home::new();
    let serving = user.serve();
    succeeded(&user.run(&["remote", "add", "a", &url(&first)]));
    succeeded(&user.run(&["remote", "add", "b", &url(&second)]));

    let mut stream = BufReader::new(serving.post_streaming("/api/chat", &chat("mine", 100_000)));
    let mut line = String::new();
    while !line.contains("\"content\"") {
        line.clear();
        assert!(stream.read_line(&mut line).expect("a line") > 0, "the answer begins");
    }
    // Of two servers without open requests, the first of the list gets the first request.
    kill(dying.child.id(), "-KILL");
    let rest: String = stream.lines().map_while(Result::ok).collect();
    assert!(rest.contains("remote_interrupted") && rest.contains("\\\"a\\\""), "the rest names the remote: {rest}");

    let reply = serving.post("/api/chat", &chat("mine", 2)).expect("an answer");
    assert!(reply.contains("\"done\":true"), "the other server answers: {reply}");
    let _ = dying.child.wait();
}

#[test]
fn key_of_a_remote_is_read_from_standard_input_and_never_shown() {
    let owner = Home::new();
    let _owning = owner.serve();
    import(&owner, &cairn_testkit::tiny_llama(), "mine");
    let user = Home::new();
    let serving = user.serve();
    let mut child = user
        .command(&["remote", "add", "nas", &url(&owner), "--key"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("cairn starts");
    child.stdin.take().expect("the stream is piped").write_all(b"sk-secret\n").expect("cairn reads its input");
    let added = child.wait_with_output().expect("cairn ends");
    assert!(added.status.success(), "{}", text(&added.stderr));
    let shown = format!("{}{}", text(&added.stdout), succeeded(&user.run(&["remote", "list", "--json"])));
    assert!(shown.contains("\"has_key\":true") && !shown.contains("secret"), "{shown}");
    assert!(shown.contains("\"latency_ms\":"), "{shown}");
    assert!(!serving.log().contains("secret"), "{}", serving.log());
}
