//! Chats in a real file: trees, lists, the trash, search, and recovery after a kill.

mod beginnings;
mod chinese;
mod long;
mod size;
mod waiting;

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

    fn create(&self, id: &str, now_ms: i64) -> Chat {
        self.chats.create(&NewChat { id: id.to_owned(), ..NewChat::default() }, now_ms).expect("a new chat")
    }

    fn add(&self, chat: &str, parent: Option<MessageId>, role: &str, text: &str, now_ms: i64) -> MessageId {
        let body = [MessageBody::new(role, text, now_ms)];
        self.chats.add(chat, parent, &body, now_ms).expect("written")[0].id
    }

    fn texts(&self, chat: &str, leaf: Option<MessageId>) -> Vec<String> {
        let path = self.chats.path(chat, leaf, None, usize::MAX).expect("a path");
        path.messages.into_iter().map(|message| message.body.content).collect()
    }
}

#[test]
fn messages_form_a_tree() {
    let home = Home::new();
    home.create("c", 1);
    let one = home.add("c", None, "user", "one", 2);
    let two = home.add("c", Some(one), "assistant", "two", 3);
    let three = home.add("c", Some(two), "user", "three", 4);
    let other_two = home.add("c", Some(one), "assistant", "other two", 5);
    assert_eq!(home.texts("c", None), ["one", "other two"], "the newest message is the head");
    assert_eq!(home.texts("c", Some(three)), ["one", "two", "three"], "the other branch is kept");
    let path = home.chats.path("c", None, None, 10).expect("a path");
    assert_eq!(path.messages[1].versions, [two, other_two], "siblings are listed");
    assert_eq!(home.chats.select_branch("c", two).expect("a branch"), three, "the head is the end of the branch");
    assert_eq!(home.texts("c", None), ["one", "two", "three"], "the selection is stored");
    let another_beginning = home.add("c", None, "user", "uno", 6);
    let path = home.chats.path("c", None, None, 10).expect("a path");
    assert_eq!(path.messages[0].versions, [one, another_beginning], "first messages have siblings too");
    assert_eq!(home.chats.chat("c").expect("it exists").row.messages, 5, "messages of all branches count");

    home.create("d", 7);
    let foreign = home.chats.add("d", Some(one), &[MessageBody::new("user", "x", 8)], 8);
    assert!(matches!(foreign, Err(ChatsError::MessageNotFound(_))), "the parent is in another chat");
    assert!(home.chats.path("d", Some(one), None, 5).is_err(), "the leaf is in another chat");
    assert!(home.chats.path("none", None, None, 5).is_err(), "no such chat");
}

#[test]
fn long_paths_are_read_in_pages() {
    let home = Home::new();
    home.create("c", 1);
    let body: Vec<MessageBody> = (0..100).map(|n| MessageBody::new("user", n.to_string(), n)).collect();
    home.chats.add("c", None, &body, 100).expect("written");
    let last = home.chats.path("c", None, None, 30).expect("a page");
    assert_eq!((last.total, last.before, last.messages.len()), (100, 70, 30), "the last page");
    let before = home.chats.path("c", None, Some(last.messages[0].id), 30).expect("a page");
    assert_eq!((before.total, before.before), (100, 40), "the page before");
    assert_eq!(before.messages[29].body.content, "69", "its last message");
    let first = home.chats.path("c", None, Some(home.chats.messages("c").expect("all")[0].id), 30).expect("a page");
    assert_eq!((first.messages.len(), first.before), (0, 0), "no page before the first message");
}

#[test]
fn lists_are_paged_and_sorted_by_last_update() {
    let home = Home::new();
    for n in 0..25 {
        home.create(&format!("c{n}"), n);
    }
    home.add("c3", None, "user", "hello", 100);
    home.chats.update("c7", &ChatUpdate { pinned: Some(true), ..ChatUpdate::default() }).expect("pinned");
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
    let folder = |name: Option<&str>| ChatUpdate { folder: Some(name.map(str::to_owned)), ..ChatUpdate::default() };
    home.chats.update("a", &folder(Some("Work"))).expect("moved");
    home.chats.update("b", &folder(Some("Work"))).expect("moved");
    assert_eq!(home.chats.folders().expect("a list"), [("Work".to_owned(), 2)], "both chats");
    home.chats.set_deleted("b", Some(5)).expect("deleted");
    let inside = home.chats.list(&ChatFilter::Folder("Work".to_owned()), None, 10).expect("a page").chats;
    assert_eq!(
        inside.iter().map(|chat| chat.id.as_str()).collect::<Vec<_>>(),
        ["a"],
        "chats in the trash are left out"
    );
    home.chats.update("a", &folder(None)).expect("moved out");
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
    assert_eq!(trash[0].deleted_ms, Some(10), "time of deletion");
    home.chats.set_deleted("a", None).expect("restored");
    assert_eq!(found(), 1, "the restored message is found");
    home.chats.set_deleted("a", Some(10)).expect("deleted");
    assert_eq!(home.chats.purge(10).expect("a purge"), Vec::<String>::new(), "the deletion is too recent");
    assert_eq!(home.chats.purge(11).expect("a purge"), ["a"], "the deletion is old enough");
    assert!(home.chats.chat("a").is_err(), "the purged chat is gone");
    assert!(home.chats.chat("b").is_ok(), "other chats stay");
    home.chats.set_deleted("b", Some(-5)).expect("deleted with a clock that was set back");
    let since = home.chats.chat("b").expect("it exists").row.deleted_ms;
    assert_eq!(since, Some(3), "not before the last update");
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
    let named = ChatUpdate { title: Some(("Mine".to_owned(), TitleSource::User)), ..ChatUpdate::default() };
    home.chats.update("a", &named).expect("named");
    assert!(!set_title("Bread again", TitleSource::Model), "a model's title does not replace a user's");
    assert_eq!(home.chats.search("mine", 5).expect("a search")[0].message, None, "the title is found");
    assert_eq!(home.chats.search("bread", 5).expect("a search"), [], "old titles are not found");
}

#[test]
fn running_answer_is_marked_interrupted_after_a_kill() {
    let home = Home::new();
    home.create("a", 1);
    let answer = MessageBody { state: MessageState::Answering, ..MessageBody::new("assistant", "", 3) };
    let added = home.chats.add("a", None, &[MessageBody::new("user", "tell me", 2), answer], 3).expect("both");
    let so_far = AnswerProgress {
        content: "granite is".to_owned(),
        thinking: Some("hm".to_owned()),
        thinking_ms: Some(5),
        stats: Some(serde_json::json!({"answer_tokens": 2})),
    };
    home.chats.write_progress(added[1].id, &so_far).expect("written");
    assert_eq!(home.chats.search("granite", 5).expect("a search"), [], "running answers are not found");

    let after = home.after_kill();
    assert_eq!(after.interrupted(), 1, "one answer was interrupted");
    let path = after.path("a", None, None, 10).expect("a path");
    let body = &path.messages[1].body;
    assert_eq!(
        (body.state, body.content.as_str(), body.thinking_ms),
        (MessageState::Interrupted, "granite is", Some(5)),
        "state and contents"
    );
    assert_eq!(body.stats, so_far.stats, "statistics are kept");
    assert_eq!(after.search("granite", 5).expect("a search").len(), 1, "interrupted answers are found");

    let id = path.messages[1].id;
    let resumed = after.resume_answer("a", id).expect("the answer is resumed");
    assert_eq!(resumed.body.state, MessageState::Answering, "state after resuming");
    let stats = Some(serde_json::json!({"answer_tokens": 3}));
    let whole = AnswerProgress { content: "granite is hard".to_owned(), stats: stats.clone(), ..so_far };
    let ended = after.finish("a", id, &whole, (MessageState::Complete, None), 9).expect("finished");
    assert_eq!((ended.body.state, ended.body.stats), (MessageState::Complete, stats), "final state");
    after.write_progress(id, &AnswerProgress::default()).expect("written");
    let content = after.message("a", id).expect("it exists").body.content;
    assert_eq!(content, "granite is hard", "late progress is ignored");
    assert_eq!(after.search("hard", 5).expect("a search").len(), 1, "the whole answer is found");
}

#[test]
fn presets_are_stored_replaced_and_deleted() {
    let chats = Chats::in_memory().expect("a database");
    let options = serde_json::json!({"temperature": 0.2}).as_object().cloned().unwrap_or_default();
    let preset = Preset { name: "Terse".to_owned(), options, think: Some(false.into()), ..Preset::default() };
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
    let message = |id: &str, parent: Option<&str>| ImportedMessage {
        id: id.to_owned(),
        parent: parent.map(str::to_owned),
        body: MessageBody::new("user", id, 1),
    };
    let imported = |id: &str, messages: Vec<ImportedMessage>, head: Option<&str>| ImportedChat {
        chat: NewChat { id: id.to_owned(), title: Some(id.to_owned()), ..NewChat::default() },
        origin: format!("test:{id}"),
        pinned: true,
        created_ms: 1,
        updated_ms: 2,
        head: head.map(str::to_owned),
        messages,
    };
    let report = chats
        .import(
            &[
                imported("good", vec![message("x", None), message("y", Some("x")), message("z", Some("x"))], Some("y")),
                imported("orphan", vec![message("x", Some("y")), message("y", None)], None),
                imported("twice", vec![message("x", None), message("x", None)], None),
                imported("headless", vec![message("x", None)], Some("q")),
            ],
            TrashPolicy::Keep,
        )
        .expect("written");
    assert_eq!((report.chats.as_slice(), report.messages), (["good".to_owned()].as_slice(), 3), "consistent chats");
    let skipped: Vec<&str> = report.skipped.iter().map(|(title, _)| title.as_str()).collect();
    assert_eq!(skipped, ["orphan", "twice", "headless"], "inconsistent chats");
    let path = chats.path("good", None, None, 5).expect("a path");
    assert_eq!(path.messages[1].body.content, "y", "the head of the source is kept");
    assert_eq!(path.messages[1].versions.len(), 2, "siblings are imported");
}

#[test]
fn import_of_an_export_restores_trashed_chats() {
    let chats = Chats::in_memory().expect("a database");
    let imported = [ImportedChat {
        chat: NewChat { id: "c".to_owned(), title: Some("c".to_owned()), ..NewChat::default() },
        origin: "cairn:c".to_owned(),
        pinned: false,
        created_ms: 1,
        updated_ms: 2,
        head: None,
        messages: vec![ImportedMessage { id: "x".to_owned(), parent: None, body: MessageBody::new("user", "x", 1) }],
    }];
    let import = |trash| chats.import(&imported, trash).expect("imported");
    assert_eq!(
        (import(TrashPolicy::Restore).chats.len(), import(TrashPolicy::Restore).present),
        (1, 1),
        "new at first, then present"
    );
    chats.set_deleted("c", Some(5)).expect("deleted");
    let kept = import(TrashPolicy::Keep);
    assert_eq!((kept.chats.len(), kept.present), (0, 1), "`Keep` restores nothing");
    assert!(chats.chat("c").expect("it exists").row.deleted_ms.is_some(), "the chat stays in the trash");
    let restored = import(TrashPolicy::Restore);
    let expected = (vec!["c".to_owned()], 1, 0);
    assert_eq!((restored.chats, restored.messages, restored.present), expected, "`Restore` restores the chat");
    assert_eq!(chats.chat("c").expect("it exists").row.deleted_ms, None, "the chat is out of the trash");
    assert_eq!(
        chats.path("c", None, None, 5).expect("a path").messages.len(),
        1,
        "its messages are not imported twice"
    );
}
