//! A chat that was deleted forever is in no file of the home: database, write-ahead log, search index, backups, chunks, index of the tiers,
//! logs.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::deleted::{own, shut_down, tiered_home, words};
use crate::cairn::Home;

fn files_below(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).expect("the folder exists").flatten();
    entries
        .flat_map(|entry| if entry.path().is_dir() { files_below(&entry.path()) } else { vec![entry.path()] })
        .collect()
}

/// Returns the files that contain a secret, in lower or upper case. The search index stores a word without the beginning that it
/// shares with the word before, so the first three bytes are not compared.
fn occurrences(home: &Home, secrets: &[String]) -> Vec<String> {
    let mut found = Vec::new();
    for path in files_below(home.folder.path()) {
        // Sockets and files that are removed during the search cannot be read.
        let Ok(bytes) = std::fs::read(&path) else { continue };
        let text = String::from_utf8_lossy(&bytes).to_ascii_lowercase();
        let is_in = |secret: &&String| text.contains(&secret[3..]);
        found.extend(secrets.iter().filter(is_in).map(|secret| format!("{}: {secret}", path.display())));
    }
    found
}

fn chat(home: &Home, model: &str, more: &Value, content: &str) -> (String, String) {
    let mut new = json!({"model": model, "options": {"temperature": 0, "num_predict": 24}});
    new.as_object_mut().expect("an object").extend(more.as_object().cloned().unwrap_or_default());
    let created = own(home, "POST", "/app/chats", &new);
    let id = created["id"].as_str().expect("a chat has an id").to_owned();
    own(home, "POST", &format!("/app/chats/{id}/messages"), &json!({"content": content}));
    let messages = own(home, "GET", &format!("/app/chats/{id}/messages"), &Value::Null);
    let answer = messages["messages"][1]["content"].as_str().unwrap_or_default().to_owned();
    (id, answer)
}

/// Waits until a condition of the files of the home holds.
fn wait_for(home: &Home, secrets: &[String], expected: &str, condition: impl Fn(&[String]) -> bool) {
    let deadline = Instant::now() + Duration::from_secs(60);
    loop {
        let found = occurrences(home, secrets);
        if condition(&found) {
            return;
        }
        assert!(Instant::now() < deadline, "timeout: {expected}: {found:?}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn chat_that_is_deleted_forever_is_in_no_file_of_the_home() {
    let (home, folder) = tiered_home("tier", &cairn_testkit::tiny_llama());
    let home = home.with("CAIRN_LOG", "trace");
    let daemon = home.serve();
    chat(&home, "m", &json!({}), &words(1, 120));
    // Chunks are written to the disk at the latest when the daemon stops.
    shut_down(daemon);
    let kept = cairn_testkit::chunk_files(&folder);
    assert!(!kept.is_empty(), "the other chat has chunks");

    let daemon = home.serve();
    let more = json!({"title": "Qaxtitlewort", "system": "qbxsystemwort", "folder": "Qcxfolderwort"});
    let (tiny, _) = chat(&home, "m", &more, &format!("qdxquestionwort {}", words(2, 120)));
    let (pebble, answer) = chat(&home, "pebble", &json!({}), "How do I pull a model, qexpebblewort?");
    let answer = answer.to_ascii_lowercase();
    let ascii = answer.split(|c: char| !c.is_ascii()).max_by_key(|part| part.len()).unwrap_or_default().to_owned();
    assert!(ascii.len() > 20, "Pebble answers: {answer:?}");
    shut_down(daemon);
    assert!(cairn_testkit::chunk_files(&folder).len() > kept.len(), "the chat has chunks");
    let is_backup = |path: &PathBuf| path.extension().is_some_and(|extension| extension == "bak");
    for backup in files_below(&home.folder.path().join("chats")).into_iter().filter(is_backup) {
        std::fs::remove_file(backup).expect("the backup of today is removed");
    }
    let daemon = home.serve();
    // The first list of a daemon requests the daily backup, which is due again.
    own(&home, "GET", "/app/chats", &Value::Null);

    let words = ["qaxtitlewort", "qbxsystemwort", "qcxfolderwort", "qdxquestionwort", "qexpebblewort"];
    let secrets: Vec<String> = words.iter().map(|word| (*word).to_owned()).chain([ascii]).collect();
    wait_for(&home, &secrets, "a backup has the chats", |found| {
        found.iter().any(|file| file.ends_with(".bak: qdxquestionwort"))
    });
    let before = occurrences(&home, &secrets).join("\n");
    for secret in &secrets {
        assert!(before.contains(secret), "{secret} is in a file before the deletion: {before}");
    }
    let delete = |id: &str| own(&home, "DELETE", &format!("/app/chats/{id}?forever=true"), &Value::Null);
    delete(&tiny);
    // A deletion waits until the files of chunks are removed.
    assert_eq!(cairn_testkit::chunk_files(&folder), kept, "only chunks of the other chat are left");
    wait_for(&home, &secrets[..4], "the chat is in no file while the daemon runs", <[String]>::is_empty);
    assert!(!occurrences(&home, &secrets).is_empty(), "the other chat is stored");
    delete(&pebble);
    shut_down(daemon);
    assert_eq!(occurrences(&home, &secrets), Vec::<String>::new(), "after the daemon stopped");
    assert_eq!(cairn_testkit::chunk_files(&folder), kept, "no chunk is written at shutdown");
}
