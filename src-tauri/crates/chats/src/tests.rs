//! Chats in a real file: trees, lists, the trash, search, and recovery after a kill.

mod beginnings;
mod branches;
mod chinese;
mod erased;
mod interrupted;
mod long;
mod repaired;
mod size;
mod sources;
mod steps;
mod waiting;

use std::time::Duration;

use cairn_wire::{ErrorBody, ErrorCode, Think, Timestamp, Usage};

use super::*;

/// Temporary folder with a chat database.
struct Home {
    folder: tempfile::TempDir,
    chats: Chats,
}

impl Home {
    fn new() -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let chats = Chats::open(&folder.path().join("chats.sqlite"), 1).expect("a new file");
        Self { folder, chats }
    }

    /// Opens a copy of the file as after a kill: no connection was closed and nothing checkpointed.
    fn after_kill(&self) -> Chats {
        let copy = self.folder.path().join("after");
        std::fs::create_dir_all(&copy).expect("folder is created");
        for name in ["chats.sqlite", "chats.sqlite-wal"] {
            std::fs::copy(self.folder.path().join(name), copy.join(name)).expect("file is copied");
        }
        Chats::open(&copy.join("chats.sqlite"), 2).expect("the copy can be opened")
    }

    fn create(&self, id: &str, now_ms: i64) -> StoredChat {
        self.chats.create(id, &NewChatRequest::default(), now_ms).expect("a new chat")
    }

    fn add(&self, chat: &str, parent: Option<&str>, role: &str, text: &str, now_ms: i64) -> String {
        let messages = [message(role, text, now_ms)];
        self.chats.add(chat, parent, &messages, now_ms).expect("written").remove(0).id
    }

    fn texts(&self, chat: &str, leaf: Option<&str>) -> Vec<String> {
        let path = self.chats.path(chat, leaf, None, usize::MAX).expect("a path");
        path.messages.into_iter().map(|message| message.content).collect()
    }

    fn update(&self, id: &str, change: &ChatChange) {
        self.chats.update(id, change, TitleSource::User).expect("updated");
    }
}

fn quick_check(connection: &Connection) -> Result<(), ChatsError> {
    Ok(cairn_sqlite::quick_check(connection)?)
}

fn at(ms: i64) -> Timestamp {
    Timestamp::from_unix_ms(ms)
}

/// Creates a complete message.
fn message(role: &str, text: &str, created_ms: i64) -> ChatMessage {
    ChatMessage::new(role, text, at(created_ms))
}

/// Creates a chat to import whose origin is `test:` and its id.
fn imported(id: &str, messages: Vec<ChatMessage>) -> ImportedChat {
    let row = ChatRow {
        id: id.to_owned(),
        title: id.to_owned(),
        model: None,
        folder: None,
        pinned: false,
        created_at: at(1),
        updated_at: at(2),
        deleted_at: None,
        message_count: messages.len() as u64,
    };
    let options = serde_json::Map::new();
    let chat = StoredChat { row, system: None, options, think: None, preset: None, collection: None, head: None };
    ImportedChat { origin: format!("test:{id}"), export: ExportedChat { chat, messages } }
}

#[test]
fn messages_form_a_tree() {
    let home = Home::new();
    home.create("c", 1);
    let one = home.add("c", None, "user", "one", 2);
    let two = home.add("c", Some(&one), "assistant", "two", 3);
    let three = home.add("c", Some(&two), "user", "three", 4);
    let other_two = home.add("c", Some(&one), "assistant", "other two", 5);
    assert_eq!(home.texts("c", None), ["one", "other two"], "the newest message is the head");
    assert_eq!(home.texts("c", Some(&three)), ["one", "two", "three"], "the other branch is kept");
    let path = home.chats.path("c", None, None, 10).expect("a path");
    assert_eq!(path.messages[1].versions, [two.as_str(), &other_two], "siblings are listed");
    home.chats.select_branch("c", &two).expect("a branch");
    let head = home.chats.chat("c").expect("it exists").head;
    assert_eq!(head, Some(three), "the head is the end of the branch");
    assert_eq!(home.texts("c", None), ["one", "two", "three"], "the selection is stored");
    let another_beginning = home.add("c", None, "user", "uno", 6);
    let path = home.chats.path("c", None, None, 10).expect("a path");
    assert_eq!(path.messages[0].versions, [one.as_str(), &another_beginning], "first messages have siblings too");
    assert_eq!(home.chats.chat("c").expect("it exists").row.message_count, 5, "messages of all branches count");

    home.create("d", 7);
    let foreign = home.chats.add("d", Some(&one), &[message("user", "x", 8)], 8);
    assert!(matches!(foreign, Err(ChatsError::MessageNotFound(_))), "the parent is in another chat");
    assert!(home.chats.path("d", Some(&one), None, 5).is_err(), "the leaf is in another chat");
    assert!(home.chats.path("none", None, None, 5).is_err(), "no such chat");
}

#[test]
fn long_paths_are_read_in_pages() {
    let home = Home::new();
    home.create("c", 1);
    let body: Vec<ChatMessage> = (0..100).map(|n| message("user", &n.to_string(), n)).collect();
    home.chats.add("c", None, &body, 100).expect("written");
    let last = home.chats.path("c", None, None, 30).expect("a page");
    assert_eq!((last.total, last.before, last.messages.len()), (100, 70, 30), "the last page");
    let before = home.chats.path("c", None, Some(&last.messages[0].id), 30).expect("a page");
    assert_eq!((before.total, before.before), (100, 40), "the page before");
    assert_eq!(before.messages[29].content, "69", "its last message");
    let first = home.chats.path("c", None, Some(&home.chats.messages("c").expect("all")[0].id), 30).expect("a page");
    assert_eq!((first.messages.len(), first.before), (0, 0), "no page before the first message");
}

#[test]
fn lists_are_paged_and_sorted_by_last_update() {
    let home = Home::new();
    for n in 0..25 {
        home.create(&format!("c{n}"), n);
    }
    home.add("c3", None, "user", "hello", 100);
    home.update("c7", &ChatChange { pinned: Some(true), ..ChatChange::default() });
    home.chats.set_deleted("c9", Some(50)).expect("deleted");
    let (mut after, mut ids) = (None, Vec::new());
    loop {
        let page = home.chats.list(&ChatFilter::Unpinned, after.as_deref(), 10).expect("a page");
        ids.extend(page.chats.into_iter().map(|chat| chat.id));
        match page.next {
            Some(next) => after = Some(next),
            None => break,
        }
    }
    let expected: Vec<String> =
        [3].into_iter().chain((0..25).rev().filter(|n| ![3, 7, 9].contains(n))).map(|n| format!("c{n}")).collect();
    assert_eq!(ids, expected, "each chat once, in order");
    let pinned = home.chats.list(&ChatFilter::Pinned, None, 10).expect("a page").chats;
    assert_eq!(
        pinned.iter().map(|chat| chat.id.as_str()).collect::<Vec<_>>(),
        ["c7"],
        "pinned chats have a separate list"
    );
    assert!(
        matches!(home.chats.list(&ChatFilter::Unpinned, Some("x"), 5), Err(ChatsError::InvalidPageCursor(_))),
        "invalid cursor"
    );
}

#[test]
fn folders_exist_while_they_contain_chats() {
    let home = Home::new();
    home.create("a", 1);
    home.create("b", 2);
    let folder = |name: Option<&str>| ChatChange { folder: Some(name.map(str::to_owned)), ..ChatChange::default() };
    home.update("a", &folder(Some("Work")));
    home.update("b", &folder(Some("Work")));
    assert_eq!(home.chats.folders().expect("a list"), [ChatFolder { name: "Work".to_owned(), chats: 2 }], "both chats");
    home.chats.set_deleted("b", Some(5)).expect("deleted");
    let inside = home.chats.list(&ChatFilter::Folder("Work".to_owned()), None, 10).expect("a page").chats;
    assert_eq!(
        inside.iter().map(|chat| chat.id.as_str()).collect::<Vec<_>>(),
        ["a"],
        "chats in the trash are left out"
    );
    home.update("a", &folder(None));
    assert_eq!(home.chats.folders().expect("a list"), [], "empty folders are not listed");
}

#[test]
fn trashed_chats_can_be_restored_until_the_purge() {
    let home = Home::new();
    home.create("a", 1);
    home.add("a", None, "user", "granite", 2);
    home.create("b", 3);
    let found = || home.chats.search("granite", 5).expect("a search").len();
    assert_eq!(found(), 1, "the message is found");
    home.chats.set_deleted("a", Some(10)).expect("deleted");
    assert_eq!(found(), 0, "the trash is not searched");
    let trash = home.chats.list(&ChatFilter::Trash, None, 5).expect("a list").chats;
    assert_eq!(trash[0].deleted_at, Some(at(10)), "time of deletion");
    home.chats.set_deleted("a", None).expect("restored");
    assert_eq!(found(), 1, "the restored message is found");
    home.chats.set_deleted("a", Some(10)).expect("deleted");
    assert_eq!(home.chats.purge(10).expect("a purge"), Vec::<String>::new(), "the deletion is too recent");
    assert_eq!(home.chats.purge(11).expect("a purge"), ["a"], "the deletion is old enough");
    assert!(home.chats.chat("a").is_err(), "the purged chat is gone");
    assert!(home.chats.chat("b").is_ok(), "other chats stay");
    home.chats.set_deleted("b", Some(-5)).expect("deleted with a clock that was set back");
    let since = home.chats.chat("b").expect("it exists").row.deleted_at;
    assert_eq!(since, Some(at(3)), "not before the last update");
    home.chats.delete("b").expect("deleted");
    assert!(home.chats.delete("b").is_err(), "a deleted chat cannot be deleted again");
}

#[test]
fn titles_from_users_take_precedence() {
    let home = Home::new();
    home.create("a", 1);
    let set_title = |title: &str, source| home.chats.set_title("a", title, source).expect("written").is_some();
    assert!(set_title("How do I", TitleSource::FirstWords), "the chat had no title");
    assert!(!set_title("What is", TitleSource::FirstWords), "first words do not replace first words");
    assert!(set_title("Bread", TitleSource::Model), "a model's title replaces first words");
    home.update("a", &ChatChange { title: Some("Mine".to_owned()), ..ChatChange::default() });
    assert_eq!(home.chats.title_source("a").expect("it exists"), TitleSource::User);
    assert!(!set_title("Bread again", TitleSource::Model), "a model's title does not replace a user's");
    assert_eq!(home.chats.search("mine", 5).expect("a search")[0].message, None, "the title is found");
    assert_eq!(home.chats.search("bread", 5).expect("a search"), [], "old titles are not found");
}

#[test]
fn running_answer_is_marked_interrupted_after_a_kill() {
    let home = Home::new();
    home.create("a", 1);
    let answer = ChatMessage { state: MessageState::Answering, ..message("assistant", "", 3) };
    let added = home.chats.add("a", None, &[message("user", "tell me", 2), answer], 3).expect("both");
    let so_far = AnswerProgress {
        content: "granite is".to_owned(),
        thinking: Some("hm".to_owned()),
        thinking_ms: Some(5),
        usage: Some(Usage { answer_tokens: 2, ..Usage::default() }),
        ..AnswerProgress::default()
    };
    home.chats.write_progress(&added[1].id, &so_far).expect("written");
    assert_eq!(home.chats.search("granite", 5).expect("a search"), [], "running answers are not found");

    let after = home.after_kill();
    assert_eq!(after.interrupted(), 1, "one answer was interrupted");
    let path = after.path("a", None, None, 10).expect("a path");
    let answer = &path.messages[1];
    assert_eq!(
        (answer.state, answer.content.as_str(), answer.thinking_ms),
        (MessageState::Interrupted, "granite is", Some(5)),
        "state and contents"
    );
    assert_eq!(answer.usage, so_far.usage, "the usage is kept");
    assert_eq!(after.search("granite", 5).expect("a search").len(), 1, "interrupted answers are found");

    let id = answer.id.as_str();
    let resumed = after.resume_answer("a", id).expect("the answer is resumed");
    assert_eq!(resumed.state, MessageState::Answering, "state after resuming");
    let usage = Some(Usage { answer_tokens: 3, answer: Duration::from_millis(7), ..Usage::default() });
    let whole = AnswerProgress { content: "granite is hard".to_owned(), usage: usage.clone(), ..so_far };
    let ended = after.finish("a", id, &whole, (MessageState::Complete, None), 9).expect("finished");
    assert_eq!((ended.state, ended.usage), (MessageState::Complete, usage), "final state");
    after.write_progress(id, &AnswerProgress::default()).expect("written");
    let content = after.message("a", id).expect("it exists").content;
    assert_eq!(content, "granite is hard", "late progress is ignored");
    assert_eq!(after.search("hard", 5).expect("a search").len(), 1, "the whole answer is found");
}

#[test]
fn presets_are_stored_replaced_and_deleted() {
    let chats = Chats::in_memory().expect("a database");
    let options = serde_json::json!({"temperature": 0.2}).as_object().cloned().unwrap_or_default();
    let preset = Preset { name: "Terse".to_owned(), options, think: Some(Think::Switch(false)), ..Preset::default() };
    chats.put_preset(&preset).expect("stored");
    assert_eq!(chats.preset("Terse").expect("it exists"), preset, "same preset");
    chats.put_preset(&Preset { model: Some("m".to_owned()), ..preset }).expect("replaced");
    assert_eq!(chats.presets().expect("a list").len(), 1, "one preset per name");
    chats.delete_preset("Terse").expect("deleted");
    assert!(matches!(chats.preset("Terse"), Err(ChatsError::PresetNotFound(_))), "the preset is gone");
}

#[test]
fn inconsistent_trees_are_not_imported() {
    let chats = Chats::in_memory().expect("a database");
    let node = |id: &str, parent: Option<&str>| ChatMessage {
        id: id.to_owned(),
        parent: parent.map(str::to_owned),
        ..message("user", id, 1)
    };
    let imported = |id: &str, messages: Vec<ChatMessage>, head: Option<&str>| {
        let mut imported = imported(id, messages);
        imported.export.chat.head = head.map(str::to_owned);
        imported
    };
    let report = chats
        .import(
            &[
                imported("good", vec![node("x", None), node("y", Some("x")), node("z", Some("x"))], Some("y")),
                imported("orphan", vec![node("x", Some("y")), node("y", None)], None),
                imported("twice", vec![node("x", None), node("x", None)], None),
                imported("headless", vec![node("x", None)], Some("q")),
            ],
            TrashPolicy::Keep,
        )
        .expect("written");
    assert_eq!((report.chats, report.messages), (1, 3), "consistent chats");
    let skipped: Vec<&str> = report.skipped.iter().map(|skipped| skipped.title.as_str()).collect();
    assert_eq!(skipped, ["orphan", "twice", "headless"], "inconsistent chats");
    let path = chats.path("good", None, None, 5).expect("a path");
    assert_eq!(path.messages[1].content, "y", "the head of the source is kept");
    assert_eq!(path.messages[1].versions.len(), 2, "siblings are imported");
}

#[test]
fn import_of_an_export_restores_trashed_chats() {
    let chats = Chats::in_memory().expect("a database");
    let imported = [imported("c", vec![ChatMessage { id: "x".to_owned(), ..message("user", "x", 1) }])];
    let import = |trash| chats.import(&imported, trash).expect("imported");
    assert_eq!(
        (import(TrashPolicy::Restore).chats, import(TrashPolicy::Restore).present),
        (1, 1),
        "new at first, then present"
    );
    chats.set_deleted("c", Some(5)).expect("deleted");
    let kept = import(TrashPolicy::Keep);
    assert_eq!((kept.chats, kept.present), (0, 1), "`Keep` restores nothing");
    assert!(chats.chat("c").expect("it exists").row.deleted_at.is_some(), "the chat stays in the trash");
    let restored = import(TrashPolicy::Restore);
    let expected = (1, 1, 0);
    assert_eq!((restored.chats, restored.messages, restored.present), expected, "`Restore` restores the chat");
    assert_eq!(chats.chat("c").expect("it exists").row.deleted_at, None, "the chat is out of the trash");
    assert_eq!(
        chats.path("c", None, None, 5).expect("a path").messages.len(),
        1,
        "its messages are not imported twice"
    );
}

#[test]
fn failed_answers_keep_the_code_of_their_error() {
    let home = Home::new();
    home.create("a", 1);
    let answering = ChatMessage { state: MessageState::Answering, ..message("assistant", "", 2) };
    let answer = home.chats.add("a", None, &[answering], 2).expect("written").remove(0).id;
    let params = [("model".to_owned(), "m".to_owned())].into();
    let error = ErrorBody { error: "model 'm' not found".to_owned(), code: Some(ErrorCode::ModelNotFound), params };
    let end = (MessageState::Failed, Some(&error));
    let failed = home.chats.finish("a", &answer, &AnswerProgress::default(), end, 3).expect("finished");
    assert_eq!(failed.error.as_ref(), Some(&error), "code and parameters are stored");
    let resumed = home.chats.resume_answer("a", &answer).expect("the answer is resumed");
    assert_eq!(resumed.error, None, "a resumed answer has no error");
    let plain = ErrorBody::text("out of memory");
    let end = (MessageState::Failed, Some(&plain));
    let failed = home.chats.finish("a", &answer, &AnswerProgress::default(), end, 4).expect("finished");
    assert_eq!(failed.error, Some(plain), "an error without a code");
}
