//! Edited answers, deleted branches, and their restoration.

use super::*;

/// A chat with two versions of the first answer; the second one has a further turn.
fn branched(home: &Home) -> [String; 5] {
    home.create("c", 1);
    let question = home.add("c", None, "user", "question", 2);
    let first = home.add("c", Some(&question), "assistant", "first", 3);
    let second = home.add("c", Some(&question), "assistant", "second", 4);
    let more = home.add("c", Some(&second), "user", "more", 5);
    let last = home.add("c", Some(&more), "assistant", "last", 6);
    [question, first, second, more, last]
}

fn count(home: &Home) -> u64 {
    home.chats.chat("c").expect("the chat").row.message_count
}

#[test]
fn edited_answer_is_another_version() {
    let home = Home::new();
    let [question, first, second, ..] = branched(&home);
    let usage = Usage { answer_tokens: 3, ..Usage::default() };
    let answer = ChatMessage { model: Some("m".to_owned()), usage: Some(usage), ..message("assistant", "long", 7) };
    let answer = home.chats.add("c", Some(&question), &[answer], 7).expect("written").remove(0);
    let edited = home.chats.edit_answer("c", &answer.id, "short", 8).expect("edited");
    assert_eq!((edited.content.as_str(), edited.edited, &edited.usage), ("short", true, &None), "{edited:?}");
    assert_eq!(
        (edited.role.as_str(), edited.model.as_deref()),
        ("assistant", Some("m")),
        "role and model of the original"
    );
    assert_eq!(edited.versions, [first, second, answer.id.clone(), edited.id.clone()], "a sibling of the others");
    assert_eq!(home.texts("c", None), ["question", "short"], "the edited version is shown");
    assert_eq!(home.texts("c", Some(&answer.id)), ["question", "long"], "the original is unchanged");
    let reopened = home.after_kill();
    assert!(reopened.message("c", &edited.id).expect("stored").edited, "the mark is stored");
    assert!(!reopened.message("c", &answer.id).expect("stored").edited, "only on the edited version");
    assert!(matches!(home.chats.edit_answer("c", "99", "x", 9), Err(ChatsError::MessageNotFound(_))), "no such answer");
}

#[test]
fn deleted_branch_is_gone_and_can_be_restored() {
    let home = Home::new();
    let [question, first, second, more, last] = branched(&home);
    let deleted = home.chats.delete_branch("c", &second, 7).expect("deleted");
    let ids: Vec<_> = deleted.messages.iter().map(|message| message.id.clone()).collect();
    assert_eq!((ids, deleted.head.as_deref()), (vec![second.clone(), more, last.clone()], Some(&*last)), "its branch");
    assert_eq!(
        (home.texts("c", None), count(&home)),
        (vec!["question".into(), "first".into()], 2),
        "the other version"
    );
    assert!(home.chats.search("more", 9).expect("a search").is_empty(), "the search has no deleted message");
    assert!(matches!(home.chats.message("c", &second), Err(ChatsError::MessageNotFound(_))), "its id is free");
    assert_eq!(home.chats.message("c", &first).expect("kept").versions, [first], "one version is left");

    home.chats.restore_branch("c", &deleted, 8).expect("restored");
    assert_eq!(
        (home.texts("c", None), count(&home)),
        (["question", "second", "more", "last"].map(String::from).to_vec(), 5)
    );
    assert_eq!(home.chats.search("more", 9).expect("a search").len(), 1, "the search finds it again");
    let path = home.chats.path("c", None, None, 9).expect("a path").messages;
    assert_eq!((path[0].id.as_str(), path[1].versions.len()), (&*question, 2), "below the same question");
}

#[test]
fn deletion_keeps_a_head_of_another_branch() {
    let home = Home::new();
    let [question, first, ..] = branched(&home);
    home.chats.delete_branch("c", &first, 7).expect("deleted");
    assert_eq!(home.texts("c", None), ["question", "second", "more", "last"], "the shown branch stays");
    let deleted = home.chats.delete_branch("c", &question, 8).expect("deleted");
    assert_eq!((deleted.messages.len(), count(&home)), (4, 0), "all of the chat");
    assert!(home.texts("c", None).is_empty(), "an empty chat");
    home.add("c", None, "user", "new", 9);
    home.chats.restore_branch("c", &deleted, 10).expect("restored");
    assert_eq!(home.texts("c", None), ["question", "second", "more", "last"], "beside the new message");
}

#[test]
fn deletion_of_the_last_answer_shows_its_question() {
    let home = Home::new();
    let [.., more, last] = branched(&home);
    home.chats.delete_branch("c", &last, 7).expect("deleted");
    assert_eq!(home.chats.chat("c").expect("the chat").head, Some(more), "the parent is the head");
}

#[test]
fn restoration_of_no_tree_changes_nothing() {
    let home = Home::new();
    let [question, ..] = branched(&home);
    let check = |messages: Vec<ChatMessage>, what: &str| {
        let deleted = DeletedMessages { messages, head: None };
        assert!(matches!(home.chats.restore_branch("c", &deleted, 9), Err(ChatsError::MessageNotFound(_))), "{what}");
        assert_eq!(count(&home), 5, "{what}");
    };
    let node = |id: &str, parent: Option<&str>| ChatMessage {
        id: id.to_owned(),
        parent: parent.map(str::to_owned),
        ..message("user", "x", 9)
    };
    check(vec![node("a", Some("99"))], "a missing parent");
    check(vec![node("a", Some("x"))], "a parent that is no id");
    check(vec![node("a", Some(&question)), node("b", Some(&question))], "a parent outside of the branch");
    check(vec![node("a", Some(&question)), node("b", None)], "two roots");
    let answering = ChatMessage { state: MessageState::Answering, ..node("a", Some(&question)) };
    let deleted = DeletedMessages { messages: vec![answering], head: Some("a".to_owned()) };
    home.chats.restore_branch("c", &deleted, 9).expect("restored");
    let head = home.chats.chat("c").expect("the chat").head.expect("a head");
    assert_eq!(home.chats.message("c", &head).expect("stored").state, MessageState::Interrupted, "nothing computes it");
}
