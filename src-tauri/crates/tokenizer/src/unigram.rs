//! Unigram: of all ways to cut a text into pieces, the one with the greatest sum of scores (Kudo 2018, arXiv:1804.10959). The
//! search goes over the places of the text once (Viterbi); a character that no piece covers costs ten more than the worst piece,
//! and a run of such characters is one unknown token. Where two ways have the same sum, the one found first stays.
//!
//! Before that, the text is normalised: replacements of the vocabulary's table (`charsmap`), blanks written as `▁`, runs of
//! blanks merged into one if the file says so.

use crate::blanks::BLANK;
use crate::charsmap::Charsmap;
use crate::error::Error;
use crate::trie::Trie;
use crate::vocab::{Kind, Vocab};

/// How much worse than the worst piece an unknown character is.
const UNKNOWN_PENALTY: f32 = 10.0;

/// A vocabulary of scored pieces, and how its texts are normalised.
#[derive(Debug)]
pub(crate) struct Unigram {
    trie: Trie,
    /// By id; a user-defined piece costs nothing. Sums are in double precision, as SentencePiece's are.
    scores: Vec<f64>,
    unknown: Option<u32>,
    unknown_score: f64,
    charsmap: Option<Charsmap>,
    space_prefix: bool,
    merge_spaces: bool,
}

/// The best way found so far to a place of the text.
#[derive(Debug, Clone, Copy)]
struct Way {
    score: f64,
    /// Where its last piece starts.
    start: usize,
    /// Its last piece, or none for an unknown character.
    id: Option<u32>,
}

impl Unigram {
    /// Takes the pieces over; the scores have been counted.
    pub(crate) fn build(
        vocab: &Vocab,
        kinds: &[Kind],
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
        let worst = named().filter(|named| named.3 == Kind::Normal).fold(f32::MAX, |worst, named| worst.min(named.2));
        let pieces = named().filter(|named| matches!(named.3, Kind::Normal | Kind::UserDefined | Kind::Unused));
        Ok(Unigram {
            trie: Trie::build(pieces.map(|(id, text, ..)| (text.as_bytes(), id))),
            scores: named()
                .map(|(_, _, score, kind)| if kind == Kind::UserDefined { 0.0 } else { f64::from(score) })
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
        let ways = self.ways(&text);
        let mut after_unknown = false;
        while place > 0 {
            let Some(way) = ways.get(place) else { break };
            match way.id {
                Some(id) => ids.push(id),
                None if after_unknown => {}
                None => ids.extend(self.unknown),
            }
            after_unknown = way.id.is_none();
            place = way.start;
        }
        if let Some(new) = ids.get_mut(from..) {
            new.reverse();
        }
    }

    /// The best way to each place of the text. A place that none leads to, as scores that are no numbers allow, counts as one
    /// unknown run from the start.
    fn ways(&self, text: &[u8]) -> Vec<Way> {
        let mut ways = vec![Way { score: f64::NEG_INFINITY, start: 0, id: None }; text.len() + 1];
        if let Some(first) = ways.first_mut() {
            first.score = 0.0;
        }
        let mut place = 0;
        while let Some(rest) = text.get(place..).filter(|rest| !rest.is_empty()) {
            let score = ways.get(place).map_or(0.0, |way| way.score);
            let letter = letter_bytes(rest);
            let mut covered = false;
            let mut offer = |end: usize, score: f64, id: Option<u32>| {
                if let Some(way) = ways.get_mut(end)
                    && score > way.score
                {
                    *way = Way { score, start: place, id };
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
        ways
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

/// How many bytes the character at the front has, by its first byte: replacements need not be UTF-8.
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
