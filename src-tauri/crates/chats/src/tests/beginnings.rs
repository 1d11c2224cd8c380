//! Beginnings of words of any length, whether those that are likely to have them are read or the index is asked for all of it:
//! what is found is what a reading of all messages finds.

use super::size::sentence;
use super::*;

const MESSAGES: u64 = 900;
const MOST: usize = 50;

/// The slow way, the newest first.
fn read_all(texts: &[String], search: &str) -> Vec<usize> {
    let begins = |text: &String, wanted: &str| {
        text.split(|c: char| !c.is_alphanumeric()).any(|word| word.to_lowercase().starts_with(wanted))
    };
    let has = |text: &String| search.split(' ').all(|wanted| begins(text, wanted));
    texts.iter().enumerate().rev().filter(|(_, text)| has(text)).map(|(at, _)| at).take(MOST).collect()
}

#[test]
fn beginnings_of_any_length_are_found_as_if_all_was_read() {
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
        "so much is read of what is likely, and in vain"
    );
    let said: Vec<Said> = texts.iter().map(|text| Said::new("user", text, 2)).collect();
    let rows: Vec<MessageId> = home.chats.add("a", None, &said, 3).expect("written").iter().map(|one| one.id).collect();
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
        let hits = home.chats.search(search, MOST).expect("a search");
        let found: Vec<usize> = hits
            .iter()
            .map(|hit| rows.iter().position(|row| Some(*row) == hit.message).expect("one of them"))
            .collect();
        assert_eq!(found, read_all(&texts, search), "{search:?}");
        assert!(hits.iter().all(|hit| !hit.snippet.ranges.is_empty()), "{search:?} is marked");
    }
}

#[test]
fn only_what_has_ended_and_is_not_in_the_trash_is_found() {
    let home = Home::new();
    for (chat, text) in [("kept", "granite is old"), ("deleted", "granite is hard")] {
        home.create(chat, 1);
        home.say(chat, None, "user", text, 2);
    }
    home.chats.set_deleted("deleted", Some(5)).expect("deleted");
    let answer = Said { state: State::Answering, ..Said::new("assistant", "granite is", 3) };
    home.chats.add("kept", None, &[answer], 3).expect("written");
    for search in ["g", "gr", "gran", "granite"] {
        let found: Vec<String> =
            home.chats.search(search, 1).expect("a search").into_iter().map(|hit| hit.snippet.text).collect();
        assert_eq!(found, ["granite is old"], "{search:?}");
    }
}
