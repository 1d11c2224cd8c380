//! Chats that are deleted forever leave no text in any file.

use std::path::Path;

use super::*;

/// Words of the deleted chat, also as the index stores them.
const WORDS: [&str; 5] = ["zanzibar", "quokka", "obsidian", "marzipan", "schadenfreude"];

/// The words of [`WORDS`] that a file of the folder contains, in any case.
fn words_in_files(folder: &Path) -> Vec<String> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).expect("the folder exists").flatten() {
        let path = entry.path();
        let bytes = std::fs::read(&path).unwrap_or_default().to_ascii_lowercase();
        let contains = |word: &str| bytes.windows(word.len()).any(|window| window == word.as_bytes());
        found.extend(
            WORDS.into_iter().filter(|word| contains(word)).map(|word| format!("{word} in {}", path.display())),
        );
    }
    found
}

/// Creates a chat with one word of [`WORDS`] in each of its texts, and a chat that stays.
fn fill(home: &Home, id: &str) {
    home.create(id, 1);
    home.chats.set_title(id, "Zanzibar", TitleSource::User).expect("a title");
    let question = home.add(id, None, "user", "quokka obsidian", 2);
    home.add(id, Some(&question), "assistant", "Marzipan and schadenfreude", 3);
    home.create(&format!("{id}-other"), 4);
    home.add(&format!("{id}-other"), None, "user", "bread", 5);
}

#[test]
fn deleted_chat_leaves_no_text_in_any_file() {
    let home = Home::new();
    let folder = home.folder.path();
    std::fs::write(folder.join("chats.v1.5.bak"), "an older chat about a quokka").expect("a backup");
    fill(&home, "a");
    for word in WORDS {
        assert!(words_in_files(folder).iter().any(|found| found.starts_with(word)), "{word} is stored");
    }
    home.chats.delete("a").expect("deleted");
    assert_eq!(words_in_files(folder), [""; 0], "after the first deletion");
    fill(&home, "b");
    home.chats.set_deleted("b", Some(9)).expect("in the trash");
    assert!(!words_in_files(folder).is_empty(), "the trash keeps the texts");
    assert_eq!(home.chats.purge(10).expect("a purge"), ["b"]);
    assert_eq!(words_in_files(folder), [""; 0], "after the purge");
    assert_eq!(home.chats.search("bread", 5).expect("a search").len(), 2, "other chats are still found");
}

#[test]
fn log_of_a_killed_process_is_truncated_at_the_next_start() {
    let home = Home::new();
    fill(&home, "a");
    let log = |folder: &Path| std::fs::metadata(folder.join("chats.sqlite-wal")).map_or(0, |found| found.len());
    assert!(log(home.folder.path()) > 0, "changes are in the log");
    let _chats = home.after_kill();
    assert_eq!(log(&home.folder.path().join("after")), 0, "the start empties the log");
}
