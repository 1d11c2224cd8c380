//! Chats on a real file: trees, lists, the trash, searches, and what is left after a kill.

mod beginnings;
mod chinese;
mod long;
mod size;
mod waiting;

use super::*;

/// A home with a file of chats in it.
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

    /// The file, opened by another process after this one was killed: this one's connections are still there, and closed nothing.
    fn after_kill(&self) -> Chats {
        let copy = self.folder.path().join("after");
        std::fs::create_dir_all(&copy).expect("the folder is writable");
        for name in ["chats.sqlite", "chats.sqlite-wal"] {
            std::fs::copy(self.folder.path().join(name), copy.join(name)).expect("the file is there");
        }
        Chats::open(&copy.join("chats.sqlite"), 2).expect("what was killed can be opened")
    }

    fn create(&self, id: &str, now_ms: i64) -> Chat {
        self.chats.create(&NewChat { id: id.to_owned(), ..NewChat::default() }, now_ms).expect("a new chat")
    }

    fn say(&self, chat: &str, parent: Option<MessageId>, role: &str, text: &str, now_ms: i64) -> MessageId {
        let said = [Said::new(role, text, now_ms)];
        self.chats.add(chat, parent, &said, now_ms).expect("it can be written")[0].id
    }

    fn texts(&self, chat: &str, leaf: Option<MessageId>) -> Vec<String> {
        let path = self.chats.path(chat, leaf, None, usize::MAX).expect("a path");
        path.messages.into_iter().map(|message| message.said.content).collect()
    }
}

#[test]
fn messages_form_a_tree() {
    let home = Home::new();
    home.create("c", 1);
    let one = home.say("c", None, "user", "one", 2);
    let two = home.say("c", Some(one), "assistant", "two", 3);
    let three = home.say("c", Some(two), "user", "three", 4);
    let other_two = home.say("c", Some(one), "assistant", "other two", 5);
    assert_eq!(home.texts("c", None), ["one", "other two"], "the last said is shown");
    assert_eq!(home.texts("c", Some(three)), ["one", "two", "three"], "another branch is there too");
    let path = home.chats.path("c", None, None, 10).expect("a path");
    assert_eq!(path.messages[1].versions, [two, other_two], "a message knows its siblings");
    assert_eq!(home.chats.show("c", two).expect("a branch"), three, "a branch is shown to its end");
    assert_eq!(home.texts("c", None), ["one", "two", "three"], "and stays so");
    let another_beginning = home.say("c", None, "user", "uno", 6);
    let path = home.chats.path("c", None, None, 10).expect("a path");
    assert_eq!(path.messages[0].versions, [one, another_beginning], "also of a first message");
    assert_eq!(home.chats.chat("c").expect("it is there").listed.messages, 5, "all branches count");

    home.create("d", 7);
    let foreign = home.chats.add("d", Some(one), &[Said::new("user", "x", 8)], 8);
    assert!(matches!(foreign, Err(ChatsError::NoMessage(_))), "no message follows one of another chat");
    assert!(home.chats.path("d", Some(one), None, 5).is_err(), "nor is it read there");
    assert!(home.chats.path("none", None, None, 5).is_err(), "no chat");
}

#[test]
fn long_paths_come_in_pages() {
    let home = Home::new();
    home.create("c", 1);
    let said: Vec<Said> = (0..100).map(|n| Said::new("user", n.to_string(), n)).collect();
    home.chats.add("c", None, &said, 100).expect("it can be written");
    let last = home.chats.path("c", None, None, 30).expect("a page");
    assert_eq!((last.total, last.before, last.messages.len()), (100, 70, 30), "the last of them");
    let before = home.chats.path("c", None, Some(last.messages[0].id), 30).expect("a page");
    assert_eq!((before.total, before.before), (100, 40), "those before");
    assert_eq!(before.messages[29].said.content, "69", "up to them");
    let first = home.chats.path("c", None, Some(home.chats.messages("c").expect("all")[0].id), 30).expect("a page");
    assert_eq!((first.messages.len(), first.before), (0, 0), "nothing comes before the first");
}

#[test]
fn lists_come_in_pages_the_last_changed_first() {
    let home = Home::new();
    for n in 0..25 {
        home.create(&format!("c{n}"), n);
    }
    home.say("c3", None, "user", "hello", 100);
    home.chats.change("c7", &Change { pinned: Some(true), ..Change::default() }).expect("pinned");
    home.chats.set_deleted("c9", Some(50)).expect("deleted");
    let (mut after, mut ids) = (None, Vec::new());
    loop {
        let page = home.chats.list(&Which::Loose, after.as_deref(), 10).expect("a page");
        ids.extend(page.chats.into_iter().map(|chat| chat.id));
        match page.next {
            Some(next) => after = Some(next),
            None => break,
        }
    }
    let expected: Vec<String> =
        [3].into_iter().chain((0..25).rev().filter(|n| ![3, 7, 9].contains(n))).map(|n| format!("c{n}")).collect();
    assert_eq!(ids, expected, "each once, in order");
    let pinned = home.chats.list(&Which::Pinned, None, 10).expect("a page").chats;
    assert_eq!(pinned.iter().map(|chat| chat.id.as_str()).collect::<Vec<_>>(), ["c7"], "apart");
    assert!(matches!(home.chats.list(&Which::Loose, Some("x"), 5), Err(ChatsError::NoPage(_))), "no page ends so");
}

#[test]
fn folders_are_there_while_a_chat_is_in_them() {
    let home = Home::new();
    home.create("a", 1);
    home.create("b", 2);
    let folder = |name: Option<&str>| Change { folder: Some(name.map(str::to_owned)), ..Change::default() };
    home.chats.change("a", &folder(Some("Work"))).expect("moved");
    home.chats.change("b", &folder(Some("Work"))).expect("moved");
    assert_eq!(home.chats.folders().expect("a list"), [("Work".to_owned(), 2)], "both");
    home.chats.set_deleted("b", Some(5)).expect("deleted");
    let inside = home.chats.list(&Which::Folder("Work".to_owned()), None, 10).expect("a page").chats;
    assert_eq!(inside.iter().map(|chat| chat.id.as_str()).collect::<Vec<_>>(), ["a"], "without the trash");
    home.chats.change("a", &folder(None)).expect("moved out");
    assert_eq!(home.chats.folders().expect("a list"), [], "empty ones are none");
}

#[test]
fn what_is_in_the_trash_comes_back_until_it_is_purged() {
    let home = Home::new();
    home.create("a", 1);
    home.say("a", None, "user", "granite", 2);
    home.create("b", 3);
    let found = || home.chats.search("granite", 5).expect("a search").len();
    assert_eq!(found(), 1, "it is found");
    home.chats.set_deleted("a", Some(10)).expect("deleted");
    assert_eq!(found(), 0, "not in the trash");
    let trash = home.chats.list(&Which::Trash, None, 5).expect("a list").chats;
    assert_eq!(trash[0].deleted_ms, Some(10), "it says since when");
    home.chats.set_deleted("a", None).expect("restored");
    assert_eq!(found(), 1, "as before");
    home.chats.set_deleted("a", Some(10)).expect("deleted");
    assert_eq!(home.chats.purge(10).expect("a purge"), Vec::<String>::new(), "it has not been there for long enough");
    assert_eq!(home.chats.purge(11).expect("a purge"), ["a"], "now it has");
    assert!(home.chats.chat("a").is_err(), "it is gone");
    assert!(home.chats.chat("b").is_ok(), "and nothing else");
    home.chats.set_deleted("b", Some(-5)).expect("deleted by a clock that was set back");
    let since = home.chats.chat("b").expect("it is there").listed.deleted_ms;
    assert_eq!(since, Some(3), "not before its last word");
    home.chats.delete("b").expect("deleted");
    assert!(home.chats.delete("b").is_err(), "once");
}

#[test]
fn titles_of_people_stay() {
    let home = Home::new();
    home.create("a", 1);
    let entitle = |title: &str, titled| home.chats.entitle("a", title, titled).expect("it can be written").is_some();
    assert!(entitle("How do I", Titled::FirstWords), "there was none");
    assert!(!entitle("What is", Titled::FirstWords), "the first words stay the first");
    assert!(entitle("Bread", Titled::Model), "a model knows better");
    let named = Change { title: Some(("Mine".to_owned(), Titled::Person)), ..Change::default() };
    home.chats.change("a", &named).expect("named");
    assert!(!entitle("Bread again", Titled::Model), "a person knows best");
    assert_eq!(home.chats.search("mine", 5).expect("a search")[0].message, None, "titles are found");
    assert_eq!(home.chats.search("bread", 5).expect("a search"), [], "and those of before are not");
}

#[test]
fn an_answer_that_was_being_computed_is_cut() {
    let home = Home::new();
    home.create("a", 1);
    let answer = Said { state: State::Answering, ..Said::new("assistant", "", 3) };
    let added = home.chats.add("a", None, &[Said::new("user", "tell me", 2), answer], 3).expect("both");
    let so_far = Progress {
        content: "granite is".to_owned(),
        thinking: Some("hm".to_owned()),
        thinking_ms: Some(5),
        stats: Some(serde_json::json!({"answer_tokens": 2})),
    };
    home.chats.write_progress(added[1].id, &so_far).expect("written");
    assert_eq!(home.chats.search("granite", 5).expect("a search"), [], "only what has ended is found");

    let after = home.after_kill();
    assert_eq!(after.cut(), 1, "it says so");
    let path = after.path("a", None, None, 10).expect("a path");
    let said = &path.messages[1].said;
    assert_eq!((said.state, said.content.as_str(), said.thinking_ms), (State::Cut, "granite is", Some(5)), "marked");
    assert_eq!(said.stats, so_far.stats, "with what it had cost");
    assert_eq!(after.search("granite", 5).expect("a search").len(), 1, "and found");

    let id = path.messages[1].id;
    assert_eq!(after.reopen("a", id).expect("it goes on").said.state, State::Answering, "it can go on");
    let stats = Some(serde_json::json!({"answer_tokens": 3}));
    let whole = Progress { content: "granite is hard".to_owned(), stats: stats.clone(), ..so_far };
    let ended = after.finish("a", id, &whole, (State::Complete, None), 9).expect("it ends");
    assert_eq!((ended.said.state, ended.said.stats), (State::Complete, stats), "to its end");
    after.write_progress(id, &Progress::default()).expect("it can be asked");
    let kept = after.message("a", id).expect("it is there").said.content;
    assert_eq!(kept, "granite is hard", "a write that comes late changes nothing");
    assert_eq!(after.search("hard", 5).expect("a search").len(), 1, "and all of it is found");
}

#[test]
fn presets_come_and_go() {
    let chats = Chats::in_memory().expect("a database");
    let options = serde_json::json!({"temperature": 0.2}).as_object().cloned().unwrap_or_default();
    let preset = Preset { name: "Terse".to_owned(), options, think: Some(false.into()), ..Preset::default() };
    chats.put_preset(&preset).expect("kept");
    assert_eq!(chats.preset("Terse").expect("it is there"), preset, "as it was");
    chats.put_preset(&Preset { model: Some("m".to_owned()), ..preset }).expect("kept in its place");
    assert_eq!(chats.presets().expect("a list").len(), 1, "one of a name");
    chats.delete_preset("Terse").expect("deleted");
    assert!(matches!(chats.preset("Terse"), Err(ChatsError::NoPreset(_))), "gone");
}

#[test]
fn brought_trees_that_make_no_sense_are_left_out() {
    let chats = Chats::in_memory().expect("a database");
    let message = |id: &str, parent: Option<&str>| BroughtMessage {
        id: id.to_owned(),
        parent: parent.map(str::to_owned),
        said: Said::new("user", id, 1),
    };
    let brought = |id: &str, messages: Vec<BroughtMessage>, head: Option<&str>| Brought {
        chat: NewChat { id: id.to_owned(), title: Some(id.to_owned()), ..NewChat::default() },
        origin: format!("test:{id}"),
        pinned: true,
        created_ms: 1,
        updated_ms: 2,
        head: head.map(str::to_owned),
        messages,
    };
    let arrived = chats
        .bring(
            &[
                brought("good", vec![message("x", None), message("y", Some("x")), message("z", Some("x"))], Some("y")),
                brought("orphan", vec![message("x", Some("y")), message("y", None)], None),
                brought("twice", vec![message("x", None), message("x", None)], None),
                brought("headless", vec![message("x", None)], Some("q")),
            ],
            Trashed::Stays,
        )
        .expect("it can be written");
    assert_eq!((arrived.chats.as_slice(), arrived.messages), (["good".to_owned()].as_slice(), 3), "what makes sense");
    let why: Vec<&str> = arrived.skipped.iter().map(|(title, _)| title.as_str()).collect();
    assert_eq!(why, ["orphan", "twice", "headless"], "what does not");
    let path = chats.path("good", None, None, 5).expect("a path");
    assert_eq!(path.messages[1].said.content, "y", "the branch that was shown there");
    assert_eq!(path.messages[1].versions.len(), 2, "with its sibling");
}

#[test]
fn an_export_brings_back_what_is_in_the_trash() {
    let chats = Chats::in_memory().expect("a database");
    let brought = [Brought {
        chat: NewChat { id: "c".to_owned(), title: Some("c".to_owned()), ..NewChat::default() },
        origin: "cairn:c".to_owned(),
        pinned: false,
        created_ms: 1,
        updated_ms: 2,
        head: None,
        messages: vec![BroughtMessage { id: "x".to_owned(), parent: None, said: Said::new("user", "x", 1) }],
    }];
    let bring = |trashed| chats.bring(&brought, trashed).expect("it can be written");
    assert_eq!((bring(Trashed::Back).chats.len(), bring(Trashed::Back).present), (1, 1), "new, then here");
    chats.set_deleted("c", Some(5)).expect("put into the trash");
    let stays = bring(Trashed::Stays);
    assert_eq!((stays.chats.len(), stays.present), (0, 1), "another program's file is brought again and again");
    assert!(chats.chat("c").expect("it is there").listed.deleted_ms.is_some(), "so it stays in the trash");
    let back = bring(Trashed::Back);
    assert_eq!((back.chats, back.messages, back.present), (vec!["c".to_owned()], 1, 0), "an export is wanted");
    assert_eq!(chats.chat("c").expect("it is there").listed.deleted_ms, None, "and out of it");
    assert_eq!(chats.path("c", None, None, 5).expect("a path").messages.len(), 1, "once");
}
