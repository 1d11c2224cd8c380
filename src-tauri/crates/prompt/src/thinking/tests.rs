//! Splitting at thinking tags: fixed cases, and random texts split at random places.

use proptest::prelude::*;

use super::*;

/// Returns the concatenated thinking and text. Asserts that no thinking follows text.
fn run(inside: bool, parts: &[&str]) -> (String, String) {
    let mut splitter = ThinkingSplitter::new("<think>", "</think>", inside);
    let mut deltas: Vec<Delta> = parts.iter().flat_map(|part| splitter.push(part)).collect();
    deltas.extend(splitter.finish());
    let (mut thinking, mut text) = (String::new(), String::new());
    for delta in deltas {
        match delta {
            Delta::Thinking(part) => {
                assert!(text.is_empty(), "thinking after text in {parts:?}");
                assert!(!part.is_empty(), "an empty delta in {parts:?}");
                thinking += &part;
            }
            Delta::Text(part) => {
                assert!(!part.is_empty(), "an empty delta in {parts:?}");
                text += &part;
            }
            Delta::ToolCall(call) => panic!("a call in {parts:?}: {call:?}"),
        }
    }
    (thinking, text)
}

fn check(inside: bool, parts: &[&str], thinking: &str, text: &str) {
    assert_eq!(run(inside, parts), (thinking.to_owned(), text.to_owned()), "{parts:?}, inside: {inside}");
}

#[test]
fn reasoning_is_split_from_answer() {
    check(false, &["<think>\nso\n</think>\n\nyes"], "so\n", "yes");
    check(false, &["\n <th", "ink>", "\n", "so</thi", "nk>", "\n", "yes </think>"], "so", "yes </think>");
    check(true, &["so </think> yes"], "so ", "yes");
    check(true, &["<think>so</think>yes"], "so", "yes");
    check(true, &["\n", "<thi", "nk>\nso"], "so", "");
}

#[test]
fn answer_without_reasoning_is_text() {
    check(false, &["yes <think>no</think>"], "", "yes <think>no</think>");
    check(false, &["  yes"], "", "  yes");
    check(false, &["<thin", " ice"], "", "<thin ice");
    check(false, &["<thi"], "", "<thi");
    check(false, &["  "], "", "  ");
    check(false, &["<think></think>yes"], "", "yes");
}

#[test]
fn truncated_answer_keeps_buffered_text() {
    check(false, &["<think>so </th"], "so </th", "");
    check(false, &["<think>so</think>\n"], "so", "");
    check(true, &["<th"], "<th", "");
    check(true, &["so </thin", "g> </think>x"], "so </thing> ", "x");
}

#[test]
fn empty_tags_leave_text_whole() {
    for inside in [false, true] {
        let mut splitter = ThinkingSplitter::new("", "", inside);
        let deltas = splitter.push("a");
        let wanted = if inside { Delta::Thinking("a".to_owned()) } else { Delta::Text("a".to_owned()) };
        assert_eq!(deltas, [wanted], "inside: {inside}");
    }
}

proptest! {
    #[test]
    fn result_is_independent_of_chunk_boundaries(
        parts in prop::collection::vec("(<think>|</think>|<|/|think|>|[ \\na-cé]){0,4}", 0..8),
        inside in any::<bool>(),
    ) {
        let parts: Vec<&str> = parts.iter().map(String::as_str).collect();
        let whole = parts.concat();
        let (thinking, text) = run(inside, &parts);
        prop_assert_eq!(run(inside, &[&whole]), (thinking.clone(), text.clone()));
        // Only white space and tags are dropped, so thinking and text occur in the input in this order.
        let at = whole.find(&thinking).map(|at| at + thinking.len());
        prop_assert!(at.is_some_and(|at| whole[at..].ends_with(&text)), "{:?} holds {:?} and then {:?}", whole, thinking, text);
    }
}
