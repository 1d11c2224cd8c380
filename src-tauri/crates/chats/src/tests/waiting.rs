//! Another process writes: a backup program, or a person with a tool for databases.

use std::time::Duration;

use super::*;

/// How long the other process writes. It is less than anybody waits for it.
const WRITES: Duration = Duration::from_millis(300);

#[test]
fn whoever_writes_waits_for_another_process_that_does() {
    let home = Home::new();
    home.create("c", 1);
    let asked = home.say("c", None, "user", "why", 2);
    let answering = Said { state: State::Answering, ..Said::new("assistant", "", 3) };
    let answer = home.chats.add("c", Some(asked), &[answering], 3).expect("an answer begins")[0].id;
    let progress = Progress { content: "because".to_owned(), ..Progress::default() };
    let check = |what: &str, write: &dyn Fn() -> Result<(), ChatsError>| {
        let other = rusqlite::Connection::open(home.folder.path().join("chats.sqlite")).expect("the file");
        other.execute_batch("BEGIN IMMEDIATE").expect("nobody else writes");
        let other = std::thread::spawn(move || {
            std::thread::sleep(WRITES);
            other.execute_batch("ROLLBACK").expect("it has written nothing");
        });
        let written = write();
        other.join().expect("it ended");
        assert!(written.is_ok(), "{what}: {written:?}");
    };
    check("how far an answer has come", &|| home.chats.write_progress(answer, &progress));
    check("its end", &|| home.chats.finish("c", answer, &progress, (State::Complete, None), 4).map(drop));
    check("the trash", &|| home.chats.set_deleted("c", Some(5)).map(drop));
    check("opening", &|| Chats::open(&home.folder.path().join("chats.sqlite"), 6).map(drop));
}
