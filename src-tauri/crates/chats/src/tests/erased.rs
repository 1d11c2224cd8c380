//! "Delete forever" leaves no copy of a chat in any file of the folder: pages, search index, write-ahead log, backups.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};

use super::size::sentence;
use super::steps::step;
use super::*;

/// Words of the deleted chat, one for each place that stores text. None is part of another chat.
const SECRETS: [&str; 9] = [
    "qaxtitlewort",
    "qbxsystemwort",
    "qcxfolderwort",
    "qdxquestionwort",
    "qexanswerwort",
    "qfxthinkingwort",
    "qgxfilewort",
    "qhxresultwort",
    "秘密口令",
];

/// Returns the files of a folder that contain a secret word, in lower or upper case. The index stores a word without the beginning
/// that it shares with the word before, so the first three bytes are not compared.
fn occurrences(folder: &Path) -> Vec<String> {
    let mut found = Vec::new();
    for path in files_below(folder) {
        let bytes = std::fs::read(&path).expect("a file is readable").to_ascii_lowercase();
        let name = path.file_name().expect("a name").to_string_lossy().into_owned();
        let is_in = |word: &&&str| bytes.windows(word.len() - 3).any(|window| window == &word.as_bytes()[3..]);
        found.extend(SECRETS.iter().filter(is_in).map(|word| format!("{name}: {word}")));
    }
    found
}

fn files_below(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).expect("the folder exists").flatten();
    entries
        .flat_map(|entry| if entry.path().is_dir() { files_below(&entry.path()) } else { vec![entry.path()] })
        .collect()
}

/// Fills a database with other chats, so that pages are split and the index has several segments.
fn add_other_chats(home: &Home, from: u64, to: u64) {
    for n in from..to {
        let id = format!("other{n}");
        home.create(&id, 1);
        home.add(&id, None, "user", &sentence(n), 2);
    }
}

/// Adds a chat with every kind of text. Its answer is written several times, as it is while a model generates it.
fn add_secret_chat(home: &Home, id: &str) {
    let new = NewChatRequest {
        title: Some("Qaxtitlewort of a chat".to_owned()),
        system: Some("Qbxsystemwort is the system prompt".to_owned()),
        folder: Some("Qcxfolderwort".to_owned()),
        ..NewChatRequest::default()
    };
    home.chats.create(id, &new, 1).expect("a new chat");
    let file = AttachedFile { name: "notes.txt".to_owned(), text: "qgxfilewort ".repeat(600) };
    let question = ChatMessage { files: vec![file], ..message("user", "qdxquestionwort 秘密口令 again", 2) };
    let answering = ChatMessage { state: MessageState::Answering, ..message("assistant", "", 3) };
    let added = home.chats.add(id, None, &[question, answering], 3).expect("messages");
    let mut progress = AnswerProgress { steps: vec![step("qhxresultwort of a tool")], ..AnswerProgress::default() };
    for n in 0..30 {
        progress.content += &format!("qexanswerwort {} ", sentence(n));
        progress.thinking.get_or_insert_default().push_str("qfxthinkingwort ");
        home.chats.write_progress(&added[1].id, &progress).expect("progress");
    }
    home.chats.finish(id, &added[1].id, &progress, (MessageState::Complete, None), 4).expect("the end");
    home.add(id, Some(&added[0].id), "assistant", "qexanswerwort of another branch", 5);
}

#[test]
fn chat_that_is_deleted_forever_is_in_no_file() {
    let home = Home::new();
    add_other_chats(&home, 0, 40);
    add_secret_chat(&home, "c");
    add_other_chats(&home, 40, 80);
    let before = occurrences(home.folder.path()).join(", ");
    for word in SECRETS {
        assert!(
            before.contains(word),
            "{word} is in a file before the deletion, else this test finds nothing: {before}"
        );
    }
    home.chats.set_deleted("c", Some(10)).expect("trash");
    assert_ne!(occurrences(home.folder.path()), Vec::<String>::new(), "the trash keeps the chat");
    home.chats.delete("c").expect("deleted");
    home.chats.erase_deleted(11).expect("erased");
    let none = Vec::<String>::new();
    assert_eq!(occurrences(home.folder.path()), none, "after the deletion, with the database open");
    assert!(!home.chats.search("granite", 100).expect("a search").is_empty(), "other chats are found");
    let Home { folder, chats } = home;
    drop(chats);
    assert_eq!(occurrences(folder.path()), none, "after the database was closed");
}

#[test]
fn erasure_after_purge_covers_backups_and_set_aside_files() {
    let home = Home::new();
    add_other_chats(&home, 0, 3);
    add_secret_chat(&home, "c");
    home.chats.back_up_if_due(5).expect("a backup");
    let folder = home.folder.path();
    let copies = [
        "chats.damaged.4.sqlite",
        "chats.damaged.4.sqlite-wal",
        "chats.bak-partial",
        "chats.repaired",
        "chats.v1.3.bak",
    ];
    for name in copies {
        std::fs::copy(folder.join("chats.v6.5.bak"), folder.join(name)).expect("a copy");
    }
    let own = ["chats.2026.bak", "chats.damaged.old.sqlite", "chats.repaired.sqlite", "chats.sqlite.bak", "notes.txt"];
    for name in own {
        std::fs::write(folder.join(name), "not Cairn's").expect("a file of the user");
    }
    home.chats.set_deleted("c", Some(10)).expect("trash");
    home.chats.erase_deleted(11).expect("nothing to erase");
    assert!(occurrences(folder).iter().any(|found| found.starts_with("chats.v6.5.bak")), "the trash stays in backups");
    assert_eq!(home.chats.purge(11).expect("a purge"), ["c"], "the chat is purged");
    home.chats.erase_deleted(12).expect("erased");
    assert_eq!(occurrences(folder), Vec::<String>::new(), "no file has a word of the chat");
    let mut names: Vec<_> =
        files_below(folder).into_iter().filter_map(|path| path.file_name().map(std::ffi::OsStr::to_owned)).collect();
    names.sort();
    let mut kept = vec!["chats.sqlite", "chats.sqlite-shm", "chats.sqlite-wal", "chats.v6.12.bak"];
    kept.extend(own);
    kept.sort_unstable();
    assert_eq!(names, kept, "a new backup replaces the others, and files of the user stay");
    let backup = Chats::open(&folder.join("chats.v6.12.bak"), 13).expect("the backup is a database");
    assert_eq!(backup.list(&ChatFilter::Unpinned, None, 10).expect("a list").chats.len(), 3, "it has the other chats");
}

#[test]
fn erasure_is_repeated_after_a_kill() {
    let home = Home::new();
    add_secret_chat(&home, "c");
    home.chats.delete("c").expect("deleted");
    let after = home.after_kill();
    let copy = home.folder.path().join("after");
    assert_ne!(occurrences(&copy), Vec::<String>::new(), "the process was killed before the erasure");
    after.erase_deleted(5).expect("erased");
    assert_eq!(occurrences(&copy), Vec::<String>::new(), "the next process repeats it");
}

#[test]
fn erasure_is_repeated_after_another_program_read_the_log() {
    let home = Home::new();
    add_secret_chat(&home, "c");
    let other = rusqlite::Connection::open(home.folder.path().join("chats.sqlite")).expect("the file");
    other.execute_batch("BEGIN; SELECT count(*) FROM chats;").expect("a read transaction");
    home.chats.delete("c").expect("deleted");
    // SQLite calls this function before it waits for another program.
    static WAITED: AtomicBool = AtomicBool::new(false);
    let wait = |_| {
        WAITED.store(true, Ordering::Relaxed);
        false
    };
    let log = home.folder.path().join("chats.sqlite-wal");
    let log_bytes = || log.metadata().expect("the log").len();
    let before = log_bytes();
    for _ in 0..3 {
        home.chats.with_writer(|writer| Ok(writer.busy_handler(Some(wait))?)).expect("a function");
        let refused = home.chats.erase_deleted(5);
        assert!(matches!(refused, Err(ChatsError::LogInUse)), "the reader needs the log: {refused:?}");
        assert!(!WAITED.load(Ordering::Relaxed), "reads do not wait for the other program");
    }
    assert_eq!(log_bytes(), before, "a refused erasure writes nothing");
    assert!(home.chats.chat("c").is_err(), "the chat is deleted nevertheless");
    drop(other);
    home.chats.erase_deleted(6).expect("erased");
    assert_eq!(occurrences(home.folder.path()), Vec::<String>::new(), "the reader has ended");
}

#[test]
fn migration_from_version_2_erases_earlier_deletions() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("chats.sqlite");
    let old = schema::open(&path, &schema::MIGRATIONS[..2], 1).expect("a file of version 2");
    let rows = "
        PRAGMA secure_delete = OFF;
        INSERT INTO chats (id, title, titled, created_ms, updated_ms, options) VALUES ('c', '', 0, 1, 1, '{}'), ('d', '', 0, 1, 1, '{}');
        INSERT INTO found_titles (rowid, words, singles) VALUES (1, 'qaxtitlewort', '秘密口令');
        INSERT INTO messages (chat, depth, role, content, images, files, created_ms, state)
            VALUES (1, 0, 'user', 'qdxquestionwort', '[]', '[]', 1, 'complete');
        INSERT INTO found_messages (rowid, words, singles) VALUES (1, 'qdxquestionwort', '');
        DELETE FROM found_messages WHERE rowid = 1;
        DELETE FROM found_titles WHERE rowid = 1;
        DELETE FROM chats WHERE row = 1;";
    old.execute_batch(rows).expect("a deleted chat");
    drop(old);
    let words = ["qaxtitlewort", "qdxquestionwort"];
    let before = occurrences(folder.path()).join(", ");
    assert!(words.iter().all(|word| before.contains(word)), "version 2 leaves the words: {before}");
    let chats = Chats::open(&path, 2).expect("the file is migrated");
    chats.erase_deleted(3).expect("erased");
    assert_eq!(occurrences(folder.path()), Vec::<String>::new(), "no file has a word of the chat");
    assert!(chats.chat("d").is_ok(), "the other chat stays");
}
