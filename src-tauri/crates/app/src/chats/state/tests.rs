//! Upkeep of the database: after errors, after a repair and at shutdown.

use std::io::{Seek, SeekFrom, Write};
use std::path::Path;
use std::time::{Duration, UNIX_EPOCH};

use cairn_chats::{ChatFilter, NewChatRequest};

use super::*;

const DAY_MS: i64 = 24 * 60 * 60 * 1000;
const NEVER: Duration = Duration::from_secs(60 * 60);
/// Title of the deleted chat. Its first letters may be shared with another word of the search index.
const SECRET: &str = "qaxtitlewort";

fn state_in(folder: &Path, delay: Duration, retry_delay: Duration) -> Arc<ChatState> {
    let clock = Clock::fixed(UNIX_EPOCH + Duration::from_millis(3 * DAY_MS.unsigned_abs()));
    Arc::new(ChatState::with_upkeep(folder.join("chats.sqlite"), clock, Upkeep::with_delays(delay, retry_delay)))
}

/// Deletes a chat forever that a backup has too. Requests no erasure.
fn delete_secret(chats: &Chats) {
    let titled = |title: &str| NewChatRequest { title: Some(title.to_owned()), ..NewChatRequest::default() };
    chats.create("other", &titled("another title"), 1).expect("a chat");
    chats.create("secret", &titled(SECRET), 1).expect("a chat");
    chats.back_up_if_due(2).expect("a backup");
    chats.delete("secret").expect("deleted");
}

/// Returns whether a file has the title of the deleted chat.
fn is_secret_in(folder: &Path) -> bool {
    let has_secret = |path: &Path| {
        let bytes = std::fs::read(path).expect("a file");
        bytes.windows(SECRET.len()).any(|window| window == SECRET.as_bytes())
    };
    let paths = std::fs::read_dir(folder).expect("the folder").map(|entry| entry.expect("an entry").path());
    paths.filter(|path| path.is_file()).any(|path| has_secret(&path))
}

#[test]
fn close_repeats_an_erasure_that_failed() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let state = state_in(folder.path(), Duration::ZERO, NEVER);
    let chats = state.stored(1).expect("a new file");
    delete_secret(&chats);
    // A folder cannot be removed as a file.
    let obstacle = folder.path().join("chats.damaged.1.sqlite");
    std::fs::create_dir(&obstacle).expect("a folder");
    state.request_upkeep(&chats);
    state.upkeep.finish();
    assert!(matches!(&*state.not_erased.lock(), Some(Error::NotErased(_))), "the erasure fails");
    assert!(is_secret_in(folder.path()), "the backup has the chat");
    std::fs::remove_dir(&obstacle).expect("the folder is removed");
    drop(chats);
    state.close();
    assert!(state.not_erased.lock().is_none(), "the erasure succeeds");
    assert!(!is_secret_in(folder.path()), "no file has the chat");
}

#[test]
fn close_leaves_no_log() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let state = state_in(folder.path(), Duration::ZERO, NEVER);
    let chats = state.stored(1).expect("a new file");
    chats.create("c", &NewChatRequest::default(), 1).expect("a chat");
    chats.chat("c").expect("a read");
    drop(chats);
    assert!(folder.path().join("chats.sqlite-wal").exists(), "the log is in use");
    state.close();
    assert!(!folder.path().join("chats.sqlite-wal").exists(), "the next start need not check the file");
}

#[test]
fn erasure_that_failed_is_repeated_without_a_request() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let state = state_in(folder.path(), Duration::ZERO, Duration::ZERO);
    let chats = state.stored(1).expect("a new file");
    let obstacle = folder.path().join("chats.damaged.1.sqlite");
    std::fs::create_dir(&obstacle).expect("a folder");
    delete_secret(&chats);
    state.request_upkeep(&chats);
    while state.not_erased.lock().is_none() {
        std::thread::yield_now();
    }
    std::fs::remove_dir(&obstacle).expect("the folder is removed");
    while state.not_erased.lock().is_some() {
        std::thread::yield_now();
    }
    assert!(!is_secret_in(folder.path()), "no file has the chat");
}

#[test]
fn repair_requests_upkeep() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("chats.sqlite");
    let chats = Chats::open(&path, 1).expect("a new file");
    chats.create("c", &NewChatRequest::default(), 1).expect("a chat");
    chats.back_up_if_due(2).expect("a backup");
    drop(chats);
    let state = state_in(folder.path(), Duration::ZERO, NEVER);
    let chats = state.stored(3).expect("the file");
    state.upkeep.finish();
    let daily = path.with_extension(format!("v6.{}.bak", 3 * DAY_MS));
    std::fs::remove_file(&daily).expect("the upkeep of the start wrote a backup");

    let mut file = std::fs::OpenOptions::new().write(true).open(&path).expect("the file");
    file.seek(SeekFrom::Start(4096)).expect("the second page");
    let length = file.metadata().expect("the file").len() - 4096;
    file.write_all(&vec![0xa5; usize::try_from(length).expect("a small file")]).expect("damaged");
    assert!(chats.list(&ChatFilter::Unpinned, None, 9).is_err(), "the damage is found");
    let chats = state.stored(4).expect("the file is repaired");
    assert!(chats.last_repair().is_some_and(|repair| repair.used_backup), "from the first backup");
    state.upkeep.finish();
    assert!(daily.exists(), "the upkeep after the repair wrote a backup");
}
