//! The kinds of constraints, and what a matcher reports.

use cairn_grammar::{Constraint, Matcher, Part, Vocabulary};
use serde_json::json;

use crate::common::{END, Verdict, bytes, check, matcher, schema, verdict};

#[test]
fn json_object_accepts_any_object_and_nothing_else() {
    let accepted = ["{}", r#"{"a": [1, -2.5e3, null, true], "b": {"c": "d\n\"\\é"}}"#, "{\n  \"a\": \"🦙\"\n}"];
    let others =
        ["[]", "1", "\"a\"", "{", "{}}", "{\"a\"}", "{'a': 1}", " {}", "```json", "{\"a\": 01}", "{\"a\": \"\n\"}"];
    check(&Constraint::JsonObject, &accepted, &others);
}

#[test]
fn complete_object_allows_only_the_end() {
    let mut matcher = matcher(&Constraint::JsonObject).expect("it compiles");
    for byte in br#"{"a":{}}"# {
        assert!(!matcher.is_complete() && !matcher.is_accepting(), "before {}", char::from(*byte));
        matcher.accept(u32::from(*byte)).expect("a valid object");
    }
    assert!(matcher.is_complete() && matcher.is_accepting(), "the object is closed");
    let mask = matcher.mask().expect("the end may follow");
    assert_eq!((mask.count(), mask.is_allowed(END)), (1, true), "not even white space may follow");
}

#[test]
fn number_may_end_or_continue() {
    let mut matcher = matcher(&schema(r#"{"type": "integer"}"#)).expect("it compiles");
    matcher.accept(u32::from(b'7')).expect("a digit");
    assert!(matcher.is_accepting() && !matcher.is_complete(), "7 may become 71");
    let mask = matcher.mask().expect("digits may follow");
    assert_eq!((mask.count(), mask.is_allowed(END)), (11, true), "ten digits and the end");
}

#[test]
fn regular_expression_matches_the_whole_answer() {
    let regex = Constraint::Regex(r"(yes|no)/[0-9]{2}é?".to_owned());
    check(&regex, &["yes/42", "no/07é"], &["", "yes", "yes/4", "yes/423", "maybe", " yes/42"]);
    check(&Constraint::Regex("a*".to_owned()), &["", "a", "aaaa"], &["b"]);
}

#[test]
fn grammar_matches_its_start_rule() {
    let sum = "start: term (\"+\" term)*\nterm: NUMBER | \"(\" start \")\"\nNUMBER: /[0-9]+/\n";
    check(&Constraint::Lark(sum.to_owned()), &["1", "1+23", "(1+2)+3", "((7))"], &["", "+", "1+", "(1", "1)", "a"]);
}

#[test]
fn masked_token_is_an_error() {
    let mut matcher = matcher(&Constraint::JsonObject).expect("it compiles");
    let error = matcher.accept(u32::from(b'x')).expect_err("an object begins with a brace");
    assert!(!error.to_string().is_empty() && !error.to_string().contains('\n'), "one line: {error}");
    assert!(matcher.mask().is_err(), "the matcher is not used after an error");
}

#[test]
fn clone_continues_on_its_own() {
    let mut first = matcher(&schema(r#"{"enum": ["ab", "ac"]}"#)).expect("it compiles");
    first.accept_bytes(b"\"a").expect("both begin so");
    let mut second = first.clone();
    second.accept_bytes(b"c\"").expect("the second value");
    assert!(second.is_complete() && !first.is_complete(), "only the clone is complete");
    assert_eq!(first.mask().map(|mask| mask.count()), Ok(2), "b or c");
}

#[test]
fn text_without_tokens_is_refused() {
    let vocabulary = Vocabulary::new([&b"a"[..], b"b", b""], &[2]).expect("a small vocabulary");
    let mut matcher = Matcher::new(&vocabulary, &Constraint::Regex("[a-c]*".to_owned())).expect("it compiles");
    matcher.accept_bytes(b"ab").expect("both have tokens");
    assert!(matcher.accept_bytes(b"c").is_err(), "c has no token");
}

#[test]
fn mask_applies_to_logits_with_padding() {
    let mut matcher = matcher(&schema(r#"{"const": true}"#)).expect("it compiles");
    let mask = matcher.mask().expect("t may come");
    let mut logits = vec![1.0; 300];
    mask.apply(&mut logits);
    let allowed: Vec<usize> = (0..300).filter(|&id| logits[id] == 1.0).collect();
    assert_eq!(allowed, [usize::from(b't')], "one token, and none of the padding");
    assert!(!mask.is_allowed(299) && !mask.is_allowed(u32::MAX), "padding is never allowed");
}

#[test]
fn white_space_is_bounded() {
    let object = matcher(&Constraint::JsonObject).expect("it compiles");
    let spaced = |count: usize| format!("{{{}\"a\":1}}", " ".repeat(count));
    assert_eq!(verdict(&object, &spaced(40)), Verdict::Accepted, "deep indentation");
    assert!(matches!(verdict(&object, &spaced(60)), Verdict::Refused(_)), "no endless white space");
    assert_eq!(bytes().len(), 257, "all bytes and the end");
}

fn text(text: &str) -> Part {
    Part::Text(text.to_owned())
}

#[test]
fn parts_are_put_together() {
    let schema =
        json!({"properties": {"n": {"$ref": "#/$defs/n"}}, "required": ["n"], "$defs": {"n": {"enum": [1, 2]}}});
    let call = Part::Sequence(vec![
        Part::Tag("<call>".to_owned()),
        text(" f\n"),
        Part::Object { schema, is_strict: true },
        Part::Regex("/[a-z]".to_owned()).optional(),
    ]);
    let calls = |most| Part::Repeat { part: Box::new(call.clone()), separator: "; ".to_owned(), most };
    let one = r#"<call> f
{"n":1}"#;
    let two = format!("{one}/x; {one}");
    check(&Constraint::Parts(calls(None)), &[one, &two], &["", "<call> f\n1", "<call> f\n{}"]);
    check(&Constraint::Parts(calls(Some(1))), &[one], &[&two]);
    check(&Constraint::Parts(calls(Some(2))), &[one, &two], &[&format!("{two}; {one}")]);
    let slashes = Part::Sequence(vec![Part::Regex("(/|\\/|\\\\|\n)*\\\\".to_owned()), text(".")]);
    check(&Constraint::Parts(slashes), &["//\\\\.", "\n\\."], &[".", "/.", "\\"]);
    let either = Part::Choice(vec![calls(None), Part::Json(json!({"type": "null"})), text("no \"text\"")]);
    check(&Constraint::Parts(either), &[one, "null", "no \"text\""], &["yes"]);
}

#[test]
fn part_of_a_tool_without_an_enforceable_schema_is_any_object() {
    let schema = json!({"properties": {"a": {"not": {"pattern": "x"}}}});
    let part = |is_strict| Constraint::Parts(Part::Object { schema: schema.clone(), is_strict });
    check(&part(false), &["{}", r#"{"a":"x"}"#], &["1"]);
    assert!(matcher(&part(true)).is_err_and(|error| error.to_string().contains("pattern")), "the keyword");
    check(&Constraint::Parts(Part::Object { schema: json!(null), is_strict: true }), &["{}"], &[r#"{"a":1}"#]);
}

#[test]
fn tag_may_be_a_control_token() {
    let vocabulary = Vocabulary::new([&b"a"[..], b"", b"", b"{", b"}"], &[2]).expect("a small vocabulary");
    let part = Part::Sequence(vec![text("a"), Part::Tag("<tag>".to_owned()), Part::Json(json!({"type": "object"}))]);
    let part = part.with_tokens(&|tag| (tag == "<tag>").then_some(1));
    let mut matcher = Matcher::new(&vocabulary, &Constraint::Parts(part)).expect("it compiles");
    for token in [0, 1, 3, 4] {
        let mask = matcher.mask().expect("a token may come");
        assert!(mask.is_allowed(token) && (token == 4 || mask.count() == 1), "only {token} may come");
        matcher.accept(token).expect("the token is allowed");
    }
    assert!(matcher.is_complete(), "nothing can follow");
}
