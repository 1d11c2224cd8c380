//! SentencePiece BPE: a text starts as characters, and the adjacent pair whose joined text has the best score is joined
//! until no pair is a piece (Kudo and Richardson 2018, arXiv:1808.06226). Characters that are not a piece become byte
//! tokens, `<0xAB>`, if the vocabulary has them, else the unknown token.
//!
//! Blanks are written as `▁`. If the file's flag is set, a text at the start of the input or after a special token gets
//! a leading blank. Joining never creates control or byte tokens, so user input stays text.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::blanks::{self, Words};
use crate::pieces::{Index, Pieces};
use crate::recent_words::RecentWords;
use crate::trie::LONGEST_BYTES;
use crate::vocab::{TokenKind, Vocab, byte_name};

/// No piece, no neighbour.
const NONE: u32 = u32::MAX;

/// A vocabulary of scored pieces.
#[derive(Debug)]
pub(crate) struct SentencePiece {
    /// Token texts of the file, with `▁` for blanks.
    texts: Pieces,
    index: Index,
    /// Rank of the score, by id.
    ranks: Vec<u32>,
    /// Token of each byte, or [`NONE`].
    bytes: Vec<u32>,
    unknown: Option<u32>,
    space_prefix: bool,
    longest_bytes: usize,
    words: Words,
}

/// Piece of the text, in a linked list.
#[derive(Debug, Clone, Copy)]
struct Link {
    start: u32,
    /// Equal to `start` after the piece was joined to the previous one.
    end: u32,
    id: u32,
    before: u32,
    after: u32,
}

/// Candidate pair. The greatest has the best score, then the leftmost position.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Candidate {
    rank: u32,
    left: Reverse<u32>,
    right: u32,
    /// End of the joined piece. A different end marks a stale candidate.
    end: u32,
    id: u32,
}

/// Buffers for joining, reused for all words.
#[derive(Default)]
struct Scratch {
    chain: Vec<Link>,
    queue: BinaryHeap<Candidate>,
}

impl SentencePiece {
    /// Builds the tokenizer. The caller has checked the number of scores.
    pub(crate) fn build(vocab: &Vocab, kinds: &[TokenKind], unknown: Option<u32>, space_prefix: bool) -> SentencePiece {
        let mut texts = Pieces::default();
        for text in &vocab.tokens {
            texts.push(|bytes| bytes.extend_from_slice(text.as_bytes()));
        }
        let is_joinable = |id: u32| {
            let kind = kinds.get(id as usize);
            matches!(kind, Some(TokenKind::Normal | TokenKind::UserDefined | TokenKind::Unused))
                && texts.get(id).len() <= LONGEST_BYTES
        };
        let index = Index::build(&texts, is_joinable);
        let mut bytes = vec![NONE; 256];
        for ((id, text), kind) in (0..).zip(&vocab.tokens).zip(kinds) {
            if *kind == TokenKind::Byte
                && let Some(place) = byte_name(text).and_then(|byte| bytes.get_mut(usize::from(byte)))
            {
                *place = id;
            }
        }
        let joined = || (0..).zip(&vocab.tokens).filter(|&(id, _)| is_joinable(id)).map(|(_, text)| text.as_str());
        SentencePiece {
            ranks: vocab.scores.iter().map(|&score| rank(score)).collect(),
            bytes,
            unknown,
            space_prefix,
            longest_bytes: joined().map(str::len).max().unwrap_or(0),
            words: Words::new(joined().flat_map(blanks::before_blanks).collect()),
            texts,
            index,
        }
    }

    /// Appends the ids of a part of the input. `at_start`: the part begins the input or follows a special token.
    pub(crate) fn encode(&self, part: &str, at_start: bool, ids: &mut Vec<u32>) {
        let mut text = String::with_capacity(part.len() + part.len() / 2 + 3);
        if self.space_prefix && at_start {
            text.push(blanks::BLANK);
        }
        blanks::escape(part, &mut text);
        let mut scratch = Scratch::default();
        let mut recent = RecentWords::for_text(&text);
        self.words.cut(&text, 0, &mut |range| {
            let word = text.get(range).unwrap_or_default();
            recent.ids_of(word.as_bytes(), ids, |ids| self.join(word, &mut scratch, ids));
        });
    }

    /// Returns the piece that equals `text[start..end]`.
    fn find(&self, text: &str, start: u32, end: u32) -> Option<u32> {
        let piece = text.as_bytes().get(start as usize..end as usize)?;
        if piece.len() > self.longest_bytes { None } else { self.index.find(&self.texts, piece) }
    }

    fn join(&self, text: &str, scratch: &mut Scratch, ids: &mut Vec<u32>) {
        // Positions have 32 bits. Prompts are far below 4 GiB.
        if u32::try_from(text.len()).is_err() {
            return;
        }
        let Scratch { chain, queue } = scratch;
        chain.clear();
        queue.clear();
        for (at, (start, letter)) in (0_u32..).zip(text.char_indices()) {
            let (start, end) = (start as u32, (start + letter.len_utf8()) as u32);
            let id = self.find(text, start, end).unwrap_or(NONE);
            chain.push(Link { start, end, id, before: at.wrapping_sub(1), after: at + 1 });
        }
        let offer = |chain: &[Link], left: u32, right: u32, queue: &mut BinaryHeap<Candidate>| {
            if let (Some(first), Some(second)) = (chain.get(left as usize), chain.get(right as usize))
                && let Some(id) = self.find(text, first.start, second.end)
            {
                let rank = self.ranks.get(id as usize).copied().unwrap_or(0);
                queue.push(Candidate { rank, left: Reverse(left), right, end: second.end, id });
            }
        };
        for right in 1..chain.len() as u32 {
            offer(chain, right - 1, right, queue);
        }
        while let Some(Candidate { left: Reverse(left), right, end, id, .. }) = queue.pop() {
            let (Some(&first), Some(&second)) = (chain.get(left as usize), chain.get(right as usize)) else { continue };
            let stale = first.end != second.start || second.end != end || first.start == first.end;
            if stale {
                continue;
            }
            if let Some(link) = chain.get_mut(left as usize) {
                *link = Link { end, id, after: second.after, ..first };
            }
            if let Some(link) = chain.get_mut(right as usize) {
                link.end = link.start;
            }
            if let Some(link) = chain.get_mut(second.after as usize) {
                link.before = left;
            }
            offer(chain, first.before, left, queue);
            offer(chain, left, second.after, queue);
        }
        for link in chain.iter().filter(|link| link.start < link.end) {
            match link.id {
                NONE => self.spell(text.get(link.start as usize..link.end as usize).unwrap_or_default(), ids),
                id => ids.push(id),
            }
        }
    }

    /// Appends the byte tokens of a character without a piece, or one unknown token for a run of such characters.
    fn spell(&self, letter: &str, ids: &mut Vec<u32>) {
        let start = ids.len();
        for byte in letter.bytes() {
            match self.bytes.get(usize::from(byte)) {
                Some(&id) if id != NONE => ids.push(id),
                _ => {
                    ids.truncate(start);
                    if ids.last().copied() != self.unknown {
                        ids.extend(self.unknown);
                    }
                    return;
                }
            }
        }
    }
}

/// Maps a score to an integer with the same order. NaN is the lowest.
fn rank(score: f32) -> u32 {
    if score.is_nan() {
        return 0;
    }
    // Adding zero turns -0.0 into 0.0, which are equal as scores.
    let bits = (score + 0.0).to_bits();
    if bits >> 31 == 0 { bits | 1 << 31 } else { !bits }
}

#[cfg(test)]
mod tests;
