//! Unigram: the segmentation of a text with the greatest sum of scores (Kudo 2018, arXiv:1804.10959), by a Viterbi
//! search. A character without a piece scores ten less than the worst piece, and a run of such characters is one
//! unknown token. Of two paths with the same sum, the first one wins.
//!
//! Before that, the text is normalised: by the vocabulary's table (`charsmap`), blanks are written as `▁`, and runs of
//! blanks are merged if the file's flag is set.

use crate::blanks::BLANK;
use crate::charsmap::Charsmap;
use crate::error::Error;
use crate::trie::Trie;
use crate::vocab::{TokenKind, Vocab};

/// Difference between the worst piece and an unknown character.
const UNKNOWN_PENALTY: f32 = 10.0;

/// A vocabulary of scored pieces, and how its texts are normalised.
#[derive(Debug)]
pub(crate) struct Unigram {
    trie: Trie,
    /// Scores by token id. User-defined tokens score 0. Sums use double precision, as in SentencePiece.
    scores: Vec<f64>,
    unknown: Option<u32>,
    unknown_score: f64,
    charsmap: Option<Charsmap>,
    space_prefix: bool,
    merge_spaces: bool,
}

/// Best path to a position of the text.
#[derive(Debug, Clone, Copy)]
struct Path {
    score: f64,
    /// Start of the last piece of the segmentation.
    start: usize,
    /// Last piece of the segmentation; `None` for an unknown character.
    id: Option<u32>,
}

impl Unigram {
    /// Builds the tokenizer. The caller has checked the number of scores.
    pub(crate) fn build(
        vocab: &Vocab,
        kinds: &[TokenKind],
        unknown: Option<u32>,
        space_prefix: bool,
    ) -> Result<Unigram, Error> {
        let named = || {
            (0..)
                .zip(&vocab.tokens)
                .zip(&vocab.scores)
                .zip(kinds)
                .map(|(((id, text), score), kind)| (id, text, *score, *kind))
        };
        let worst =
            named().filter(|named| named.3 == TokenKind::Normal).fold(f32::MAX, |worst, named| worst.min(named.2));
        let pieces =
            named().filter(|named| matches!(named.3, TokenKind::Normal | TokenKind::UserDefined | TokenKind::Unused));
        Ok(Unigram {
            trie: Trie::build(pieces.map(|(id, text, ..)| (text.as_bytes(), id))),
            scores: named()
                .map(|(_, _, score, kind)| if kind == TokenKind::UserDefined { 0.0 } else { f64::from(score) })
                .collect(),
            unknown,
            unknown_score: f64::from(worst - UNKNOWN_PENALTY),
            charsmap: Charsmap::build(&vocab.charsmap)?,
            space_prefix,
            merge_spaces: vocab.remove_extra_whitespaces.unwrap_or(false),
        })
    }

    /// Appends the ids of a part of the input.
    pub(crate) fn encode(&self, text: &str, ids: &mut Vec<u32>) {
        let text = self.normalise(text.as_bytes());
        let from = ids.len();
        let mut place = text.len();
        let best_paths = self.best_paths(&text);
        let mut after_unknown = false;
        while place > 0 {
            let Some(path) = best_paths.get(place) else { break };
            match path.id {
                Some(id) => ids.push(id),
                None if after_unknown => {}
                None => ids.extend(self.unknown),
            }
            after_unknown = path.id.is_none();
            place = path.start;
        }
        if let Some(new) = ids.get_mut(from..) {
            new.reverse();
        }
    }

    /// Returns the best path to each position of the text. Positions without a path, which NaN scores can cause, count
    /// as one unknown run from the start.
    fn best_paths(&self, text: &[u8]) -> Vec<Path> {
        let mut best_paths = vec![Path { score: f64::NEG_INFINITY, start: 0, id: None }; text.len() + 1];
        if let Some(first) = best_paths.first_mut() {
            first.score = 0.0;
        }
        let mut place = 0;
        while let Some(rest) = text.get(place..).filter(|rest| !rest.is_empty()) {
            let score = best_paths.get(place).map_or(0.0, |path| path.score);
            let letter = letter_bytes(rest);
            let mut covered = false;
            let mut offer = |end: usize, score: f64, id: Option<u32>| {
                if let Some(path) = best_paths.get_mut(end)
                    && score > path.score
                {
                    *path = Path { score, start: place, id };
                }
            };
            self.trie.prefixes(rest, |length, id| {
                covered |= length == letter;
                let piece = self.scores.get(id as usize).copied().unwrap_or(0.0);
                offer(place + length, score + piece, Some(id));
            });
            if !covered {
                offer(place + letter, score + self.unknown_score, None);
            }
            place += letter;
        }
        best_paths
    }

    fn normalise(&self, text: &[u8]) -> Vec<u8> {
        let mut blank = [0; 4];
        let blank = BLANK.encode_utf8(&mut blank).as_bytes();
        let mut normal = Vec::with_capacity(text.len() + text.len() / 2 + blank.len());
        let (mut prefixed, mut in_word) = (false, false);
        let mut at = 0;
        while let Some(rest) = text.get(at..).filter(|rest| !rest.is_empty()) {
            let (length, written) = match self.charsmap.as_ref().and_then(|map| map.replace(rest)) {
                Some((length, replacement)) => (length, replacement),
                None => {
                    let length = letter_bytes(rest);
                    (length, rest.get(..length).unwrap_or_default())
                }
            };
            at += length;
            for &byte in written {
                if byte == b' ' {
                    in_word = false;
                    if !self.merge_spaces {
                        normal.extend_from_slice(blank);
                    }
                    continue;
                }
                if !in_word {
                    in_word = true;
                    if self.merge_spaces || self.space_prefix && !prefixed {
                        normal.extend_from_slice(blank);
                        prefixed = true;
                    }
                }
                normal.push(byte);
            }
        }
        normal
    }
}

/// Returns the length of the first character by its first byte. Replacements may be invalid UTF-8.
fn letter_bytes(rest: &[u8]) -> usize {
    let wanted = match rest.first() {
        Some(0xF0..) => 4,
        Some(0xE0..) => 3,
        Some(0xC0..) => 2,
        _ => 1,
    };
    wanted.min(rest.len())
}

#[cfg(test)]
mod tests;
