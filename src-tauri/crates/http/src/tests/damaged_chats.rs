//! A damaged chat database: the error, the repair, its notice, and the rest of the daemon.

use std::io::{Seek, SeekFrom, Write};
use std::path::PathBuf;

use serde_json::{Value, json};

use super::*;

const PAGE_BYTES: usize = 4096;

fn file(daemon: &Daemon) -> PathBuf {
    daemon.folder.path().join("chats/chats.sqlite")
}

async fn request(daemon: &Daemon, method: &str, path: &str, body: &Value, status: u16) -> Value {
    let body = if body.is_null() { String::new() } else { body.to_string() };
    let reply = daemon.authorized(method, path, &body).await;
    let (head, text) = reply.split_once('\n').unwrap();
    assert!(head.starts_with(&status.to_string()), "{method} {path}: {reply}");
    serde_json::from_str(text).unwrap_or(Value::Null)
}

/// Waits until a condition holds.
async fn until(expected: &str, condition: impl AsyncFn() -> bool) {
    let deadline = std::time::Instant::now() + Duration::from_secs(60);
    while !condition().await {
        assert!(std::time::Instant::now() < deadline, "timeout: {expected}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Overwrites a file from a byte to its end.
fn overwrite(path: &std::path::Path, from: usize) {
    let mut file = std::fs::OpenOptions::new().write(true).open(path).unwrap();
    let length = usize::try_from(file.metadata().unwrap().len()).unwrap();
    file.seek(SeekFrom::Start(from as u64)).unwrap();
    file.write_all(&vec![0xa5; length - from]).unwrap();
}

#[tokio::test]
async fn damage_while_running_is_reported_and_repaired_from_the_backup() {
    let daemon = Daemon::with(&[("CAIRN_CHAT_TITLES", "0")]);
    let chat = request(&daemon, "POST", "/app/chats", &json!({"model": "m", "title": "Marble"}), 201).await;
    // The first list requests the daily backup.
    let list = request(&daemon, "GET", "/app/chats", &Value::Null, 200).await;
    assert_eq!(list["notices"], Value::Null, "nothing happened: {list}");
    let backups = || std::fs::read_dir(file(&daemon).parent().unwrap()).unwrap().flatten();
    let is_backup = |entry: std::fs::DirEntry| entry.path().extension().is_some_and(|extension| extension == "bak");
    until("a backup", async || backups().any(is_backup)).await;
    let other = rusqlite::Connection::open(file(&daemon)).unwrap();
    // A write by another connection empties the page caches of the daemon.
    other.execute_batch("DELETE FROM presets; PRAGMA wal_checkpoint(TRUNCATE)").unwrap();
    other.execute_batch("CREATE TABLE other (a); DROP TABLE other; PRAGMA wal_checkpoint(TRUNCATE)").unwrap();
    overwrite(&file(&daemon), PAGE_BYTES);
    drop(other);

    let refused = request(&daemon, "GET", "/app/chats", &Value::Null, 500).await;
    assert_eq!(refused["code"], "chats_damaged", "{refused}");
    request(&daemon, "GET", "/api/tags", &Value::Null, 200).await;
    let list = request(&daemon, "GET", "/app/chats", &Value::Null, 200).await;
    assert_eq!(list["chats"][0]["id"], chat["id"], "the chat is restored: {list}");
    let notice = &list["notices"][0];
    assert_eq!((&notice["code"], &notice["params"]["chats"]), (&json!("chats_repaired"), &json!("1")), "{list}");
    let aside = notice["params"]["path"].as_str().unwrap();
    assert!(std::path::Path::new(aside).exists(), "the damaged file is set aside: {notice}");
    request(&daemon, "POST", "/app/chats", &json!({"model": "m"}), 201).await;
}

#[tokio::test]
async fn daemon_starts_with_a_chat_file_that_is_no_database() {
    let daemon = Daemon::with(&[("CAIRN_CHAT_TITLES", "0")]);
    std::fs::create_dir_all(file(&daemon).parent().unwrap()).unwrap();
    std::fs::write(file(&daemon), vec![0xa5; 3 * PAGE_BYTES]).unwrap();
    let list = request(&daemon, "GET", "/app/chats", &Value::Null, 200).await;
    assert_eq!((&list["chats"], &list["notices"][0]["code"]), (&json!([]), &json!("chats_repaired")), "{list}");
    request(&daemon, "POST", "/app/chats", &json!({"model": "m"}), 201).await;
}

#[tokio::test]
async fn blocked_erasure_is_reported_until_it_is_repeated() {
    let daemon = Daemon::with(&[("CAIRN_CHAT_TITLES", "0")]);
    let create_and_delete = async || {
        let chat = request(&daemon, "POST", "/app/chats", &json!({"model": "m"}), 201).await;
        let path = format!("/app/chats/{}?forever=true", chat["id"].as_str().unwrap());
        request(&daemon, "DELETE", &path, &Value::Null, 204).await;
    };
    let notice = async || request(&daemon, "GET", "/app/chats", &Value::Null, 200).await["notices"][0].clone();
    assert_eq!(notice().await, Value::Null, "nothing happened");
    let other = rusqlite::Connection::open(file(&daemon)).unwrap();
    other.execute_batch("BEGIN; SELECT count(*) FROM chats;").unwrap();
    create_and_delete().await;
    until("a notice", async || notice().await["code"] == "chats_not_erased").await;
    drop(other);
    create_and_delete().await;
    until("the erasure is repeated", async || notice().await == Value::Null).await;
}

#[tokio::test]
async fn newer_chat_file_has_its_own_error() {
    let daemon = Daemon::with(&[("CAIRN_CHAT_TITLES", "0")]);
    std::fs::create_dir_all(file(&daemon).parent().unwrap()).unwrap();
    let newer = rusqlite::Connection::open(file(&daemon)).unwrap();
    newer.execute_batch("CREATE TABLE a (b); PRAGMA application_id = 0x43726e43; PRAGMA user_version = 999").unwrap();
    drop(newer);
    let refused = request(&daemon, "GET", "/app/chats", &Value::Null, 409).await;
    assert_eq!(refused["code"], "chats_newer_version", "{refused}");
    request(&daemon, "GET", "/api/tags", &Value::Null, 200).await;
}
