//! Databases of Ollama's app as it makes them, and others in their place.

use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use super::*;
use crate::{Chats, Trashed, Which};

/// Long past the moment at which anything of this is read.
const SOON: Duration = Duration::from_secs(20);

/// As layout 2 had it, which had no attachments.
const FIRST: &str = "
    CREATE TABLE settings (id INTEGER PRIMARY KEY, schema_version INTEGER NOT NULL DEFAULT 2);
    CREATE TABLE chats (id TEXT PRIMARY KEY, title TEXT NOT NULL DEFAULT '',
        created_at TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP);
    CREATE TABLE messages (id INTEGER PRIMARY KEY AUTOINCREMENT, chat_id TEXT NOT NULL, role TEXT NOT NULL,
        content TEXT NOT NULL DEFAULT '', thinking TEXT NOT NULL DEFAULT '', stream BOOLEAN NOT NULL DEFAULT 0,
        model_name TEXT, created_at TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP,
        updated_at TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP, thinking_time_start TIMESTAMP, thinking_time_end TIMESTAMP);
    INSERT INTO chats VALUES ('b7', 'Bread', '2025-08-01 10:00:00.5+02:00'), ('a1', '', '2025-07-01 00:00:00');
    INSERT INTO messages (chat_id, role, content, created_at) VALUES ('b7', 'user', 'How long?', '2025-08-01T08:00:01Z');
    INSERT INTO messages (chat_id, role, content, thinking, model_name, created_at, thinking_time_start, thinking_time_end)
        VALUES ('b7', 'assistant', 'An hour.', 'Hm.', 'llama3.2', '2025-08-01 10:00:09.25+02:00',
                '2025-08-01 10:00:02.5+02:00', '2025-08-01 10:00:04+02:00');";
const LATER: &str = "
    ALTER TABLE chats ADD COLUMN browser_state TEXT;
    ALTER TABLE messages ADD COLUMN tool_result TEXT;
    CREATE TABLE attachments (id INTEGER PRIMARY KEY AUTOINCREMENT, message_id INTEGER NOT NULL, filename TEXT NOT NULL,
        data BLOB NOT NULL);
    INSERT INTO attachments (message_id, filename, data) VALUES (1, 'oven.png', X'89504E470D0A1A0A00'),
        (1, 'notes.txt', CAST('a note' AS BLOB)), (1, 'odd.bin', X'FFFE00');";

/// Makes a database of these statements and reads it, with what is left in its folder.
fn check(statements: &str) -> (Result<Vec<Brought>, OllamaError>, Vec<String>) {
    let home = tempfile::tempdir().expect("a temporary folder");
    let path = home.path().join("db.sqlite");
    let connection = Connection::open(&path).expect("a file");
    connection.execute_batch("PRAGMA journal_mode = WAL;").expect("as the app has it");
    connection.execute_batch(statements).expect("tables");
    // It stays open, as if the app was running.
    let mut made = 0;
    let read = read(&path, &home.path().join("scratch"), || {
        made += 1;
        format!("new{made}")
    });
    let entries = std::fs::read_dir(home.path()).expect("the folder is there").flatten();
    let mut left: Vec<String> = entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    left.sort();
    (read, left)
}

#[test]
fn chats_of_the_first_layout_and_of_later_ones() {
    let (first, left) = check(FIRST);
    assert_eq!(left, ["db.sqlite", "db.sqlite-shm", "db.sqlite-wal"], "no copy is left, and nothing of ours");
    let first = first.expect("it can be read");
    let [a, b] = &first[..] else { panic!("two chats: {first:?}") };
    assert_eq!((a.origin.as_str(), a.chat.title.as_deref(), a.messages.len()), ("ollama:a1", None, 0), "an empty one");
    assert_eq!((b.created_ms, b.updated_ms), (1_754_035_200_500, 1_754_035_209_250), "times with a zone");
    assert_eq!(b.chat.model.as_deref(), Some("llama3.2"), "the model that answered last");
    let answer = &b.messages[1].said;
    assert_eq!((answer.thinking.as_deref(), answer.thinking_ms), (Some("Hm."), Some(1500)), "what it thought");
    assert_eq!(b.messages[1].parent.as_deref(), Some("1"), "after the question");

    let later = check(&format!("{FIRST}{LATER}")).0.expect("it can be read");
    let said = &later[1].messages[0].said;
    assert_eq!(said.images.len(), 1, "the picture");
    let files: Vec<_> = said.files.iter().map(|file| (file.name.as_str(), file.text.as_str())).collect();
    assert_eq!(files, [("notes.txt", "a note"), ("odd.bin", "")], "the text, and the name of the rest");
}

#[test]
fn what_was_brought_is_not_brought_again() {
    let brought = check(FIRST).0.expect("it can be read");
    let chats = Chats::in_memory().expect("a database");
    let arrived = chats.bring(&brought, Trashed::Stays).expect("it can be written");
    assert_eq!((arrived.chats.len(), arrived.messages, arrived.present), (2, 2, 0), "all of it");
    let again = chats.bring(&check(FIRST).0.expect("it can be read"), Trashed::Stays).expect("it can be written");
    assert_eq!((again.chats.len(), again.messages, again.present), (0, 0, 2), "once");
    let page = chats.list(&Which::Loose, None, 10).expect("a list");
    assert_eq!(page.chats[0].title, "Bread", "the last changed first");
    assert_eq!(chats.search("hour", 5).expect("a search").len(), 1, "it is found");
}

#[test]
fn other_layouts_are_refused() {
    let refused = |statements: &str, part: &str| {
        let error = check(statements).0.expect_err(part).to_string();
        assert!(error.contains(part), "{part}: {error}");
    };
    refused("CREATE TABLE a (b);", "the table chats has no column id");
    refused(
        &format!("{FIRST} ALTER TABLE messages DROP COLUMN thinking;"),
        "the table messages has no column thinking",
    );
    let home = tempfile::tempdir().expect("a temporary folder");
    let path = home.path().join("db.sqlite");
    let error = read(&path, &home.path().join("s"), String::new).expect_err("it is not there").to_string();
    assert!(error.contains("cannot be read"), "{error}");
    std::fs::write(&path, "no database ".repeat(100)).expect("the folder is writable");
    let error = read(&path, &home.path().join("s"), String::new).expect_err("it is none").to_string();
    assert!(error.contains("no whole SQLite database"), "{error}");
}

/// Reads a file that may have no end, and must be refused for this reason.
fn refuse(path: &Path, part: &str) {
    let (path, scratch) = (path.to_owned(), path.with_extension("scratch"));
    let (tell, told) = mpsc::channel();
    thread::spawn(move || tell.send(read(&path, &scratch, String::new).map(|brought| brought.len())));
    let error = told.recv_timeout(SOON).expect("it is refused at once").expect_err("it is refused").to_string();
    assert!(error.contains(part), "{part}: {error}");
}

#[cfg(unix)]
#[test]
fn pipes_and_devices_are_not_waited_for() {
    let home = tempfile::tempdir().expect("a temporary folder");
    let pipe = |path: &Path| {
        let made = std::process::Command::new("mkfifo").arg(path).status().expect("mkfifo is there");
        assert!(made.success(), "a pipe is made");
    };
    let path = home.path().join("db.sqlite");
    pipe(&path);
    refuse(&path, "a pipe or a device");
    refuse(Path::new("/dev/zero"), "a pipe or a device");
    let beside = home.path().join("other.sqlite");
    Connection::open(&beside).expect("a file").execute_batch(FIRST).expect("tables");
    pipe(&home.path().join("other.sqlite-wal"));
    refuse(&beside, "a pipe or a device");
}

#[test]
fn views_without_end_are_no_tables() {
    let endless = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n)";
    let home = tempfile::tempdir().expect("a temporary folder");
    let path = home.path().join("db.sqlite");
    let view = format!("CREATE VIEW chats AS {endless} SELECT i AS id, 'a' AS title, 0 AS created_at FROM n;");
    Connection::open(&path).expect("a file").execute_batch(&view).expect("a view");
    refuse(&path, "the table chats has no column id");
}

#[test]
fn an_odd_value_keeps_nobody_from_the_others() {
    let odd = "
        INSERT INTO chats VALUES ('c1', CAST(X'4FFF64' AS TEXT), 'once');
        INSERT INTO messages (chat_id, role, content) VALUES ('c1', 'user', X'6869'), ('c1', 'user', 7);";
    let brought = check(&format!("{FIRST}{odd}")).0.expect("it can be read");
    let titles: Vec<_> = brought.iter().map(|chat| chat.chat.title.as_deref()).collect();
    assert_eq!(titles, [Some("O\u{fffd}d"), None, Some("Bread")], "all of them");
    let said: Vec<_> = brought[0].messages.iter().map(|message| message.said.content.as_str()).collect();
    assert_eq!(said, ["hi", "7"], "as well as they can be read");
}

#[test]
fn what_is_being_written_is_undone() {
    let home = tempfile::tempdir().expect("a temporary folder");
    let path = home.path().join("db.sqlite");
    let app = Connection::open(&path).expect("a file");
    app.execute_batch(FIRST).expect("tables");
    // So little memory that it writes to the file before the end.
    app.execute_batch("PRAGMA cache_size = 1; BEGIN; UPDATE chats SET title = 'uncommitted';").expect("a change");
    let long = "INSERT INTO messages (chat_id, role, content) VALUES ('b7', 'user', hex(randomblob(40000)))";
    for _ in 0..20 {
        app.execute(long, []).expect("more changes");
    }
    let brought = read(&path, &home.path().join("scratch"), || "new".to_owned()).expect("it can be read");
    let titles: Vec<_> = brought.iter().filter_map(|chat| chat.chat.title.as_deref()).collect();
    assert_eq!(titles, ["Bread"], "as it was before");
}
