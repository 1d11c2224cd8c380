//! `/app/chats`: what clients send and what they get, with the small random model.

use serde_json::{Value, json};

use super::*;

/// A daemon with a chat in it.
struct Room {
    daemon: Daemon,
    chat: String,
}

impl Room {
    async fn new() -> Self {
        let daemon = Daemon::with(&[("CAIRN_CHAT_TITLES", "0")]);
        let mut room = Self { daemon, chat: String::new() };
        let chat = json!({"model": "m", "options": {"temperature": 0, "num_predict": 3}});
        let created = room.ask("POST", "/app/chats", &chat, 201).await;
        room.chat = created["id"].as_str().unwrap().to_owned();
        room
    }

    async fn text(&self, method: &str, path: &str, body: &Value, status: u16) -> String {
        let body = if body.is_null() { String::new() } else { body.to_string() };
        let heard = self.daemon.own(method, path, &body).await;
        let (head, text) = heard.split_once('\n').unwrap();
        assert!(head.starts_with(&status.to_string()), "{method} {path}: {heard}");
        text.to_owned()
    }

    async fn ask(&self, method: &str, path: &str, body: &Value, status: u16) -> Value {
        let text = self.text(method, path, body, status).await;
        if text.is_empty() { Value::Null } else { serde_json::from_str(&text).unwrap() }
    }

    /// Something of the chat.
    async fn own(&self, method: &str, what: &str, body: &Value, status: u16) -> Value {
        self.ask(method, &format!("/app/chats/{}{what}", self.chat), body, status).await
    }

    /// The lines of an answer.
    async fn lines(&self, what: &str, body: Value) -> Vec<Value> {
        let text = self.text("POST", &format!("/app/chats/{}/{what}", self.chat), &body, 200).await;
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    async fn say(&self, content: &str) -> Vec<Value> {
        self.lines("messages", json!({"content": content})).await
    }

    async fn path(&self) -> Vec<Value> {
        self.own("GET", "/messages", &Value::Null, 200).await["messages"].as_array().unwrap().clone()
    }
}

fn id(message: &Value) -> &str {
    message["id"].as_str().unwrap()
}

#[tokio::test]
async fn an_answer_streams_and_is_kept() {
    let room = Room::new().await;
    let lines = room.say("hi").await;
    let streamed: String = lines.iter().filter_map(|line| line["text"].as_str()).collect();
    assert_eq!(lines[0]["user"]["content"], "hi", "what was asked: {lines:?}");
    assert_eq!(lines[1]["answer"]["state"], "answering", "the answer begins: {lines:?}");
    let done = &lines.last().unwrap()["done"];
    assert_eq!(done["content"], streamed.as_str(), "it is what was streamed");
    assert_eq!((&done["state"], &done["model"]), (&json!("complete"), &json!("m")), "{done}");
    assert_eq!(done["stats"]["answer_tokens"], 3, "what it cost: {done}");
    assert_eq!(done["stats"]["length_reached"], true, "why it ended: {done}");

    let again = room.say("and now?").await;
    let stats = &again.last().unwrap()["done"]["stats"];
    assert!(stats["cached_tokens"].as_u64() > Some(10), "the first turn is found computed: {stats}");
    let path = room.path().await;
    assert_eq!(path.len(), 4, "{path:?}");
    assert_eq!(path[2]["parent"], path[1]["id"], "each follows the one before");

    let list = room.ask("GET", "/app/chats", &Value::Null, 200).await;
    let summary = &list["chats"][0];
    assert_eq!((&summary["title"], &summary["messages"]), (&json!("hi"), &json!(4)), "{summary}");
    assert_eq!((&summary["warmth"], &summary["answering"]), (&json!("hot"), &json!(false)), "{summary}");
}

#[tokio::test]
async fn other_answers_and_other_questions_are_versions() {
    let room = Room::new().await;
    room.say("one").await;
    let path = room.path().await;
    let (user, first) = (id(&path[0]).to_owned(), id(&path[1]).to_owned());
    let second = room.lines("answer", json!({"message": user, "options": {"temperature": 2, "seed": 5}})).await;
    let second = &second.last().unwrap()["done"];
    assert_eq!(second["versions"], json!([first, id(second)]), "a sibling: {second}");
    let path = room.path().await;
    assert_eq!(id(&path[1]), id(second), "it is shown");
    let shown = room.own("PUT", "/head", &json!({"message": first}), 200).await;
    assert_eq!(shown["head"], first.as_str(), "until another is: {shown}");

    room.lines("messages", json!({"content": "uno", "parent": null})).await;
    let path = room.path().await;
    assert_eq!((path.len(), &path[0]["content"]), (2, &json!("uno")), "an edited question begins anew: {path:?}");
    assert_eq!(path[0]["versions"].as_array().unwrap().len(), 2, "beside the first: {path:?}");

    let answer = id(&path[1]).to_owned();
    let go_on = room.lines("answer", json!({"continue": answer})).await;
    let begun = go_on[0]["answer"]["content"].as_str().unwrap().to_owned();
    let whole = go_on.last().unwrap()["done"]["content"].as_str().unwrap();
    assert!(whole.starts_with(&begun) && whole.len() > begun.len(), "it goes on: {go_on:?}");
    let first_page = room.own("GET", "/messages?limit=1", &Value::Null, 200).await;
    assert_eq!((&first_page["total"], &first_page["before"]), (&json!(2), &json!(1)), "{first_page}");
}

#[tokio::test]
async fn an_answer_is_stopped_and_followed_by_another_client() {
    let room = Room::new().await;
    room.daemon.store("slow", &[("model", &cairn_testkit::write(&cairn_testkit::slow_llama()))]);
    let path = format!("/app/chats/{}/messages", room.chat);
    let send =
        json!({"content": "go", "model": "slow", "options": {"num_predict": 1_000_000, "temperature": 0}}).to_string();
    let request = Request::post(&path)
        .header(header::HOST, format!("127.0.0.1:{PORT}"))
        .header(header::AUTHORIZATION, format!("Bearer {TOKEN}"))
        .body(Body::from(send))
        .unwrap();
    // The client leaves at once.
    drop(room.daemon.send(request).await);
    let busy = room.ask("POST", &path, &json!({"content": "more"}), 409).await;
    assert!(busy["error"].as_str().unwrap().contains("being computed"), "one at a time: {busy}");
    let follow = format!("/app/chats/{}/answer", room.chat);
    let stop = async {
        // Once it has said something, which is written down within a second.
        for _ in 0..400 {
            tokio::time::sleep(Duration::from_millis(25)).await;
            if room.path().await[1]["content"] != "" {
                break;
            }
        }
        room.own("POST", "/stop", &Value::Null, 200).await
    };
    let (followed, stopped) = tokio::join!(room.text("GET", &follow, &Value::Null, 200), stop);
    assert_eq!(stopped["stopped"], true, "there was one");
    let lines: Vec<Value> = followed.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let before = lines[0]["answer"]["content"].as_str().unwrap();
    let streamed: String = lines.iter().filter_map(|line| line["text"].as_str()).collect();
    let done = &lines.last().unwrap()["done"];
    assert_eq!(
        done["content"],
        format!("{before}{streamed}"),
        "nothing is missing between what was there and what came"
    );
    assert_eq!(done["state"], "stopped", "{done}");
    let cost = |name: &str| done["stats"][name].as_u64().unwrap_or(0);
    assert!(cost("prompt_tokens") > 0 && cost("answer_tokens") > 0, "what it had cost by then: {done}");
    assert_eq!(room.path().await[1]["stats"], done["stats"], "is kept with it");
    assert_eq!(room.own("POST", "/stop", &Value::Null, 200).await["stopped"], false, "once");
    room.own("GET", "/answer", &Value::Null, 404).await;
    room.say("and now?").await;
    assert_eq!(room.path().await.len(), 4, "it takes the next message at once");
}

#[tokio::test]
async fn an_answer_that_fails_says_why_and_stays() {
    let room = Room::new().await;
    let lines = room.lines("messages", json!({"content": "x", "options": {"num_ctx": "many"}})).await;
    let failed = &lines.last().unwrap()["failed"];
    assert!(failed["error"]["error"].as_str().unwrap().contains("num_ctx"), "{lines:?}");
    let kept = room.path().await;
    assert_eq!(
        (&kept[1]["state"], &kept[1]["error"]),
        (&json!("failed"), &failed["error"]["error"]),
        "it stays: {kept:?}"
    );
    assert_eq!(room.say("y").await.last().unwrap()["done"]["state"], "complete", "and hinders nothing");
}

#[tokio::test]
async fn requests_that_are_refused() {
    let room = Room::new().await;
    let chat = format!("/app/chats/{}", room.chat);
    let check = async |method: &str, path: &str, body: Value, status: u16, part: &str| {
        let refused = room.ask(method, path, &body, status).await;
        assert!(refused["error"].as_str().unwrap().contains(part), "{part:?}: {refused}");
    };
    check("GET", "/app/chats/none", Value::Null, 404, "there is no chat").await;
    check("GET", "/app/chats?after=x", Value::Null, 400, "page").await;
    check("POST", &format!("{chat}/messages"), json!({"content": " "}), 400, "nothing").await;
    check("POST", &format!("{chat}/messages"), json!({"content": "x", "model": "no"}), 404, "'no' not found").await;
    check("POST", &format!("{chat}/messages"), json!({"content": "x", "parent": "77"}), 404, "no message").await;
    check("POST", &format!("{chat}/messages"), json!({"content": "x", "images": ["AA"]}), 501, "images").await;
    check("POST", &format!("{chat}/messages"), json!({"text": "x"}), 400, "text").await;
    check("POST", &format!("{chat}/answer"), json!({}), 400, "one of them").await;
    check("PUT", &format!("{chat}/head"), json!({"message": "q"}), 404, "no message").await;
    check("POST", "/app/chats", json!({"preset": "none"}), 404, "no preset").await;
    check("POST", "/app/chats/import", json!({}), 400, "one thing").await;
    check("POST", "/app/chats/import", json!({"ollama_db": "x"}), 400, "not absolute").await;
    let export = json!({"format": "x", "version": 1, "exported_at": "2026-01-01T00:00:00Z", "chats": []});
    check("POST", "/app/chats/import", json!({"export": export}), 400, "no export").await;
    assert_eq!(room.ask("GET", "/app/chats/import", &Value::Null, 200).await, json!({}), "no other app is here");
    let heard = room.daemon.get("/app/chats").await;
    assert!(heard.starts_with("403") || heard.starts_with("401"), "only our own clients may: {heard}");
    room.say("one").await;
    let user = id(&room.path().await[0]).to_owned();
    check("POST", &format!("{chat}/answer"), json!({"continue": user}), 400, "no answer").await;
    let nobody = room.ask("POST", "/app/chats", &json!({}), 201).await;
    check("POST", &format!("/app/chats/{}/messages", id(&nobody)), json!({"content": "x"}), 400, "no model").await;
}

#[tokio::test]
async fn chats_are_changed_and_come_back_from_the_trash() {
    let room = Room::new().await;
    room.say("the first words").await;
    let change = json!({"title": "Mine", "folder": "Work", "pinned": true, "system": "Be brief.", "think": false});
    let changed = room.own("PATCH", "", &change, 200).await;
    assert_eq!(
        (&changed["title"], &changed["think"], &changed["pinned"]),
        (&json!("Mine"), &json!(false), &json!(true))
    );
    let list = room.ask("GET", "/app/chats", &Value::Null, 200).await;
    assert_eq!((list["pinned"].as_array().unwrap().len(), list["chats"].as_array().unwrap().len()), (1, 0), "{list}");
    assert_eq!(list["folders"], json!([{"name": "Work", "chats": 1}]), "{list}");
    let changed = room.own("PATCH", "", &json!({"title": "", "folder": null, "system": null}), 200).await;
    assert_eq!(changed["title"], "the first words", "an empty title is made up again: {changed}");
    assert!(changed.get("folder").is_none() && changed.get("system").is_none(), "{changed}");

    room.own("DELETE", "", &Value::Null, 204).await;
    // As a browser repeats it, or a second window that has not heard of it.
    room.own("DELETE", "", &Value::Null, 204).await;
    let trash = room.ask("GET", "/app/chats?trash=true", &Value::Null, 200).await;
    assert!(trash["chats"][0]["deleted_at"].is_string(), "{trash}");
    room.own("POST", "/messages", &json!({"content": "x"}), 409).await;
    let restored = room.own("POST", "/restore", &Value::Null, 200).await;
    assert!(restored.get("deleted_at").is_none(), "{restored}");
    room.own("DELETE", "?forever=true", &Value::Null, 204).await;
    room.own("GET", "", &Value::Null, 404).await;
}

#[tokio::test]
async fn exports_come_in_again() {
    let room = Room::new().await;
    room.say("the granite question").await;
    let user = id(&room.path().await[0]).to_owned();
    room.lines("answer", json!({"message": user})).await;
    let export = room.ask("GET", "/app/chats/export", &Value::Null, 200).await;
    assert_eq!(export["chats"].as_array().unwrap().len(), 1, "{export}");
    assert_eq!(export["chats"][0]["messages"].as_array().unwrap().len(), 3, "all branches: {export}");
    let one = room.own("GET", "/export?format=json", &Value::Null, 200).await;
    assert_eq!(one["chats"], export["chats"], "one chat is exported as all are");
    let present = room.ask("POST", "/app/chats/import", &json!({"export": export}), 200).await;
    assert_eq!((&present["chats"], &present["present"]), (&json!(0), &json!(1)), "it is here: {present}");
    room.own("DELETE", "?forever=true", &Value::Null, 204).await;
    let arrived = room.ask("POST", "/app/chats/import", &json!({"export": export}), 200).await;
    assert_eq!((&arrived["chats"], &arrived["messages"]), (&json!(1), &json!(3)), "{arrived}");
    let again = room.own("GET", "/export", &Value::Null, 200).await;
    let texts = |export: &Value| -> Vec<Value> {
        export["chats"][0]["messages"].as_array().unwrap().iter().map(|message| message["content"].clone()).collect()
    };
    assert_eq!(texts(&again), texts(&export), "as it was");
    let stats = |export: &Value| export["chats"][0]["messages"][1]["stats"].clone();
    assert_eq!(stats(&again)["prompt_tokens"], stats(&export)["prompt_tokens"], "with what it cost");
    let found = room.ask("GET", "/app/chats/search?q=gran", &Value::Null, 200).await;
    assert_eq!(found["hits"].as_array().unwrap().len(), 2, "its title and its message are found: {found}");
    assert_eq!(found["hits"][1]["ranges"], json!([[4, 8]]), "{found}");
    let empty = Room::new().await;
    empty.own("DELETE", "?forever=true", &Value::Null, 204).await;
    let export = empty.ask("GET", "/app/chats/export", &Value::Null, 200).await;
    assert_eq!(export["chats"], json!([]), "an export of nothing is whole too");
}

#[tokio::test]
async fn presets_are_what_chats_begin_with() {
    let room = Room::new().await;
    let preset = json!({"model": "m", "system": "Be brief.", "options": {"temperature": 0.1, "top_k": 3}});
    room.ask("PUT", "/app/presets/Terse", &preset, 200).await;
    let chat = json!({"preset": "Terse", "options": {"top_k": 9}});
    let chat = room.ask("POST", "/app/chats", &chat, 201).await;
    assert_eq!((&chat["model"], &chat["system"]), (&json!("m"), &json!("Be brief.")), "{chat}");
    assert_eq!(chat["options"], json!({"temperature": 0.1, "top_k": 9}), "what is said goes before it: {chat}");
    let all = room.ask("GET", "/app/presets", &Value::Null, 200).await;
    assert_eq!(all["presets"][0]["name"], "Terse", "{all}");
    room.ask("DELETE", "/app/presets/Terse", &Value::Null, 204).await;
    room.ask("GET", "/app/presets/Terse", &Value::Null, 404).await;
}

#[tokio::test]
async fn temporary_chats_leave_nothing() {
    let room = Room::new().await;
    let chat = json!({"temporary": true, "model": "m", "options": {"num_predict": 3, "temperature": 0}});
    let chat = room.ask("POST", "/app/chats", &chat, 201).await;
    assert_eq!(chat["temporary"], true, "{chat}");
    let path = format!("/app/chats/{}", id(&chat));
    room.text("POST", &format!("{path}/messages"), &json!({"content": "obsidian"}), 200).await;
    let messages = room.ask("GET", &format!("{path}/messages"), &Value::Null, 200).await;
    assert_eq!(messages["messages"][1]["state"], "complete", "it works as any: {messages}");
    let list = room.ask("GET", "/app/chats", &Value::Null, 200).await;
    assert_eq!(list["chats"].as_array().unwrap().len(), 1, "only the other is listed: {list}");
    let found = room.ask("GET", "/app/chats/search?q=obsidian", &Value::Null, 200).await;
    assert_eq!(found["hits"], json!([]), "it is not found");
    let home = room.daemon.folder.path().to_owned();
    let mut folders = vec![home];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap().flatten() {
            match entry.file_type().unwrap().is_dir() {
                true => folders.push(entry.path()),
                false => {
                    let bytes = std::fs::read(entry.path()).unwrap();
                    let leaked = bytes.windows(8).any(|window| window == b"obsidian");
                    assert!(!leaked, "{} has it", entry.path().display());
                }
            }
        }
    }
    room.ask("DELETE", &path, &Value::Null, 204).await;
    room.ask("GET", &path, &Value::Null, 404).await;
}

#[tokio::test]
async fn changes_are_told() {
    let room = Room::new().await;
    let request = Request::get("/app/chats/events")
        .header(header::HOST, format!("127.0.0.1:{PORT}"))
        .header(header::AUTHORIZATION, format!("Bearer {TOKEN}"))
        .body(Body::empty())
        .unwrap();
    let events = room.daemon.send(request).await.into_body();
    room.say("hi").await;
    room.own("DELETE", "", &Value::Null, 204).await;
    room.daemon.server.stop();
    let bytes = axum::body::to_bytes(events, 1 << 20).await.unwrap();
    let lines: Vec<Value> =
        String::from_utf8(bytes.to_vec()).unwrap().lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let answering: Vec<bool> = lines.iter().filter_map(|line| line["chat"]["answering"].as_bool()).collect();
    assert_eq!(answering, [true, false], "an answer begins and ends: {lines:?}");
    assert_eq!(lines.last().unwrap()["removed"], room.chat.as_str(), "then the chat is gone: {lines:?}");
}

#[tokio::test]
async fn an_answer_whose_end_could_not_be_written_is_cut() {
    let room = Room::new().await;
    room.say("hi").await;
    let file = rusqlite::Connection::open(room.daemon.folder.path().join("chats/chats.sqlite")).unwrap();
    let left = file.execute("UPDATE messages SET state = 'answering' WHERE role = 'assistant'", []).unwrap();
    assert_eq!(left, 1, "as a full disk leaves it");
    let path = room.path().await;
    assert_eq!(path[1]["state"], "cut", "nobody computes it: {path:?}");
    let answer = room.lines("answer", json!({"continue": id(&path[1])})).await;
    assert_eq!(answer.last().unwrap()["done"]["state"], "complete", "it goes on: {answer:?}");
}

#[tokio::test]
async fn a_copy_that_a_kill_left_is_removed() {
    let room = Room::new().await;
    let folder = room.daemon.folder.path().join("chats");
    let dead = folder.join("import-0123456789abcdef");
    std::fs::create_dir(&dead).unwrap();
    std::fs::write(dead.join("db.sqlite"), "what somebody has said").unwrap();
    let nothing = json!({"ollama_db": folder.join("nowhere.sqlite")});
    room.ask("POST", "/app/chats/import", &nothing, 400).await;
    assert!(!dead.exists(), "the next import removes it");
    assert!(folder.join("chats.sqlite").exists(), "and nothing else");
}
