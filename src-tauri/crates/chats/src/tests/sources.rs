//! The collection of a chat, and the passages of its questions.

use cairn_wire::app::collections::{CollectionHit, HitOrigin, WordsOnly};
use cairn_wire::app::documents::PartPlace;

use super::*;

#[test]
fn collection_and_passages_are_kept_in_copies() {
    let home = Home::new();
    let new = NewChatRequest { collection: Some("tea".to_owned()), ..NewChatRequest::default() };
    assert_eq!(home.chats.create("c", &new, 1).expect("created").collection.as_deref(), Some("tea"));
    let hit = CollectionHit {
        document: "1".to_owned(),
        name: "tea.pdf".to_owned(),
        place: PartPlace::Page { number: 3 },
        chunk: 2,
        text: "Steep it.".to_owned(),
        score: 0.5,
        by: vec![HitOrigin::Words],
    };
    let sources = Sources {
        collection: "tea".to_owned(),
        name: "Tea".to_owned(),
        first: 4,
        hits: vec![hit],
        words_only: Some(WordsOnly::NoModel),
        error: Some(ErrorBody::text("slow")),
    };
    let question = ChatMessage { sources: Some(Box::new(sources)), ..message("user", "How long?", 2) };
    home.chats.add("c", None, std::slice::from_ref(&question), 2).expect("written");
    let stored = home.chats.messages("c").expect("messages").remove(0);
    assert_eq!(stored.sources, question.sources, "the passages are stored");

    let mut copy = imported("d", vec![stored]);
    copy.export.chat.collection = Some("tea".to_owned());
    home.chats.import(&[copy], TrashPolicy::Keep).expect("imported");
    assert_eq!(home.chats.chat("d").expect("the copy").collection.as_deref(), Some("tea"));
    assert_eq!(home.chats.messages("d").expect("messages")[0].sources, question.sources);
    let none = ChatChange { collection: Some(None), ..ChatChange::default() };
    assert_eq!(home.chats.update("d", &none, TitleSource::User).expect("changed").collection, None);
}
