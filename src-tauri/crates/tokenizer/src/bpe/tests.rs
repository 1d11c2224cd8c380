//! Merging on small vocabularies with known results, and comparisons of the algorithms.

use super::*;
use proptest::prelude::*;

fn vocab(tokens: &[&str], merges: &[&str]) -> Vocab {
    let owned = |texts: &[&str]| texts.iter().map(|&text| text.to_owned()).collect();
    Vocab { tokens: owned(tokens), merges: owned(merges), ..Vocab::default() }
}

fn encode(merges: &Merges, word: &str) -> Vec<u32> {
    let mut ids = Vec::new();
    merges.encode(word, &mut Scratch::default(), &mut ids);
    ids
}

fn check(word: &str, wanted: &[u32]) {
    let vocab = vocab(&["a", "b", "c", "ab", "bc", "abc", "aa", "ca"], &["b c", "a a", "a bc", "x y", "xy a", "a b"]);
    let merges = Merges::build(&vocab, Start::Bytes).expect("the merges are well-formed");
    assert_eq!(encode(&merges, word), wanted, "{word:?}");
}

#[test]
fn lowest_rank_then_leftmost_pair_is_merged() {
    check("abc", &[5]);
    check("aaa", &[6, 0]);
    check("aab", &[6, 1]);
    check("abab", &[3, 3]);
    check("xyab", &[0, 1]);
    check("", &[]);
    check("cxb", &[2, 1]);
}

#[test]
fn unknown_characters_are_encoded_as_bytes() {
    let tokens = ["é", "▁", "▁é", "<0xE6>", "<0xBC>", "<0xA2>", "x"];
    let vocab = vocab(&tokens, &["▁ é", "x é"]);
    let merges = Merges::build(&vocab, Start::Characters).expect("the merges are well-formed");
    for (word, wanted) in [("▁é漢", [2, 3, 4, 5].as_slice()), ("é▁", &[0, 1]), ("y", &[]), ("xé", &[])] {
        assert_eq!(encode(&merges, word), wanted, "{word:?}");
    }
    assert!(before_blanks(&vocab.merges).is_empty(), "no merge crosses a blank");
    assert_eq!(before_blanks(&["> ▁a".to_owned(), "▁ ▁".to_owned()]), ['>'], "the first merge crosses a blank");
}

#[test]
fn merge_without_two_parts_is_refused() {
    for merge in ["", "a", "ab", " "] {
        let result = Merges::build(&vocab(&["a"], &[merge]), Start::Bytes);
        assert_eq!(result.err(), Some(Error::Merge { index: 0, merge: merge.to_owned() }), "{merge:?}");
    }
}

proptest! {
    #[test]
    fn heap_merging_equals_linear_search(
        merges in prop::collection::vec("[a-d]{1,3} [a-d]{1,3}", 1..30),
        word in "[a-d]{0,60}",
    ) {
        let joined = merges.iter().map(|merge| merge.replace(' ', ""));
        let tokens: Vec<String> = ["a", "b", "c", "d"].map(str::to_owned).into_iter().chain(joined).collect();
        let merges = Merges::build(&Vocab { tokens, merges, ..Vocab::default() }, Start::Bytes).expect("well-formed");
        let (mut short, mut long) = (Scratch::default(), Scratch::default());
        merges.start_as_bytes(word.as_bytes(), &mut short);
        merges.start_as_bytes(word.as_bytes(), &mut long);
        merges.join_short(&mut short);
        merges.join_long(&mut long);
        prop_assert_eq!(short.symbols, long.symbols, "the algorithms differ on {:?}", word);
    }

    #[test]
    fn merging_from_characters_equals_merging_from_bytes(
        merges in prop::collection::vec("[bÃĤ©ªå¥æ]{1,3} [bÃĤ©ªå¥æ]{1,3}", 1..40),
        word in "[béêå\u{e5a5}\u{5965}]{0,12}",
    ) {
        let joined = merges.iter().map(|merge| merge.replace(' ', ""));
        let tokens: Vec<String> = alphabet::letters().iter().map(char::to_string).chain(joined).collect();
        let merges = Merges::build(&Vocab { tokens, merges, ..Vocab::default() }, Start::Bytes).expect("well-formed");
        let mut scratch = Scratch::default();
        merges.start_as_bytes(word.as_bytes(), &mut scratch);
        merges.join_short(&mut scratch);
        let wanted = scratch.symbols.clone();
        if merges.start_as_chars(&word, &mut scratch) {
            merges.join_short(&mut scratch);
            prop_assert_eq!(scratch.symbols, wanted, "{:?}", word);
        }
    }
}
