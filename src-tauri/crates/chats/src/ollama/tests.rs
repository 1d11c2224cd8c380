//! Databases of Ollama's app in several schemas, and hostile files.

use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use super::*;
use crate::{ChatFilter, Chats, TrashPolicy};

/// Timeout of a read that must not block.
const TIMEOUT: Duration = Duration::from_secs(20);

/// SQL that creates a database of Ollama's app in schema 2, which has no attachments: an empty chat, and a chat with two
/// messages.
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

/// Creates a database from the statements and reads it. Also returns the files in its folder afterwards.
fn check(statements: &str) -> (Result<Vec<ImportedChat>, OllamaError>, Vec<String>) {
    let home = tempfile::tempdir().expect("a temporary folder");
    let path = home.path().join("db.sqlite");
    let connection = Connection::open(&path).expect("a file");
    connection.execute_batch("PRAGMA journal_mode = WAL;").expect("WAL mode, as in the app");
    connection.execute_batch(statements).expect("tables");
    // The connection stays open, as if the app were running.
    let mut count = 0;
    let read = read(&path, &home.path().join("scratch"), || {
        count += 1;
        format!("new{count}")
    });
    let entries = std::fs::read_dir(home.path()).expect("the folder is there").flatten();
    let mut left: Vec<String> = entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    left.sort();
    (read, left)
}

fn title(imported: &ImportedChat) -> &str {
    &imported.export.chat.row.title
}

#[test]
fn chats_of_all_schemas_are_read() {
    let (first, left) = check(FIRST);
    assert_eq!(left, ["db.sqlite", "db.sqlite-shm", "db.sqlite-wal"], "no copy and no other file remains");
    let first = first.expect("it can be read");
    let [a, b] = &first[..] else { panic!("two chats: {first:?}") };
    let row = &b.export.chat.row;
    assert_eq!((a.origin.as_str(), title(a), a.export.messages.len()), ("ollama:a1", "", 0), "an empty chat");
    assert_eq!(
        (row.created_at.unix_ms(), row.updated_at.unix_ms()),
        (1_754_035_200_500, 1_754_035_209_250),
        "times with a zone"
    );
    assert_eq!(row.model.as_deref(), Some("llama3.2"), "the model that answered last");
    let answer = &b.export.messages[1];
    assert_eq!(
        (answer.thinking.as_deref(), answer.thinking_ms),
        (Some("Hm."), Some(1500)),
        "thinking and its duration"
    );
    assert_eq!(b.export.messages[1].parent.as_deref(), Some("1"), "parent of the answer");

    let later = check(&format!("{FIRST}{LATER}")).0.expect("it can be read");
    let question = &later[1].export.messages[0];
    assert_eq!(question.images.len(), 1, "one image");
    let files: Vec<_> = question.files.iter().map(|file| (file.name.as_str(), file.text.as_str())).collect();
    assert_eq!(files, [("notes.txt", "a note"), ("odd.bin", "")], "text files have contents, others only a name");
}

#[test]
fn repeated_import_adds_nothing() {
    let imported = check(FIRST).0.expect("it can be read");
    let chats = Chats::in_memory().expect("a database");
    let report = chats.import(&imported, TrashPolicy::Keep).expect("it can be written");
    assert_eq!((report.chats, report.messages, report.present), (2, 2, 0), "all chats are new");
    let again = chats.import(&check(FIRST).0.expect("it can be read"), TrashPolicy::Keep).expect("it can be written");
    assert_eq!((again.chats, again.messages, again.present), (0, 0, 2), "all chats are present");
    let page = chats.list(&ChatFilter::Unpinned, None, 10).expect("a list");
    assert_eq!(page.chats[0].title, "Bread", "last updated first");
    assert_eq!(chats.search("hour", 5).expect("a search").len(), 1, "imported messages are found");
}

#[test]
fn unsupported_schemas_are_rejected() {
    let rejected = |statements: &str, part: &str| {
        let error = check(statements).0.expect_err(part).to_string();
        assert!(error.contains(part), "{part}: {error}");
    };
    rejected("CREATE TABLE a (b);", "the table chats has no column id");
    rejected(
        &format!("{FIRST} ALTER TABLE messages DROP COLUMN thinking;"),
        "the table messages has no column thinking",
    );
    let home = tempfile::tempdir().expect("a temporary folder");
    let path = home.path().join("db.sqlite");
    let error = read(&path, &home.path().join("s"), String::new).expect_err("the file is missing").to_string();
    assert!(error.contains("cannot be read"), "{error}");
    std::fs::write(&path, "no database ".repeat(100)).expect("file is written");
    let error = read(&path, &home.path().join("s"), String::new).expect_err("not a database").to_string();
    assert!(error.contains("not an intact SQLite database"), "{error}");
}

/// Asserts that a file that may be endless is rejected quickly, with this reason.
fn assert_rejected(path: &Path, part: &str) {
    let (path, scratch) = (path.to_owned(), path.with_extension("scratch"));
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || sender.send(read(&path, &scratch, String::new).map(|chats| chats.len())));
    let outcome = receiver.recv_timeout(TIMEOUT).expect("the read does not block");
    let error = outcome.expect_err("the file is rejected").to_string();
    assert!(error.contains(part), "{part}: {error}");
}

#[cfg(unix)]
#[test]
fn pipes_and_devices_are_rejected_without_blocking() {
    let home = tempfile::tempdir().expect("a temporary folder");
    let pipe = |path: &Path| {
        let made = std::process::Command::new("mkfifo").arg(path).status().expect("mkfifo exists");
        assert!(made.success(), "pipe is created");
    };
    let path = home.path().join("db.sqlite");
    pipe(&path);
    assert_rejected(&path, "a pipe or a device");
    assert_rejected(Path::new("/dev/zero"), "a pipe or a device");
    let beside = home.path().join("other.sqlite");
    Connection::open(&beside).expect("a file").execute_batch(FIRST).expect("tables");
    pipe(&home.path().join("other.sqlite-wal"));
    assert_rejected(&beside, "a pipe or a device");
}

#[test]
fn endless_views_are_not_accepted_as_tables() {
    let endless = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n)";
    let home = tempfile::tempdir().expect("a temporary folder");
    let path = home.path().join("db.sqlite");
    let view = format!("CREATE VIEW chats AS {endless} SELECT i AS id, 'a' AS title, 0 AS created_at FROM n;");
    Connection::open(&path).expect("a file").execute_batch(&view).expect("a view");
    assert_rejected(&path, "the table chats has no column id");
}

#[test]
fn odd_values_do_not_fail_the_import() {
    let odd = "
        INSERT INTO chats VALUES ('c1', CAST(X'4FFF64' AS TEXT), 'once');
        INSERT INTO messages (chat_id, role, content) VALUES ('c1', 'user', X'6869'), ('c1', 'user', 7);";
    let imported = check(&format!("{FIRST}{odd}")).0.expect("it can be read");
    let titles: Vec<_> = imported.iter().map(title).collect();
    assert_eq!(titles, ["O\u{fffd}d", "", "Bread"], "all chats");
    let texts: Vec<_> = imported[0].export.messages.iter().map(|message| message.content.as_str()).collect();
    assert_eq!(texts, ["hi", "7"], "values converted to text");
}

#[test]
fn uncommitted_changes_are_not_read() {
    let home = tempfile::tempdir().expect("a temporary folder");
    let path = home.path().join("db.sqlite");
    let app = Connection::open(&path).expect("a file");
    app.execute_batch(FIRST).expect("tables");
    // With a tiny cache SQLite writes to the file before the commit.
    app.execute_batch("PRAGMA cache_size = 1; BEGIN; UPDATE chats SET title = 'uncommitted';").expect("a change");
    let long = "INSERT INTO messages (chat_id, role, content) VALUES ('b7', 'user', hex(randomblob(40000)))";
    for _ in 0..20 {
        app.execute(long, []).expect("more changes");
    }
    let imported = read(&path, &home.path().join("scratch"), || "new".to_owned()).expect("it can be read");
    let titles: Vec<_> = imported.iter().map(title).filter(|title| !title.is_empty()).collect();
    assert_eq!(titles, ["Bread"], "the committed title");
}
