//! Search for prefixes of any length finds the same messages as a scan of all messages, whether it filters texts or queries the
//! index for the whole prefix.

use super::size::sentence;
use super::*;

const MESSAGES: u64 = 900;
const LIMIT: usize = 50;

/// Scans all texts, the newest first.
fn scan_all(texts: &[String], search: &str) -> Vec<usize> {
    let begins = |text: &String, wanted: &str| {
        text.split(|c: char| !c.is_alphanumeric()).any(|word| word.to_lowercase().starts_with(wanted))
    };
    let has = |text: &String| search.split(' ').all(|wanted| begins(text, wanted));
    texts.iter().enumerate().rev().filter(|(_, text)| has(text)).map(|(at, _)| at).take(LIMIT).collect()
}

#[test]
fn prefix_search_equals_a_scan_of_all_messages() {
    let home = Home::new();
    home.create("a", 1);
    let mut texts: Vec<String> = (0..MESSAGES).map(|seed| sentence(seed).repeat(2)).collect();
    texts[0].push_str(" Zeppelin");
    for text in &mut texts[..60] {
        text.push_str(" xylophone");
    }
    for text in &mut texts[60..] {
        text.push_str(" xylem");
    }
    assert!(
        texts[60..].iter().map(String::len).sum::<usize>() > 512 * 1024,
        "more bytes than the search filters before it queries the index"
    );
    let body: Vec<ChatMessage> = texts.iter().map(|text| message("user", text, 2)).collect();
    let added = home.chats.add("a", None, &body, 3).expect("written");
    let rows: Vec<Option<String>> = added.into_iter().map(|one| Some(one.id)).collect();
    for search in [
        "g",
        "gr",
        "gra",
        "gran",
        "granite",
        "granite1",
        "t",
        "z",
        "zeppel",
        "x",
        "xyl",
        "xylo",
        "xylophone gran",
        "quick g",
        "q",
    ] {
        let hits = home.chats.search(search, LIMIT).expect("a search");
        let found: Vec<usize> = hits
            .iter()
            .map(|hit| rows.iter().position(|row| *row == hit.message).expect("a message of this test"))
            .collect();
        assert_eq!(found, scan_all(&texts, search), "{search:?}");
        assert!(hits.iter().all(|hit| !hit.ranges.is_empty()), "matches of {search:?} are marked");
    }
}

#[test]
fn running_answers_and_trashed_chats_are_not_found() {
    let home = Home::new();
    for (chat, text) in [("kept", "granite is old"), ("deleted", "granite is hard")] {
        home.create(chat, 1);
        home.add(chat, None, "user", text, 2);
    }
    home.chats.set_deleted("deleted", Some(5)).expect("deleted");
    let answer = ChatMessage { state: MessageState::Answering, ..message("assistant", "granite is", 3) };
    home.chats.add("kept", None, &[answer], 3).expect("written");
    for search in ["g", "gr", "gran", "granite"] {
        let found: Vec<String> =
            home.chats.search(search, 1).expect("a search").into_iter().map(|hit| hit.snippet).collect();
        assert_eq!(found, ["granite is old"], "{search:?}");
    }
}
