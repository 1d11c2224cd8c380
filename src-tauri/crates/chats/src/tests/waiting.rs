//! Writes while another process writes, such as a backup program or a database tool.

use std::time::Duration;

use super::*;

/// Duration of the other process's write, below the busy timeout.
const WRITE_TIME: Duration = Duration::from_millis(300);

#[test]
fn writes_wait_for_another_writer() {
    let home = Home::new();
    home.create("c", 1);
    let question = home.add("c", None, "user", "why", 2);
    let answering = ChatMessage { state: MessageState::Answering, ..message("assistant", "", 3) };
    let answer = home.chats.add("c", Some(&question), &[answering], 3).expect("answer is added").remove(0).id;
    let progress = AnswerProgress { content: "because".to_owned(), ..AnswerProgress::default() };
    let check = |what: &str, write: &dyn Fn() -> Result<(), ChatsError>| {
        let other = rusqlite::Connection::open(home.folder.path().join("chats.sqlite")).expect("the file");
        other.execute_batch("BEGIN IMMEDIATE").expect("no other writer");
        let other = std::thread::spawn(move || {
            std::thread::sleep(WRITE_TIME);
            other.execute_batch("ROLLBACK").expect("rolled back");
        });
        let written = write();
        other.join().expect("thread ends");
        assert!(written.is_ok(), "{what}: {written:?}");
    };
    check("progress", &|| home.chats.write_progress(&answer, &progress));
    check("finish", &|| home.chats.finish("c", &answer, &progress, (MessageState::Complete, None), 4).map(drop));
    check("trash", &|| home.chats.set_deleted("c", Some(5)).map(drop));
    check("open", &|| Chats::open(&home.folder.path().join("chats.sqlite"), 6).map(drop));
}
