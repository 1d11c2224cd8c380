//! Tests of `/app/chats` and `/app/presets` with the small random model.

use serde_json::{Value, json};

use super::*;

/// Daemon with one chat.
struct Fixture {
    daemon: Daemon,
    chat: String,
}

impl Fixture {
    async fn new() -> Self {
        let daemon = Daemon::with(&[("CAIRN_CHAT_TITLES", "0")]);
        let mut fixture = Self { daemon, chat: String::new() };
        let chat = json!({"model": "m", "options": {"temperature": 0, "num_predict": 3}});
        let created = fixture.request("POST", "/app/chats", &chat, 201).await;
        fixture.chat = created["id"].as_str().unwrap().to_owned();
        fixture
    }

    async fn text(&self, method: &str, path: &str, body: &Value, status: u16) -> String {
        let body = if body.is_null() { String::new() } else { body.to_string() };
        let reply = self.daemon.authorized(method, path, &body).await;
        let (head, text) = reply.split_once('\n').unwrap();
        assert!(head.starts_with(&status.to_string()), "{method} {path}: {reply}");
        text.to_owned()
    }

    async fn request(&self, method: &str, path: &str, body: &Value, status: u16) -> Value {
        let text = self.text(method, path, body, status).await;
        if text.is_empty() { Value::Null } else { serde_json::from_str(&text).unwrap() }
    }

    /// Sends a request to a path of the chat.
    async fn chat_request(&self, method: &str, path: &str, body: &Value, status: u16) -> Value {
        self.request(method, &format!("/app/chats/{}{path}", self.chat), body, status).await
    }

    /// Sends a request to a path of the chat and returns the lines of the response.
    async fn lines(&self, path: &str, body: Value) -> Vec<Value> {
        let text = self.text("POST", &format!("/app/chats/{}/{path}", self.chat), &body, 200).await;
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    async fn send(&self, content: &str) -> Vec<Value> {
        self.lines("messages", json!({"content": content})).await
    }

    async fn path(&self) -> Vec<Value> {
        self.chat_request("GET", "/messages", &Value::Null, 200).await["messages"].as_array().unwrap().clone()
    }
}

fn id(message: &Value) -> &str {
    message["id"].as_str().unwrap()
}

#[tokio::test]
async fn answer_streams_and_is_stored() {
    let fixture = Fixture::new().await;
    let lines = fixture.send("hi").await;
    let streamed: String = lines.iter().filter_map(|line| line["text"].as_str()).collect();
    assert_eq!(lines[0]["user"]["content"], "hi", "the user message: {lines:?}");
    assert_eq!(lines[1]["answer"]["state"], "answering", "the empty answer: {lines:?}");
    let done = &lines.last().unwrap()["done"];
    assert_eq!(done["content"], streamed.as_str(), "the streamed text");
    assert_eq!((&done["state"], &done["model"]), (&json!("complete"), &json!("m")), "{done}");
    assert_eq!(done["usage"]["answer_tokens"], 3, "the usage: {done}");
    assert_eq!(done["usage"]["length_reached"], true, "the finish reason: {done}");

    let second = fixture.send("and now?").await;
    let usage = &second.last().unwrap()["done"]["usage"];
    assert!(usage["cached_tokens"].as_u64() > Some(10), "the first turn is cached: {usage}");
    let path = fixture.path().await;
    assert_eq!(path.len(), 4, "{path:?}");
    assert_eq!(path[2]["parent"], path[1]["id"], "each message has the previous one as parent");

    let list = fixture.request("GET", "/app/chats", &Value::Null, 200).await;
    let summary = &list["chats"][0];
    assert_eq!((&summary["title"], &summary["message_count"]), (&json!("hi"), &json!(4)), "{summary}");
    assert_eq!((&summary["warmth"], &summary["answering"]), (&json!("hot"), &json!(false)), "{summary}");
}

#[tokio::test]
async fn regenerated_answers_and_edited_messages_are_versions() {
    let fixture = Fixture::new().await;
    fixture.send("one").await;
    let path = fixture.path().await;
    let (user, first) = (id(&path[0]).to_owned(), id(&path[1]).to_owned());
    let second = fixture.lines("answer", json!({"message": user, "options": {"temperature": 2, "seed": 5}})).await;
    let second = &second.last().unwrap()["done"];
    assert_eq!(second["versions"], json!([first, id(second)]), "the new answer is a sibling: {second}");
    let path = fixture.path().await;
    assert_eq!(id(&path[1]), id(second), "the new answer is shown");
    let shown = fixture.chat_request("PUT", "/head", &json!({"message": first}), 200).await;
    assert_eq!(shown["head"], first.as_str(), "the selected answer is shown: {shown}");

    fixture.lines("messages", json!({"content": "uno", "parent": null})).await;
    let path = fixture.path().await;
    assert_eq!(
        (path.len(), &path[0]["content"]),
        (2, &json!("uno")),
        "an edited message starts a new branch: {path:?}"
    );
    assert_eq!(path[0]["versions"].as_array().unwrap().len(), 2, "both versions are listed: {path:?}");

    let answer = id(&path[1]).to_owned();
    let continued = fixture.lines("answer", json!({"continue": answer})).await;
    let start = continued[0]["answer"]["content"].as_str().unwrap().to_owned();
    let whole = continued.last().unwrap()["done"]["content"].as_str().unwrap();
    assert!(whole.starts_with(&start) && whole.len() > start.len(), "the answer is longer: {continued:?}");
    let first_page = fixture.chat_request("GET", "/messages?limit=1", &Value::Null, 200).await;
    assert_eq!((&first_page["total"], &first_page["before"]), (&json!(2), &json!(1)), "{first_page}");
}

#[tokio::test]
async fn call_that_does_not_wait_is_not_found() {
    let fixture = Fixture::new().await;
    for decision in ["once", "always", "refuse", "never"] {
        let error = fixture.chat_request("POST", "/calls/call_1", &json!({"decision": decision}), 404).await;
        let found = (&error["code"], &error["params"]["call"]);
        assert_eq!(found, (&json!("tool_call_not_found"), &json!("call_1")), "{decision}: {error}");
    }
    fixture.chat_request("POST", "/calls/call_1", &json!({"decision": "maybe"}), 400).await;
}

#[tokio::test]
async fn edited_answer_is_a_marked_version() {
    let fixture = Fixture::new().await;
    fixture.send("one").await;
    let path = fixture.path().await;
    let (user, answer) = (id(&path[0]).to_owned(), id(&path[1]).to_owned());
    let chat = fixture.chat_request("POST", "/edit", &json!({"message": answer, "content": "Mine."}), 200).await;
    let path = fixture.path().await;
    assert_eq!(chat["head"], path[1]["id"], "the edited version is shown: {chat}");
    assert_eq!((&path[1]["content"], &path[1]["edited"]), (&json!("Mine."), &json!(true)), "{path:?}");
    assert_eq!(
        (&path[1]["model"], &path[1]["usage"]),
        (&json!("m"), &Value::Null),
        "no usage of another text: {path:?}"
    );
    let next = fixture.send("two").await;
    assert_eq!(next[0]["user"]["parent"], path[1]["id"], "the chat continues with the edited answer: {next:?}");
    fixture.chat_request("POST", "/edit", &json!({"message": answer, "content": " "}), 400).await;
    fixture.chat_request("POST", "/edit", &json!({"message": user, "content": "x"}), 400).await;
    fixture.chat_request("POST", "/edit", &json!({"message": "99", "content": "x"}), 404).await;
}

#[tokio::test]
async fn deleted_messages_can_be_restored() {
    let fixture = Fixture::new().await;
    fixture.send("one").await;
    fixture.send("two").await;
    let before = fixture.path().await;
    let deleted = fixture.chat_request("DELETE", &format!("/messages/{}", id(&before[1])), &Value::Null, 200).await;
    assert_eq!(deleted["messages"].as_array().unwrap().len(), 3, "the answer and all that follow: {deleted}");
    assert_eq!(fixture.path().await.len(), 1, "the question is left");
    let chat = fixture.chat_request("POST", "/messages/restore", &deleted, 200).await;
    assert_eq!(chat["message_count"], 4, "{chat}");
    let contents = |path: &[Value]| path.iter().map(|message| message["content"].clone()).collect::<Vec<_>>();
    assert_eq!(contents(&fixture.path().await), contents(&before), "the chat is as before");
    fixture.chat_request("DELETE", "/messages/99", &Value::Null, 404).await;
    let orphan = json!({"messages": [deleted["messages"][1]]});
    fixture.chat_request("POST", "/messages/restore", &orphan, 404).await;
}

#[tokio::test]
async fn fork_has_the_messages_up_to_one() {
    let fixture = Fixture::new().await;
    fixture.send("one").await;
    fixture.send("two").await;
    let before = fixture.path().await;
    let fork = json!({"message": id(&before[1]), "title": "Other way"});
    let fork = fixture.chat_request("POST", "/fork", &fork, 201).await;
    assert_eq!((&fork["title"], &fork["message_count"]), (&json!("Other way"), &json!(2)), "{fork}");
    assert_eq!((&fork["model"], &fork["options"]["num_predict"]), (&json!("m"), &json!(3)), "the settings: {fork}");
    assert_ne!(fork["id"], fixture.chat.as_str(), "a new chat");
    assert_eq!(fixture.path().await, before, "the original is unchanged");
    let path = format!("/app/chats/{}/messages", fork["id"].as_str().unwrap());
    let copied = fixture.request("GET", &path, &Value::Null, 200).await;
    assert_eq!(copied["messages"][1]["content"], before[1]["content"], "{copied}");
    fixture.chat_request("POST", "/fork", &json!({"message": "99"}), 404).await;

    let temporary = fixture.request("POST", "/app/chats", &json!({"temporary": true, "model": "m"}), 201).await;
    let temporary = temporary["id"].as_str().unwrap();
    let body = json!({"content": "secret", "options": {"num_predict": 1}});
    fixture.text("POST", &format!("/app/chats/{temporary}/messages"), &body, 200).await;
    let messages = fixture.request("GET", &format!("/app/chats/{temporary}/messages"), &Value::Null, 200).await;
    let fork = json!({"message": messages["messages"][0]["id"]});
    let fork = fixture.request("POST", &format!("/app/chats/{temporary}/fork"), &fork, 201).await;
    assert!(fork["id"].as_str().unwrap().starts_with("t-"), "a copy of a temporary chat is temporary: {fork}");
}

#[tokio::test]
async fn second_model_answers_the_same_question() {
    let fixture = Fixture::new().await;
    fixture.daemon.store("other", &[("model", &cairn_testkit::write(&cairn_testkit::slow_llama()))]);
    let body = json!({"content": "hi", "compare": "other", "options": {"num_predict": 2}});
    let first = fixture.lines("messages", body).await;
    assert_eq!(first.last().unwrap()["done"]["model"], "m", "the stream ends with the first answer: {first:?}");
    let question = id(&first[0]["user"]).to_owned();
    // The second answer is in progress when the first one has ended.
    let follow = format!("/app/chats/{}/answer", fixture.chat);
    let second = fixture.text("GET", &follow, &Value::Null, 200).await;
    let second: Value = serde_json::from_str(second.lines().last().unwrap()).unwrap();
    let second = &second["done"];
    assert_eq!((&second["model"], &second["parent"]), (&json!("other"), &json!(question)), "{second}");
    assert_eq!(second["versions"].as_array().unwrap().len(), 2, "a sibling of the first: {second}");
    let chat = fixture.chat_request("GET", "", &Value::Null, 200).await;
    assert_eq!(chat["model"], "m", "the chat keeps its model: {chat}");
    let missing = json!({"content": "hi", "compare": "none"});
    fixture.chat_request("POST", "/messages", &missing, 404).await;
    assert_eq!(fixture.path().await.len(), 2, "nothing is stored if a model is missing");
}

#[tokio::test]
async fn answer_can_be_followed_and_stopped_by_another_client() {
    let fixture = Fixture::new().await;
    fixture.daemon.store("slow", &[("model", &cairn_testkit::write(&cairn_testkit::slow_llama()))]);
    let path = format!("/app/chats/{}/messages", fixture.chat);
    let send =
        json!({"content": "go", "model": "slow", "options": {"num_predict": 1_000_000, "temperature": 0}}).to_string();
    let request = Request::post(&path)
        .header(header::HOST, format!("127.0.0.1:{PORT}"))
        .header(header::AUTHORIZATION, format!("Bearer {TOKEN}"))
        .body(Body::from(send))
        .unwrap();
    // The client disconnects at once.
    drop(fixture.daemon.send(request).await);
    let busy = fixture.request("POST", &path, &json!({"content": "more"}), 409).await;
    assert!(busy["error"].as_str().unwrap().contains("in progress"), "a chat computes one answer at a time: {busy}");
    let follow = format!("/app/chats/{}/answer", fixture.chat);
    let stop = async {
        // Wait for the first stored text, which is written within a second.
        for _ in 0..400 {
            tokio::time::sleep(Duration::from_millis(25)).await;
            if fixture.path().await[1]["content"] != "" {
                break;
            }
        }
        fixture.chat_request("POST", "/stop", &Value::Null, 200).await
    };
    let (followed, stopped) = tokio::join!(fixture.text("GET", &follow, &Value::Null, 200), stop);
    assert_eq!(stopped["stopped"], true, "an answer was in progress");
    let lines: Vec<Value> = followed.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let before = lines[0]["answer"]["content"].as_str().unwrap();
    let streamed: String = lines.iter().filter_map(|line| line["text"].as_str()).collect();
    let done = &lines.last().unwrap()["done"];
    assert_eq!(
        done["content"],
        format!("{before}{streamed}"),
        "the stored text and the streamed text are the whole answer"
    );
    assert_eq!(done["state"], "stopped", "{done}");
    let count = |name: &str| done["usage"][name].as_u64().unwrap_or(0);
    assert!(count("prompt_tokens") > 0 && count("answer_tokens") > 0, "the usage until the stop: {done}");
    assert_eq!(fixture.path().await[1]["usage"], done["usage"], "the usage is stored");
    assert_eq!(
        fixture.chat_request("POST", "/stop", &Value::Null, 200).await["stopped"],
        false,
        "no answer is in progress"
    );
    fixture.chat_request("GET", "/answer", &Value::Null, 204).await;
    fixture.send("and now?").await;
    assert_eq!(fixture.path().await.len(), 4, "the chat accepts the next message at once");
}

#[tokio::test]
async fn failed_answer_is_stored_with_its_error() {
    let fixture = Fixture::new().await;
    let lines = fixture.lines("messages", json!({"content": "x", "options": {"num_ctx": "many"}})).await;
    let failed = &lines.last().unwrap()["failed"];
    assert!(failed["error"]["error"].as_str().unwrap().contains("num_ctx"), "{lines:?}");
    let stored = fixture.path().await;
    assert_eq!(
        (&stored[1]["state"], &stored[1]["error"]),
        (&json!("failed"), &failed["error"]),
        "the failed answer is stored: {stored:?}"
    );
    assert_eq!(stored[1]["error"]["code"], "option_invalid", "the interface can translate it: {stored:?}");
    assert_eq!(fixture.send("y").await.last().unwrap()["done"]["state"], "complete", "the chat continues");
}

#[tokio::test]
async fn chats_reject_invalid_requests() {
    let fixture = Fixture::new().await;
    let chat = format!("/app/chats/{}", fixture.chat);
    let check = async |method: &str, path: &str, body: Value, status: u16, part: &str| {
        let refused = fixture.request(method, path, &body, status).await;
        assert!(refused["error"].as_str().unwrap().contains(part), "{part:?}: {refused}");
    };
    check("GET", "/app/chats/none", Value::Null, 404, "there is no chat").await;
    check("GET", "/app/chats/none/answer", Value::Null, 404, "there is no chat").await;
    check("GET", "/app/chats?after=x", Value::Null, 400, "page").await;
    check("POST", &format!("{chat}/messages"), json!({"content": " "}), 400, "is empty").await;
    check("POST", &format!("{chat}/messages"), json!({"content": "x", "model": "no"}), 404, "'no' not found").await;
    check("POST", &format!("{chat}/messages"), json!({"content": "x", "parent": "77"}), 404, "no message").await;
    check("POST", &format!("{chat}/messages"), json!({"text": "x"}), 400, "text").await;
    check("POST", &format!("{chat}/answer"), json!({}), 400, "must have either").await;
    check("PUT", &format!("{chat}/head"), json!({"message": "q"}), 404, "no message").await;
    check("POST", "/app/chats", json!({"preset": "none"}), 404, "no preset").await;
    check("POST", "/app/chats/import", json!({}), 400, "one source").await;
    check("POST", "/app/chats/import", json!({"ollama_db": "x"}), 400, "not absolute").await;
    let export = json!({"format": "x", "version": 1, "exported_at": "2026-01-01T00:00:00Z", "chats": []});
    check("POST", "/app/chats/import", json!({"export": export}), 400, "cannot read the export").await;
    assert_eq!(
        fixture.request("GET", "/app/chats/import", &Value::Null, 200).await,
        json!({}),
        "no other app is installed"
    );
    let reply = fixture.daemon.get("/app/chats").await;
    assert!(reply.starts_with("403") || reply.starts_with("401"), "requests need the token: {reply}");
    fixture.send("one").await;
    let user = id(&fixture.path().await[0]).to_owned();
    check("POST", &format!("{chat}/answer"), json!({"continue": user}), 400, "cannot continue").await;
    let empty = fixture.request("POST", "/app/chats", &json!({}), 201).await;
    check("POST", &format!("/app/chats/{}/messages", id(&empty)), json!({"content": "x"}), 400, "no model").await;
}

#[tokio::test]
async fn chats_can_be_changed_and_restored_from_trash() {
    let fixture = Fixture::new().await;
    fixture.send("the first words").await;
    let change = json!({"title": "Mine", "folder": "Work", "pinned": true, "system": "Be brief.", "think": false});
    let changed = fixture.chat_request("PATCH", "", &change, 200).await;
    assert_eq!(
        (&changed["title"], &changed["think"], &changed["pinned"]),
        (&json!("Mine"), &json!(false), &json!(true))
    );
    let list = fixture.request("GET", "/app/chats", &Value::Null, 200).await;
    assert_eq!((list["pinned"].as_array().unwrap().len(), list["chats"].as_array().unwrap().len()), (1, 0), "{list}");
    assert_eq!(list["folders"], json!([{"name": "Work", "chats": 1}]), "{list}");
    let changed = fixture.chat_request("PATCH", "", &json!({"title": "", "folder": null, "system": null}), 200).await;
    assert_eq!(changed["title"], "the first words", "an empty title is generated again: {changed}");
    assert!(changed.get("folder").is_none() && changed.get("system").is_none(), "{changed}");

    fixture.chat_request("DELETE", "", &Value::Null, 204).await;
    // Deleting is idempotent: a browser may retry, and a second window may have an old list.
    fixture.chat_request("DELETE", "", &Value::Null, 204).await;
    let trash = fixture.request("GET", "/app/chats?trash=true", &Value::Null, 200).await;
    assert!(trash["chats"][0]["deleted_at"].is_string(), "{trash}");
    fixture.chat_request("POST", "/messages", &json!({"content": "x"}), 409).await;
    let restored = fixture.chat_request("POST", "/restore", &Value::Null, 200).await;
    assert!(restored.get("deleted_at").is_none(), "{restored}");
    fixture.chat_request("DELETE", "?forever=true", &Value::Null, 204).await;
    fixture.chat_request("GET", "", &Value::Null, 404).await;
}

#[tokio::test]
async fn exports_can_be_imported_again() {
    let fixture = Fixture::new().await;
    fixture.send("the granite question").await;
    let user = id(&fixture.path().await[0]).to_owned();
    fixture.lines("answer", json!({"message": user})).await;
    let export = fixture.request("GET", "/app/chats/export", &Value::Null, 200).await;
    assert_eq!(export["chats"].as_array().unwrap().len(), 1, "{export}");
    assert_eq!(export["chats"][0]["messages"].as_array().unwrap().len(), 3, "all branches: {export}");
    let one = fixture.chat_request("GET", "/export?format=json", &Value::Null, 200).await;
    assert_eq!(one["chats"], export["chats"], "both exports have the same format");
    let present = fixture.request("POST", "/app/chats/import", &json!({"export": export}), 200).await;
    assert_eq!((&present["chats"], &present["present"]), (&json!(0), &json!(1)), "the chat already exists: {present}");
    fixture.chat_request("DELETE", "?forever=true", &Value::Null, 204).await;
    let imported = fixture.request("POST", "/app/chats/import", &json!({"export": export}), 200).await;
    assert_eq!((&imported["chats"], &imported["messages"]), (&json!(1), &json!(3)), "{imported}");
    let again = fixture.chat_request("GET", "/export", &Value::Null, 200).await;
    let texts = |export: &Value| -> Vec<Value> {
        export["chats"][0]["messages"].as_array().unwrap().iter().map(|message| message["content"].clone()).collect()
    };
    assert_eq!(texts(&again), texts(&export), "the same messages");
    let usage = |export: &Value| export["chats"][0]["messages"][1]["usage"].clone();
    assert_eq!(usage(&again)["prompt_tokens"], usage(&export)["prompt_tokens"], "the usage is imported");
    let found = fixture.request("GET", "/app/chats/search?q=gran", &Value::Null, 200).await;
    assert_eq!(found["hits"].as_array().unwrap().len(), 2, "the title and the message are found: {found}");
    assert_eq!(found["hits"][1]["ranges"], json!([[4, 8]]), "{found}");
    let empty = Fixture::new().await;
    empty.chat_request("DELETE", "?forever=true", &Value::Null, 204).await;
    let export = empty.request("GET", "/app/chats/export", &Value::Null, 200).await;
    assert_eq!(export["chats"], json!([]), "an export without chats is complete");
}

#[tokio::test]
async fn presets_are_defaults_of_new_chats() {
    let fixture = Fixture::new().await;
    let preset = json!({"model": "m", "system": "Be brief.", "options": {"temperature": 0.1, "top_k": 3}});
    fixture.request("PUT", "/app/presets/Terse", &preset, 200).await;
    let chat = json!({"preset": "Terse", "options": {"top_k": 9}});
    let chat = fixture.request("POST", "/app/chats", &chat, 201).await;
    assert_eq!((&chat["model"], &chat["system"]), (&json!("m"), &json!("Be brief.")), "{chat}");
    assert_eq!(
        chat["options"],
        json!({"temperature": 0.1, "top_k": 9}),
        "options of the request override the preset: {chat}"
    );
    let all = fixture.request("GET", "/app/presets", &Value::Null, 200).await;
    assert_eq!(all["presets"][0]["name"], "Terse", "{all}");
    fixture.request("DELETE", "/app/presets/Terse", &Value::Null, 204).await;
    fixture.request("GET", "/app/presets/Terse", &Value::Null, 404).await;
}

#[tokio::test]
async fn temporary_chats_leave_no_data_on_disk() {
    let fixture = Fixture::new().await;
    let chat = json!({"temporary": true, "model": "m", "options": {"num_predict": 3, "temperature": 0}});
    let chat = fixture.request("POST", "/app/chats", &chat, 201).await;
    assert_eq!(chat["temporary"], true, "{chat}");
    let path = format!("/app/chats/{}", id(&chat));
    fixture.text("POST", &format!("{path}/messages"), &json!({"content": "obsidian"}), 200).await;
    let messages = fixture.request("GET", &format!("{path}/messages"), &Value::Null, 200).await;
    assert_eq!(messages["messages"][1]["state"], "complete", "the chat answers: {messages}");
    let list = fixture.request("GET", "/app/chats", &Value::Null, 200).await;
    assert_eq!(list["chats"].as_array().unwrap().len(), 1, "only the stored chat is listed: {list}");
    let found = fixture.request("GET", "/app/chats/search?q=obsidian", &Value::Null, 200).await;
    assert_eq!(found["hits"], json!([]), "the temporary chat is not found");
    let home = fixture.daemon.folder.path().to_owned();
    let mut folders = vec![home];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap().flatten() {
            match entry.file_type().unwrap().is_dir() {
                true => folders.push(entry.path()),
                false => {
                    let bytes = std::fs::read(entry.path()).unwrap();
                    let leaked = bytes.windows(8).any(|window| window == b"obsidian");
                    assert!(!leaked, "{} contains the message", entry.path().display());
                }
            }
        }
    }
    fixture.request("DELETE", &path, &Value::Null, 204).await;
    fixture.request("GET", &path, &Value::Null, 404).await;
}

#[tokio::test]
async fn events_report_answers_and_deletions() {
    let fixture = Fixture::new().await;
    let request = Request::get("/app/chats/events")
        .header(header::HOST, format!("127.0.0.1:{PORT}"))
        .header(header::AUTHORIZATION, format!("Bearer {TOKEN}"))
        .body(Body::empty())
        .unwrap();
    let events = fixture.daemon.send(request).await.into_body();
    fixture.send("hi").await;
    fixture.chat_request("DELETE", "", &Value::Null, 204).await;
    fixture.daemon.server.stop();
    let bytes = axum::body::to_bytes(events, 1 << 20).await.unwrap();
    let lines: Vec<Value> =
        String::from_utf8(bytes.to_vec()).unwrap().lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let answering: Vec<bool> = lines.iter().filter_map(|line| line["chat"]["answering"].as_bool()).collect();
    assert_eq!(answering, [true, false], "the answer starts and finishes: {lines:?}");
    let warmth: Vec<&str> = lines.iter().filter_map(|line| line["chat"]["warmth"].as_str()).collect();
    assert_eq!(warmth, ["cold", "hot"], "the chat is cached once it has an answer: {lines:?}");
    assert_eq!(lines.last().unwrap()["removed"], fixture.chat.as_str(), "the chat is removed: {lines:?}");
}

#[tokio::test]
async fn answer_without_stored_end_is_interrupted() {
    let fixture = Fixture::new().await;
    fixture.send("hi").await;
    let file = rusqlite::Connection::open(fixture.daemon.folder.path().join("chats/chats.sqlite")).unwrap();
    let changed = file.execute("UPDATE messages SET state = 'answering' WHERE role = 'assistant'", []).unwrap();
    assert_eq!(changed, 1, "the state after a write error");
    let path = fixture.path().await;
    assert_eq!(path[1]["state"], "interrupted", "no task computes the answer: {path:?}");
    let answer = fixture.lines("answer", json!({"continue": id(&path[1])})).await;
    assert_eq!(answer.last().unwrap()["done"]["state"], "complete", "the answer can be continued: {answer:?}");
}

#[tokio::test]
async fn import_removes_copies_of_killed_imports() {
    let fixture = Fixture::new().await;
    let folder = fixture.daemon.folder.path().join("chats");
    let stale = folder.join("import-0123456789abcdef");
    std::fs::create_dir(&stale).unwrap();
    std::fs::write(stale.join("db.sqlite"), "private messages").unwrap();
    let missing = json!({"ollama_db": folder.join("nowhere.sqlite")});
    fixture.request("POST", "/app/chats/import", &missing, 400).await;
    assert!(!stale.exists(), "the next import removes the copy");
    assert!(folder.join("chats.sqlite").exists(), "the chats remain");
}

/// Opens the database of chats beside the daemon.
fn database(fixture: &Fixture) -> rusqlite::Connection {
    rusqlite::Connection::open(fixture.daemon.folder.path().join("chats/chats.sqlite")).unwrap()
}

#[tokio::test]
async fn failed_write_at_start_of_answer_leaves_chat_usable() {
    let fixture = Fixture::new().await;
    let database = database(&fixture);
    let fail = |event: &str| {
        database
            .execute_batch(&format!("CREATE TRIGGER full BEFORE {event} BEGIN SELECT RAISE(FAIL, 'full'); END"))
            .unwrap();
    };
    let mend = || database.execute_batch("DROP TRIGGER full").unwrap();
    fail("UPDATE OF title ON chats");
    let lines = fixture.send("without a title").await;
    assert_eq!(lines.last().unwrap()["done"]["state"], "complete", "the title is not essential: {lines:?}");
    mend();
    fail("INSERT ON messages");
    let refused = fixture.chat_request("POST", "/messages", &json!({"content": "lost"}), 500).await;
    assert_eq!(refused["code"], "chats_unavailable", "{refused}");
    mend();
    fixture.chat_request("GET", "/answer", &Value::Null, 204).await;
    let stopped = fixture.chat_request("POST", "/stop", &json!({}), 200).await;
    assert_eq!(stopped["stopped"], false, "no answer is in progress: {stopped}");
    let lines = fixture.send("again").await;
    assert_eq!(lines.last().unwrap()["done"]["state"], "complete", "the chat works again: {lines:?}");
}

#[tokio::test]
async fn slow_write_of_one_chat_does_not_block_requests_about_another() {
    let fixture = Fixture::new().await;
    let other = fixture.request("POST", "/app/chats", &json!({"model": "m"}), 201).await;
    let other = format!("/app/chats/{}/answer", id(&other));
    let mut lock = database(&fixture);
    let transaction = lock.transaction_with_behavior(rusqlite::TransactionBehavior::Immediate).unwrap();
    // The write of the message waits for the lock, at most for the busy timeout: then it fails.
    let check = async {
        while fixture.chat_request("GET", "", &Value::Null, 200).await["answering"] != true {}
        fixture.request("GET", &other, &Value::Null, 204).await;
        transaction.rollback().unwrap();
    };
    let (lines, ()) = tokio::join!(fixture.send("waits for the lock"), check);
    assert_eq!(lines.last().unwrap()["done"]["state"], "complete", "{lines:?}");
}
