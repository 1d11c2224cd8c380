//! Unigram on a vocabulary small enough to work out by hand, and compared with an exhaustive search.

use proptest::prelude::*;

use super::*;

const PIECES: &[(&str, f32, i32)] = &[
    ("<unk>", 0.0, 2),
    ("</s>", 0.0, 3),
    ("▁", -2.0, 1),
    ("a", -3.0, 1),
    ("b", -3.5, 1),
    ("ab", -4.0, 1),
    ("▁a", -4.0, 1),
    ("▁ab", -8.0, 1),
    ("bab", -1.0, 5),
    ("漢字", -1.0, 1),
    ("aaaa", -99.0, 4),
];

fn unigram(pieces: &[(&str, f32, i32)], change: impl FnOnce(&mut Vocab), space_prefix: bool) -> Unigram {
    let mut vocab = Vocab {
        tokens: pieces.iter().map(|piece| piece.0.to_owned()).collect(),
        scores: pieces.iter().map(|piece| piece.1).collect(),
        types: pieces.iter().map(|piece| piece.2).collect(),
        ..Vocab::default()
    };
    change(&mut vocab);
    let kinds = vocab.kinds().expect("the pieces are consistent");
    Unigram::build(&vocab, &kinds, Some(0), space_prefix).expect("the vocabulary is valid")
}

fn encode(unigram: &Unigram, text: &str) -> Vec<u32> {
    let mut ids = Vec::new();
    unigram.encode(text, &mut ids);
    ids
}

fn check(text: &str, wanted: &[u32]) {
    assert_eq!(encode(&unigram(PIECES, |_| {}, false), text), wanted, "{text:?}");
}

#[test]
fn best_sum_of_scores_wins() {
    check("ab", &[5]);
    check(" ab", &[2, 5]);
    check("a b", &[3, 2, 4]);
    check("bab", &[8]);
    check("aaaab", &[10, 4]);
    check("", &[]);
}

#[test]
fn run_of_unknown_characters_is_one_token() {
    check("axyzb", &[3, 0, 4]);
    check("漢字", &[9]);
    check("漢漢字字", &[0, 9, 0]);
}

#[test]
fn blanks_are_normalised_by_flags() {
    let check = |merge: bool, prefix: bool, text: &str, wanted: &str| {
        let unigram = unigram(PIECES, |vocab| vocab.remove_extra_whitespaces = Some(merge), prefix);
        let normal = String::from_utf8(unigram.normalise(text.as_bytes())).expect("text stays text");
        assert_eq!(normal, wanted, "{text:?}, merged: {merge}, prefixed: {prefix}");
    };
    check(false, false, " a  b ", "▁a▁▁b▁");
    check(false, true, "a  b ", "▁a▁▁b▁");
    check(false, true, " a b", "▁▁a▁b");
    check(true, true, "  a  b ", "▁a▁b");
    check(true, false, "a b", "▁a▁b");
    check(true, true, "  ", "");
}

#[test]
fn extreme_scores_still_give_tokens() {
    for score in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY, f32::MAX, f32::MIN] {
        let pieces: Vec<(&str, f32, i32)> = PIECES.iter().map(|&(text, _, kind)| (text, score, kind)).collect();
        let ids = encode(&unigram(&pieces, |_| {}, false), "ab x 漢字");
        assert!(!ids.is_empty(), "{score} gives {ids:?}");
    }
}

/// The best sum over all segmentations of `text`, with unknown characters included.
fn best_sum(pieces: &[(&str, f32, i32)], unknown: f64, text: &str) -> f64 {
    let Some(letter) = text.chars().next() else { return 0.0 };
    let mut best = f64::NEG_INFINITY;
    let mut covered = false;
    for &(piece, score, _) in pieces.iter().filter(|piece| piece.2 == 1) {
        if let Some(rest) = text.strip_prefix(piece) {
            covered |= piece.len() == letter.len_utf8();
            best = best.max(f64::from(score) + best_sum(pieces, unknown, rest));
        }
    }
    if covered { best } else { best.max(unknown + best_sum(pieces, unknown, &text[letter.len_utf8()..])) }
}

proptest! {
    #[test]
    fn viterbi_equals_exhaustive_search(
        pieces in prop::collection::btree_map("[abé]{1,3}", -9..0_i32, 1..8),
        text in "[abéx]{0,9}",
    ) {
        let pieces: Vec<(&str, f32, i32)> = pieces.iter().map(|(text, score)| (text.as_str(), *score as f32, 1)).collect();
        let unigram = unigram(&pieces, |_| {}, false);
        let last = unigram.best_paths(text.as_bytes()).last().expect("a path to the end exists").score;
        prop_assert_eq!(last, best_sum(&pieces, unigram.unknown_score, &text), "{:?} of {:?}", text, pieces);
    }
}
