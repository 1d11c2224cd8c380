//! SentencePiece BPE on a vocabulary small enough to work out by hand, and compared with a linear search.

use proptest::prelude::*;

use super::*;

const PIECES: &[(&str, f32, i32)] = &[
    ("<unk>", 0.0, 2),
    ("<s>", 0.0, 3),
    ("<0x41>", 0.0, 6),
    ("<0xC3>", 0.0, 6),
    ("<0xA9>", 0.0, 6),
    ("▁", -9.0, 1),
    ("a", -10.0, 1),
    ("b", -11.0, 1),
    ("ab", -1.0, 1),
    ("▁a", -2.0, 1),
    ("▁ab", -3.0, 1),
    ("bb", -0.0, 1),
    ("aa", 0.0, 1),
    ("<", -12.0, 1),
    ("s", -13.0, 1),
    (">", -14.0, 1),
    ("<s", -4.0, 1),
    ("▁▁", -5.0, 1),
];

fn vocab(pieces: &[(&str, f32, i32)]) -> (Vocab, Vec<TokenKind>) {
    let vocab = Vocab {
        tokens: pieces.iter().map(|piece| piece.0.to_owned()).collect(),
        scores: pieces.iter().map(|piece| piece.1).collect(),
        types: pieces.iter().map(|piece| piece.2).collect(),
        ..Vocab::default()
    };
    let kinds = vocab.kinds().expect("the pieces are consistent");
    (vocab, kinds)
}

fn encode(pieces: &[(&str, f32, i32)], text: &str, at_start: bool) -> Vec<u32> {
    let (vocab, kinds) = vocab(pieces);
    let mut ids = Vec::new();
    SentencePiece::build(&vocab, &kinds, Some(0), true).encode(text, at_start, &mut ids);
    ids
}

fn check(text: &str, at_start: bool, wanted: &[u32]) {
    assert_eq!(encode(PIECES, text, at_start), wanted, "{text:?}, at_start: {at_start}");
}

#[test]
fn best_score_then_leftmost_pair_is_merged() {
    check("ab", true, &[10]);
    check("ab", false, &[8]);
    check("abb", false, &[6, 11]);
    check("aabb", false, &[12, 11]);
    check("aaa", false, &[12, 6]);
    check("ab  ab", true, &[10, 5, 10]);
    check("  b", false, &[17, 7]);
}

#[test]
fn unknown_characters_become_bytes_or_unknown() {
    check("Aé", false, &[2, 3, 4]);
    check("xyé漢a", false, &[0, 3, 4, 0, 6]);
    check("", false, &[]);
}

#[test]
fn text_never_becomes_control_tokens() {
    check("<s>", false, &[16, 15]);
    check("<0x41>", false, &[13, 0, 15]);
}

#[test]
fn piece_across_a_blank_is_found() {
    let with = [PIECES, &[("b▁a", 1.0, 1)]].concat();
    assert_eq!(encode(&with, "b a", false), [18], "the piece across the blank");
    assert_eq!(encode(PIECES, "b a", false), [7, 9], "and without it");
}

#[test]
fn nan_scores_rank_last() {
    let order = [f32::NAN, f32::NEG_INFINITY, -1.0, 0.0, 1.0, f32::INFINITY].map(rank);
    assert!(order.is_sorted() && order[0] < order[1], "{order:?}");
    assert_eq!(rank(-0.0), rank(0.0), "both zeros rank equally");
}

/// Reference implementation: linear search for the best pair of the whole text after each join.
fn by_search(pieces: &[(&str, f32, i32)], text: &str) -> Vec<u32> {
    let id_of = |text: &str| pieces.iter().rposition(|piece| piece.0 == text && piece.2 == 1);
    let mut parts: Vec<String> = text.replace(' ', "▁").chars().map(String::from).collect();
    loop {
        let mut best: Option<(usize, f32)> = None;
        for at in 1..parts.len() {
            let score = id_of(&(parts[at - 1].clone() + &parts[at])).map(|id| pieces[id].1);
            if let Some(score) = score
                && best.is_none_or(|(_, found)| score > found)
            {
                best = Some((at, score));
            }
        }
        let Some((at, _)) = best else { break };
        let joined = parts.remove(at);
        parts[at - 1] += &joined;
    }
    parts.iter().map(|part| id_of(part).expect("every letter is a piece") as u32).collect()
}

proptest! {
    #[test]
    fn heap_joining_equals_linear_search(
        more in prop::collection::btree_map("[ab▁]{2,4}", -20..0_i32, 0..12),
        text in "[ab ]{0,30}",
    ) {
        let more: Vec<(&str, f32, i32)> = more.iter().map(|(text, score)| (text.as_str(), *score as f32, 1)).collect();
        let letters = [("▁", -30.0, 1), ("a", -30.0, 1), ("b", -30.0, 1)];
        let pieces = [letters.as_slice(), more.as_slice()].concat();
        // The repeated text is long enough for the cache of recent words.
        for text in [text.clone(), text.repeat(100)] {
            prop_assert_eq!(encode(&pieces, &text, false), by_search(&pieces, &text), "{:?} of {:?}", text, pieces);
        }
    }
}
