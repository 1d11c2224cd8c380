//! Splitting at thinking tags, by hand-worked cases and by cutting any text anywhere.

use proptest::prelude::*;

use super::*;

/// Thinking and text, each put together, after checking that text never comes before thinking.
fn run(inside: bool, parts: &[&str]) -> (String, String) {
    let mut splitter = ThinkingSplitter::new("<think>", "</think>", inside);
    let mut pieces: Vec<Piece> = parts.iter().flat_map(|part| splitter.push(part)).collect();
    pieces.extend(splitter.finish());
    let (mut thinking, mut text) = (String::new(), String::new());
    for piece in pieces {
        match piece {
            Piece::Thinking(part) => {
                assert!(text.is_empty(), "thinking after text in {parts:?}");
                assert!(!part.is_empty(), "an empty piece in {parts:?}");
                thinking += &part;
            }
            Piece::Text(part) => {
                assert!(!part.is_empty(), "an empty piece in {parts:?}");
                text += &part;
            }
        }
    }
    (thinking, text)
}

fn check(inside: bool, parts: &[&str], thinking: &str, text: &str) {
    assert_eq!(run(inside, parts), (thinking.to_owned(), text.to_owned()), "{parts:?}, inside: {inside}");
}

#[test]
fn reasoning_and_answer() {
    check(false, &["<think>\nso\n</think>\n\nyes"], "so\n", "yes");
    check(false, &["\n <th", "ink>", "\n", "so</thi", "nk>", "\n", "yes </think>"], "so", "yes </think>");
    check(true, &["so </think> yes"], "so ", "yes");
    check(true, &["<think>so</think>yes"], "so", "yes");
    check(true, &["\n", "<thi", "nk>\nso"], "so", "");
}

#[test]
fn without_reasoning() {
    check(false, &["yes <think>no</think>"], "", "yes <think>no</think>");
    check(false, &["  yes"], "", "  yes");
    check(false, &["<thin", " ice"], "", "<thin ice");
    check(false, &["<thi"], "", "<thi");
    check(false, &["  "], "", "  ");
    check(false, &["<think></think>yes"], "", "yes");
}

#[test]
fn an_answer_cut_short() {
    check(false, &["<think>so </th"], "so </th", "");
    check(false, &["<think>so</think>\n"], "so", "");
    check(true, &["<th"], "<th", "");
    check(true, &["so </thin", "g> </think>x"], "so </thing> ", "x");
}

#[test]
fn empty_tags_are_harmless() {
    for inside in [false, true] {
        let mut splitter = ThinkingSplitter::new("", "", inside);
        let pieces = splitter.push("a");
        let wanted = if inside { Piece::Thinking("a".to_owned()) } else { Piece::Text("a".to_owned()) };
        assert_eq!(pieces, [wanted], "inside: {inside}");
    }
}

proptest! {
    #[test]
    fn cuts_do_not_matter(
        parts in prop::collection::vec("(<think>|</think>|<|/|think|>|[ \\na-cé]){0,4}", 0..8),
        inside in any::<bool>(),
    ) {
        let parts: Vec<&str> = parts.iter().map(String::as_str).collect();
        let whole = parts.concat();
        let (thinking, text) = run(inside, &parts);
        prop_assert_eq!(run(inside, &[&whole]), (thinking.clone(), text.clone()));
        // What is left out is white space and tags, so what is shown is there in order.
        let at = whole.find(&thinking).map(|at| at + thinking.len());
        prop_assert!(at.is_some_and(|at| whole[at..].ends_with(&text)), "{:?} holds {:?} and then {:?}", whole, thinking, text);
    }
}
